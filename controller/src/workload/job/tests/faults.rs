//! Each write of a Job may fail once.

use std::time::Duration;

use serde_json::json;

use super::job;
use crate::options::Options;
use crate::testing::{FakeApi, FaultKind};
use crate::workload::job::run;
use crate::workload::testing::keys;

/// Runs a Job, whose pods succeed after 3 s, to its end.
async fn play(fault: Option<(usize, FaultKind)>) -> FakeApi {
    let api = FakeApi::new();
    api.seed(job(json!({"parallelism": 2, "completions": 3})));
    if let Some((nth, kind)) = fault {
        api.fail_nth_write(nth, kind);
    }
    let running = api.start(&[run], Options::default());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        for key in keys(&api, "pods") {
            api.patch("pods", &key, "status", json!({"status": {"phase": "Succeeded"}}));
        }
    }
    drop(running);
    api
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let api = play(None).await;
    let writes = api.take_writes().len();
    let again = api.start(&[run], Options::default());
    api.settle().await;
    drop(again);
    assert_eq!(api.take_writes(), [], "a second start finds nothing to do");
    for nth in 0..writes {
        for kind in [
            FaultKind::AnswerLost,
            FaultKind::Broken,
            FaultKind::Status(409, "Conflict", "the object has been modified"),
        ] {
            let api = play(Some((nth, kind.clone()))).await;
            let status = api.get("jobs", "ns/j").unwrap()["status"].clone();
            let name = format!("after write {nth} of {writes} failed with {kind:?}: {status}");
            assert_eq!(status["conditions"][1]["type"], "Complete", "{name}");
            assert_eq!(
                (&status["succeeded"], &status["uncountedTerminatedPods"]),
                (&json!(3), &json!({})),
                "{name}"
            );
            assert_eq!(api.list("pods").len(), 3, "no pod was created twice, {name}");
            assert!(api.list("pods").iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "{name}");
            assert_eq!(api.pending_faults(), 0, "the fault happened, {name}");
        }
    }
}
