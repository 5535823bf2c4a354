//! Checks for every controller: a second start changes nothing, and each write may fail once without changing the
//! final state (I6).

use serde_json::Value;

use super::{FakeApi, FaultKind};
use crate::context::Run;
use crate::options::Options;

/// Runs a scenario: seeds the initial state, starts the controllers, waits until they settle, calls `act`, and
/// waits again. Returns the final state.
async fn play(
    controllers: &[Run],
    options: &Options,
    seed: fn(&FakeApi),
    act: fn(&FakeApi),
    fault: Option<(usize, FaultKind)>,
) -> (FakeApi, Vec<Value>, usize) {
    let api = FakeApi::new();
    seed(&api);
    if let Some((nth, kind)) = fault {
        api.fail_nth_write(nth, kind);
    }
    let running = api.start(controllers, options.clone());
    api.settle().await;
    act(&api);
    api.settle().await;
    api.settle().await;
    drop(running);
    let writes = api.take_writes().len();
    let end = api.dump();
    (api, end, writes)
}

/// Runs the scenario without faults, starts the controllers again on the final state (they must not write), then
/// repeats the scenario with each write failing in every way. Returns the server of the run without faults.
pub(crate) async fn survives_faults(
    controllers: &[Run],
    options: Options,
    seed: fn(&FakeApi),
    act: fn(&FakeApi),
) -> FakeApi {
    let (api, wanted, writes) = play(controllers, &options, seed, act, None).await;
    let again = api.start(controllers, options.clone());
    api.settle().await;
    drop(again);
    assert_eq!(api.take_writes(), [], "a second start finds nothing to do");
    for nth in 0..writes {
        let kinds = [
            FaultKind::Broken,
            FaultKind::AnswerLost,
            FaultKind::Status(409, "Conflict", "the object has been modified"),
            FaultKind::Status(500, "InternalError", "no"),
        ];
        for kind in kinds {
            let (api, end, _) = play(controllers, &options, seed, act, Some((nth, kind.clone()))).await;
            assert_eq!(end, wanted, "after write {nth} of {writes} failed with {kind:?}");
            assert_eq!(api.pending_faults(), 0, "the fault happened");
        }
    }
    api
}
