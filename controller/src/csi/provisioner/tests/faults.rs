//! Every write of the API, and every call of the driver, may fail once in every way; and the process may die at any moment.

use super::*;
use crate::testing::FaultKind;

/// Two claims get volumes, one is deleted again.
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
async fn i9_every_write_may_fail_once() {
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
            FaultKind::Status(500, "InternalError", "no"),
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
async fn i9_every_call_may_fail_once() {
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

/// The process dies after every number of steps that it can take, and a new one goes on.
#[tokio::test(start_paused = true)]
async fn i9_the_process_may_die_at_any_step() {
    let mut boundaries = BTreeSet::new();
    for steps in 0..400 {
        let rig = Rig::simple().await;
        rig.api.create(claim("a", json!({})));
        rig.api.create(claim("b", json!({})));
        let running = rig.start();
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        drop(running);
        tokio::task::yield_now().await;
        boundaries.insert((rig.double.volume_ids().len(), rig.volumes().len()));
        // Somebody takes the class away while nobody looks.
        if steps % 2 == 0 && rig.double.volume_ids().len() == 2 {
            rig.api.delete("storageclasses", "c");
        }
        rig.api.delete("persistentvolumeclaims", "ns/a");
        let _running = rig.start();
        rig.api.settle().await;
        rig.api.settle().await;
        came_out_well(&rig, &format!("died after {steps} steps"));
    }
    let seen = |driver, api| boundaries.contains(&(driver, api));
    assert!(seen(0, 0) && seen(2, 2), "before and after: {boundaries:?}");
    assert!(boundaries.iter().any(|(driver, api)| driver > api), "in between: {boundaries:?}");
}

#[tokio::test(start_paused = true)]
async fn i9_the_process_may_die_at_any_step_of_a_deletion() {
    let mut boundaries = BTreeSet::new();
    for steps in 0..300 {
        let rig = Rig::simple().await;
        rig.api.create(claim("a", json!({})));
        rig.api.create(claim("b", json!({})));
        let running = rig.start();
        rig.api.settle().await;
        rig.api.delete("persistentvolumeclaims", "ns/a");
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        drop(running);
        tokio::task::yield_now().await;
        boundaries.insert((rig.double.volume_ids().len(), rig.volumes().len()));
        let _running = rig.start();
        rig.api.settle().await;
        came_out_well(&rig, &format!("died after {steps} steps"));
    }
    assert!(boundaries.contains(&(1, 2)), "deleted in the driver, not yet in the API: {boundaries:?}");
    assert!(boundaries.contains(&(2, 2)) && boundaries.contains(&(1, 1)), "{boundaries:?}");
}
