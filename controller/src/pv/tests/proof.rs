//! Two proofs over all cases (I6): looking again changes nothing, and a write that fails changes nothing in the end.
//!
//! The second is the crash proof too: a write that fails ends the sync there, as a crash would, and the next look starts
//! from what was saved. Each write of each case fails in three ways: the server refuses it, another writer is faster, and
//! the server does it but the answer is lost.

use super::play::{LONG, SHORT, run_to_the_end, stage, state, wanted};
use super::table::{self, Case};
use crate::testing::FaultKind;

/// Cases whose end depends on how often something is tried.
fn is_countable(case: &Case) -> bool {
    // One of the wide ones stands for all: they differ in what the search finds, not in what is written.
    !case.settled.is_empty() && !case.unit_only && (!case.wide || case.id == "IDX-MATCH-1")
}

/// The state at the end, with the n-th write failing if asked, and how many writes there were.
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
async fn every_look_twice_changes_nothing() {
    for case in table::all().filter(|case| !case.settled.is_empty()) {
        let stage = stage(case, case.unit_only);
        run_to_the_end(case, &stage, LONG).await;
        let before = stage.api.dump();
        stage.api.take_writes();
        // A resync would leave out what is settled; here everything is looked at.
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

/// Lets each write of each case fail once in the same way.
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
async fn every_write_refused_in_turn_ends_the_same() {
    prove(FaultKind::Status(500, "InternalError", "injected")).await;
}

#[tokio::test(start_paused = true)]
async fn every_write_outrun_in_turn_ends_the_same() {
    prove(FaultKind::Status(409, "Conflict", "injected")).await;
}

#[tokio::test(start_paused = true)]
async fn every_write_with_a_lost_answer_in_turn_ends_the_same() {
    prove(FaultKind::AnswerLost).await;
}
