//! Shared test helpers for workloads: pods that become ready, and a scenario in which every write fails once.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::context::{Context, Run};
use crate::options::Options;
use crate::testing::{FakeApi, FaultKind};

/// Marks a pod as the node agent would: running, and ready since now.
pub(crate) fn make_ready(api: &FakeApi, key: &str) {
    let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": api.now()}]);
    api.patch("pods", key, "status", json!({"status": {"phase": "Running", "conditions": conditions}}));
}

/// The `namespace/name` of every object of a kind.
pub(crate) fn keys(api: &FakeApi, plural: &str) -> Vec<String> {
    let key = |object: Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    api.list(plural).into_iter().map(key).collect()
}

/// Whether the pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

/// Marks one pod after the other as ready, one per second, until all pods have been ready for 8 s. `check`
/// inspects the server after each second.
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

/// Starts a controller. Each of its requests, except those of informers and for events, first waits for `before`, which receives the method and
/// the path.
pub(crate) fn start_after<F>(
    api: &FakeApi,
    run: Run,
    before: impl Fn(String) -> F + Send + 'static,
) -> DropGuard
where
    F: Future<Output = ()> + Send + 'static,
{
    let inner = api.client();
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        let before = before(format!("{} {}", request.method(), request.uri().path()));
        async move {
            before.await;
            inner.send(request).await
        }
    });
    let shutdown = CancellationToken::new();
    let context = api.context(Options::default(), &shutdown);
    tokio::spawn(run(Context { client: Client::new(service, "default"), ..context }));
    shutdown.drop_guard()
}

/// Repeats a scenario for every write: once the write succeeds but its response is lost, and once it is not
/// performed, with one of several errors. `check` verifies the final state.
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
