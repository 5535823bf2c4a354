//! Two proofs over all cases (I6): looking again changes nothing, and a write that fails changes nothing in the end.
//!
//! The second is the crash proof too: a write that fails ends the sync there, as a crash would, and the next look starts
//! from what was saved. Each write of each case fails in three ways: the server refuses it, another writer is faster, and
//! the server does it but the answer is lost.

use super::play::{run_to_the_end, stage, state, wanted};
use super::table::{self, Case};
use crate::testing::FaultKind;

/// What can happen to a write.
const FAULTS: [(&str, FaultKind); 3] = [
    ("refused", FaultKind::Status(500, "InternalError", "injected")),
    ("conflict", FaultKind::Status(409, "Conflict", "injected")),
    ("answer lost", FaultKind::AnswerLost),
];

/// Cases whose end depends on how often something is tried.
fn is_countable(case: &Case) -> bool {
    !case.settled.is_empty() && !case.unit_only
}

/// The state at the end, with the n-th write failing if asked, and how many writes there were.
async fn end_of(case: &Case, fault: Option<(usize, &FaultKind)>) -> (Vec<String>, usize, bool) {
    let stage = stage(case, false);
    if let Some((nth, kind)) = fault {
        stage.api.fail_nth_write(nth, kind.clone());
    }
    run_to_the_end(case, &stage).await;
    let happened = stage.api.pending_faults() == 0;
    (state(&stage.api), stage.api.take_writes().len(), happened)
}

fn is_legal(case: &Case, have: &[String]) -> bool {
    case.settled.iter().any(|end| wanted(case, end.objects) == have)
}

#[tokio::test(start_paused = true)]
async fn every_look_twice_changes_nothing() {
    for case in table::all().filter(|case| !case.settled.is_empty()) {
        let stage = stage(case, case.unit_only);
        run_to_the_end(case, &stage).await;
        let before = stage.api.dump();
        stage.api.take_writes();
        stage.binder.resync();
        stage.api.settle().await;
        let writes = stage.api.take_writes();
        assert!(writes.is_empty(), "{}: still writes at rest: {writes:?}", case.id);
        assert_eq!(stage.api.dump(), before, "{}", case.id);
    }
}

#[tokio::test(start_paused = true)]
async fn every_write_failing_in_turn_ends_the_same() {
    let (mut runs, mut problems) = (0, Vec::new());
    for case in table::all().filter(|case| is_countable(case)) {
        let (_, writes, _) = end_of(case, None).await;
        for (what, kind) in &FAULTS {
            for nth in 0..writes {
                let (have, _, happened) = end_of(case, Some((nth, kind))).await;
                runs += 1;
                if happened && !is_legal(case, &have) {
                    problems.push(format!("{}: write {nth} {what}: {}", case.id, have.join("\n    ")));
                }
            }
        }
    }
    assert!(runs > 500, "only {runs} runs: nothing was proved");
    assert!(
        problems.is_empty(),
        "{} of {runs} runs ended elsewhere:\n{}",
        problems.len(),
        problems.join("\n")
    );
}
