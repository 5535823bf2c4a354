//! What the tests of workloads share: pods that become ready, and a play in which every write fails once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Run;
use crate::options::Options;
use crate::testing::{FakeApi, FaultKind};

/// Marks a pod as an agent would: it runs and is ready since now.
pub(crate) fn make_ready(api: &FakeApi, key: &str) {
    let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": api.now()}]);
    api.patch("pods", key, "status", json!({"status": {"phase": "Running", "conditions": conditions}}));
}

/// `namespace/name` of every object of a kind.
pub(crate) fn keys(api: &FakeApi, plural: &str) -> Vec<String> {
    let key = |object: Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    api.list(plural).into_iter().map(key).collect()
}

/// The pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

/// Marks one pod after the other as ready, with time in between, until none is left for a while. `check` looks at the server after each
/// step.
pub(crate) async fn run_pods(api: &FakeApi, check: impl Fn(&FakeApi)) {
    let mut idle = 0;
    while idle < 8 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        check(api);
        match api.list("pods").iter().find(|pod| !is_ready(pod)) {
            Some(pod) => {
                let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
                make_ready(api, &format!("{}/{}", text("namespace"), text("name")));
                idle = 0;
            }
            None => idle += 1,
        }
    }
}

/// Plays a scenario again and again: every single write is once done without an answer, and once not done, in one of the ways in
/// which that happens. `check` says where it has to end.
pub(crate) async fn every_write_fails_once(
    controllers: &[Run],
    seed: fn(&FakeApi),
    act: fn(&FakeApi),
    check: fn(&FakeApi, &str),
) {
    let play = async |fault: Option<(usize, FaultKind)>| {
        let api = FakeApi::new();
        seed(&api);
        if let Some((nth, kind)) = fault {
            api.fail_nth_write(nth, kind);
        }
        let running = api.start(controllers, Options::default());
        run_pods(&api, |_| {}).await;
        act(&api);
        run_pods(&api, |_| {}).await;
        drop(running);
        api
    };
    let api = play(None).await;
    check(&api, "without a failure");
    let writes = api.take_writes().len();
    let again = api.start(controllers, Options::default());
    api.settle().await;
    drop(again);
    assert_eq!(api.take_writes(), [], "a second start finds nothing to do");
    for nth in 0..writes {
        let not_done = match nth % 3 {
            0 => FaultKind::Broken,
            1 => FaultKind::Status(409, "Conflict", "the object has been modified"),
            _ => FaultKind::Status(500, "InternalError", "no"),
        };
        for kind in [FaultKind::AnswerLost, not_done] {
            let api = play(Some((nth, kind.clone()))).await;
            check(&api, &format!("after write {nth} of {writes} failed with {kind:?}"));
            assert_eq!(api.pending_faults(), 0, "the fault happened");
        }
    }
}
