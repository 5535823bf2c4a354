//! Every API write and every driver call may fail once in every way, and the process may die at any time.

use super::*;
use crate::testing::FaultKind;

/// Two claims receive volumes, and one claim is deleted again.
async fn play(rig: &Rig) {
    rig.api.create(claim("a", json!({})));
    rig.api.create(claim("b", json!({})));
    rig.api.settle().await;
    rig.api.delete("persistentvolumeclaims", "ns/a");
    rig.api.settle().await;
    rig.api.settle().await;
}

fn came_out_well(rig: &Rig, when: &str) {
    assert!(rig.api.get("persistentvolumeclaims", "ns/a").is_none(), "{when}: the first claim is gone");
    assert_eq!(rig.phase("b"), "Bound", "{when}");
    assert_eq!(rig.double.volume_ids().len(), 1, "{when}");
    rig.nothing_leaks(when);
    rig.no_notes(when);
}

#[tokio::test(start_paused = true)]
async fn i9_any_write_can_fail_once() {
    let rig = Rig::simple().await;
    let running = rig.start();
    play(&rig).await;
    came_out_well(&rig, "without faults");
    drop(running);
    let writes = rig.api.take_writes().len();
    assert!(writes > 12, "{writes}");
    let again = rig.start();
    rig.api.settle().await;
    drop(again);
    assert_eq!(rig.api.take_writes(), [], "a second start finds nothing to do");
    for nth in 0..writes {
        for kind in [
            FaultKind::Broken,
            FaultKind::AnswerLost,
            FaultKind::Status(409, "Conflict", "the object has been modified"),
        ] {
            let rig = Rig::simple().await;
            rig.api.fail_nth_write(nth, kind.clone());
            let _running = rig.start();
            play(&rig).await;
            let when = format!("after write {nth} of {writes} failed with {kind:?}");
            assert_eq!(rig.api.pending_faults(), 0, "{when}");
            came_out_well(&rig, &when);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i9_any_call_can_fail_once() {
    for nth in 0..3 {
        for kind in [
            Failing::Refuses(Code::Internal, "no"),
            Failing::Refuses(Code::Aborted, "later"),
            Failing::RefusesAfter(Code::Unavailable, "later"),
            Failing::RefusesAfter(Code::DeadlineExceeded, "late"),
            Failing::Broken,
            Failing::AnswerLost,
            Failing::NoAnswer,
            Failing::Garbage,
        ] {
            let rig = Rig::simple().await;
            rig.double.fail("*", nth, kind.clone());
            let _running = rig.start();
            play(&rig).await;
            let when = format!("after call {nth} failed with {kind:?}");
            assert_eq!(rig.double.pending_faults(), 0, "{when}");
            came_out_well(&rig, &when);
        }
    }
}

/// Runs a process that dies after some steps.
async fn run_for(rig: &Rig, steps: usize) {
    let running = rig.start();
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    drop(running);
    tokio::task::yield_now().await;
}

/// Counts the steps until a condition is true.
async fn steps_until(holds: impl Fn() -> bool) -> usize {
    for steps in 0..2000 {
        if holds() {
            return steps;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came to that");
}

/// The number of volumes in the driver and in the API.
fn held(rig: &Rig) -> (usize, usize) {
    (rig.double.volume_ids().len(), rig.volumes().len())
}

async fn with_two_claims() -> Rig {
    let rig = Rig::simple().await;
    rig.api.create(claim("a", json!({})));
    rig.api.create(claim("b", json!({})));
    rig
}

#[tokio::test(start_paused = true)]
async fn i9_process_can_die_at_any_step() {
    let rig = with_two_claims().await;
    let running = rig.start();
    let noted = steps_until(|| noted(&rig.claim("a")) != Noted::None).await;
    let done = noted + steps_until(|| rig.phase("a") == "Bound" && rig.phase("b") == "Bound").await;
    drop(running);
    let mut boundaries = BTreeSet::new();
    for steps in noted.saturating_sub(3)..done + 3 {
        let rig = with_two_claims().await;
        run_for(&rig, steps).await;
        boundaries.insert(held(&rig));
        // The class is deleted while no process runs. The claims with a note no longer need it.
        if rig.double.volume_ids().len() == 2 {
            rig.api.delete("storageclasses", "c");
        }
        rig.api.delete("persistentvolumeclaims", "ns/a");
        let _running = rig.start();
        rig.api.settle().await;
        came_out_well(&rig, &format!("died after {steps} steps"));
    }
    assert!(boundaries.contains(&(0, 0)) && boundaries.contains(&(2, 2)), "before and after: {boundaries:?}");
    assert!(boundaries.iter().any(|(driver, api)| driver > api), "in between: {boundaries:?}");
}

#[tokio::test(start_paused = true)]
async fn i9_process_can_die_at_any_step_of_a_deletion() {
    let bound = || async {
        let rig = with_two_claims().await;
        let running = rig.start();
        rig.api.settle().await;
        drop(running);
        rig.api.delete("persistentvolumeclaims", "ns/a");
        rig
    };
    let rig = bound().await;
    let running = rig.start();
    let asked = steps_until(|| rig.double.calls().len() == 3).await;
    let done = asked + steps_until(|| rig.volumes().len() == 1).await;
    drop(running);
    let mut boundaries = BTreeSet::new();
    for steps in asked.saturating_sub(3)..done + 3 {
        let rig = bound().await;
        run_for(&rig, steps).await;
        boundaries.insert(held(&rig));
        let _running = rig.start();
        rig.api.settle().await;
        came_out_well(&rig, &format!("died after {steps} steps"));
    }
    assert!(boundaries.contains(&(1, 2)), "deleted in the driver, not yet in the API: {boundaries:?}");
    assert!(boundaries.contains(&(2, 2)) && boundaries.contains(&(1, 1)), "{boundaries:?}");
}
