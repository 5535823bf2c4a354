//! Two properties of all cases (I6): a repeated sync changes nothing, and a failed write does not change the end
//! state.
//!
//! The second covers crashes too: a failed write ends the sync at that point, as a crash would, and the next sync
//! starts from the saved state. Each write of each case fails in three ways: the server rejects it, another
//! writer is faster, and the server performs it but the response is lost.

use super::play::{LONG, SHORT, run_to_the_end, stage, state, wanted};
use super::table::{self, Case};
use crate::testing::FaultKind;

/// Excludes cases whose end state depends on the number of attempts.
fn is_countable(case: &Case) -> bool {
    // One of the wide cases represents all: they differ in the search result, not in the writes.
    !case.settled.is_empty() && !case.unit_only && (!case.wide || case.id == "IDX-MATCH-1")
}

/// The end state and the number of writes, with the n-th write failing if requested.
async fn end_of(case: &Case, fault: Option<(usize, &FaultKind)>) -> (Vec<String>, usize, bool) {
    let stage = stage(case, false);
    if let Some((nth, kind)) = fault {
        stage.api.fail_nth_write(nth, kind.clone());
    }
    run_to_the_end(case, &stage, SHORT).await;
    let happened = stage.api.pending_faults() == 0;
    (state(&stage.api), stage.api.take_writes().len(), happened)
}

fn is_legal(case: &Case, have: &[String]) -> bool {
    case.settled.iter().any(|end| wanted(case, end.objects) == have)
}

#[tokio::test(start_paused = true)]
async fn repeated_sync_changes_nothing() {
    for case in table::all().filter(|case| !case.settled.is_empty()) {
        let stage = stage(case, case.unit_only);
        run_to_the_end(case, &stage, LONG).await;
        let before = stage.api.dump();
        stage.api.take_writes();
        // A resync would skip settled objects; here every object is queued.
        stage
            .binder
            .claim_cache
            .kept()
            .iter()
            .for_each(|claim| stage.binder.claims.add(claim.key().to_string()));
        stage
            .binder
            .volume_cache
            .kept()
            .iter()
            .for_each(|volume| stage.binder.volumes.add(volume.key().to_string()));
        stage.api.settle().await;
        let writes = stage.api.take_writes();
        assert!(writes.is_empty(), "{}: still writes at rest: {writes:?}", case.id);
        assert_eq!(stage.api.dump(), before, "{}", case.id);
    }
}

/// Fails each write of each case once with `kind`.
async fn prove(kind: FaultKind) {
    let (mut runs, mut problems) = (0, Vec::new());
    for case in table::all().filter(|case| is_countable(case)) {
        let (_, writes, _) = end_of(case, None).await;
        for nth in 0..writes {
            let (have, _, happened) = end_of(case, Some((nth, &kind))).await;
            runs += 1;
            if happened && !is_legal(case, &have) {
                problems.push(format!("{}: write {nth}: {}", case.id, have.join("\n    ")));
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 300, "only {runs} runs: nothing was proved");
    assert!(
        problems.is_empty(),
        "{} of {runs} runs ended elsewhere:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[tokio::test(start_paused = true)]
async fn rejecting_any_write_does_not_change_the_end_state() {
    prove(FaultKind::Status(500, "InternalError", "injected")).await;
}

#[tokio::test(start_paused = true)]
async fn conflict_on_any_write_does_not_change_the_end_state() {
    prove(FaultKind::Status(409, "Conflict", "injected")).await;
}

#[tokio::test(start_paused = true)]
async fn losing_any_response_does_not_change_the_end_state() {
    prove(FaultKind::AnswerLost).await;
}
