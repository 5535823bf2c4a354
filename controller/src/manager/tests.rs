//! Tests the selection of controllers and their restarts.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;

use kube::Client;
use orlop_client::component::SharedClient;

use super::*;
use crate::testing::FakeApi;

fn shared(client: Client) -> Arc<dyn ClientBuilder> {
    Arc::new(SharedClient(client))
}

fn idle(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        context.shutdown.cancelled().await;
        Ok(())
    })
}

const KNOWN: [ControllerEntry; 3] = [
    ControllerEntry {
        name: "a-controller",
        alias: Some("a"),
        component: Component::ControllerManager,
        run: idle,
    },
    ControllerEntry { name: "b-controller", alias: None, component: Component::ControllerManager, run: idle },
    ControllerEntry {
        name: "garbage-collector-controller",
        alias: Some("garbagecollector"),
        component: Component::ControllerManager,
        run: idle,
    },
];

/// Upstream's controllers have upstream's accounts; the accounts of the others begin with `orlop-`.
#[test]
fn documented_command_names_exactly_the_controllers_that_upstream_lacks() {
    let text = include_str!("../../../docs/run-on-a-cluster.md");
    let (_, list) = text.split_once("--controllers=csi-").unwrap();
    let mut documented: Vec<String> =
        list.split_whitespace().next().unwrap().split(',').map(str::to_owned).collect();
    documented[0].insert_str(0, "csi-");
    documented.sort_unstable();
    let is_own = |controller: &&ControllerEntry| match controller.component {
        Component::Account(name) => name.starts_with("orlop-"),
        Component::ControllerManager | Component::Scheduler => false,
    };
    let mut own: Vec<&str> = CONTROLLERS.iter().filter(is_own).map(|controller| controller.name).collect();
    own.sort_unstable();
    assert_eq!(documented, own);
}

#[test]
fn first_mention_of_a_controller_decides_and_star_selects_the_rest() {
    let all = vec!["a-controller", "b-controller", "garbage-collector-controller"];
    let table: [(&[&str], Vec<&str>); 8] = [
        (&["*"], all.clone()),
        (&["*", "-a-controller"], vec!["b-controller", "garbage-collector-controller"]),
        (&["-a", "*"], vec!["b-controller", "garbage-collector-controller"]),
        (&["b-controller"], vec!["b-controller"]),
        (&["a", "garbagecollector"], vec!["a-controller", "garbage-collector-controller"]),
        (&["-b-controller"], vec![]),
        (&["a", "-a", "*"], all),
        (&[], vec![]),
    ];
    for (chosen, wanted) in table {
        let options =
            Options { controllers: chosen.iter().map(|c| (*c).to_owned()).collect(), ..Options::default() };
        let names: Vec<&str> = enabled(&KNOWN, &options).unwrap().iter().map(|k| k.name).collect();
        assert_eq!(names, wanted, "{chosen:?}");
    }
    let off = Options { enable_garbage_collector: false, ..Options::default() };
    assert_eq!(enabled(&KNOWN, &off).unwrap().len(), 2);
}

#[test]
fn unknown_name_is_an_error_that_lists_the_valid_names() {
    let options = Options { controllers: vec!["*".into(), "-cronjob".into()], ..Options::default() };
    let text = enabled(&KNOWN, &options).err().unwrap().to_string();
    assert!(text.contains("\"-cronjob\"") && text.contains("a-controller, b-controller"), "{text}");
}

static STARTS: AtomicUsize = AtomicUsize::new(0);
static OTHERS: AtomicUsize = AtomicUsize::new(0);

fn dies(_: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async {
        match STARTS.fetch_add(1, Ordering::SeqCst) {
            0 => panic!("on purpose"),
            1 => Err(ControllerError("no more".into())),
            2 => Ok(()),
            _ => std::future::pending().await,
        }
    })
}

fn counts(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    OTHERS.fetch_add(1, Ordering::SeqCst);
    idle(context)
}

#[tokio::test(start_paused = true)]
async fn i12_failed_controller_is_restarted_without_affecting_the_others() {
    const BOTH: [ControllerEntry; 2] = [
        ControllerEntry { name: "dies", alias: None, component: Component::ControllerManager, run: dies },
        ControllerEntry { name: "counts", alias: None, component: Component::ControllerManager, run: counts },
    ];
    let shutdown = CancellationToken::new();
    let api = FakeApi::new();
    let running = tokio::spawn(run_known(&BOTH, shared(api.client()), Options::default(), shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((STARTS.load(Ordering::SeqCst), OTHERS.load(Ordering::SeqCst)), (4, 1));
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_controllers_run_together_and_stop_within_a_second() {
    let api = FakeApi::new();
    let scratch =
        serde_json::json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    api.seed(serde_json::json!({"kind": "Node", "metadata": {"name": "n"}}));
    api.seed(serde_json::json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": "p", "uid": "uid-p"},
        "spec": {"containers": [], "nodeName": "n", "volumes": scratch}, "status": {"phase": "Running"}}));
    // A claim with the name of the pod's claim that the pod does not own.
    api.seed(serde_json::json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": "p-scratch",
        "finalizers": ["kubernetes.io/pvc-protection"]}}));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(run(shared(api.client()), Options::default(), shutdown.clone()));
    api.settle().await;
    // Tests: PROT-PVC-12
    api.delete("persistentvolumeclaims", "ns/p-scratch");
    api.settle().await;
    let claim = api.get("persistentvolumeclaims", "ns/p-scratch").unwrap();
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "uid-p");
    assert_eq!(claim["metadata"]["finalizers"], serde_json::json!(["kubernetes.io/pvc-protection"]));
    // Delete the pod. The garbage collector and the protection controller then remove its claim.
    api.delete_with("pods", "ns/p", serde_json::json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(api.list("persistentvolumeclaims").len(), 0);
    let end = tokio::time::Instant::now();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert!(end.elapsed() < Duration::from_secs(1), "all controllers end on their own");
}

#[tokio::test]
async fn unknown_name_starts_no_controller() {
    let api = FakeApi::new();
    let options = Options { controllers: vec!["*".into(), "nonsense".into()], ..Options::default() };
    assert!(run(shared(api.client()), options, CancellationToken::new()).await.is_err());
    assert_eq!(api.requests(), Vec::<String>::new());
}

/// The server does not answer, so no initial list completes. Shutdown must not wait for one.
#[tokio::test(start_paused = true)]
async fn controllers_without_a_server_stop_within_a_second() {
    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    let shutdown = CancellationToken::new();
    let client = Client::new(silent, "default");
    let running = tokio::spawn(run(shared(client), Options::default(), shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let end = tokio::time::Instant::now();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert!(end.elapsed() < Duration::from_secs(1), "{:?}", end.elapsed());
}
