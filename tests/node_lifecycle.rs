//! A node stops reporting, is tainted, loses a pod, and returns; the test acts as its agent, which renews a Lease
//! and reports the node as ready. The registration of the real agent is tested too, in this process, with the
//! real server.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orlop_apimachinery::clock::Clock;
use orlop_client::client::Lines;
use orlop_client::recorder::EventSink;
use orlop_node::config::NodeConfig;
use orlop_node::node_status::{self, Inputs};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The nodes with running agents.
type Alive = Arc<Mutex<BTreeSet<String>>>;

/// One agent for all nodes: every 0.5 s it renews the Lease of each live node and reports the node as ready.
async fn agents(http: Http, alive: Alive) {
    loop {
        let names = alive.lock().clone();
        let now = jiff::Timestamp::now();
        for name in names {
            let lease = json!({"spec": {"renewTime": format!("{now:.6}")}});
            http.patch(&format!("{LEASES}/{name}"), &lease).await;
            let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": format!("{now:.0}")});
            http.patch(&format!("{NODES}/{name}/status"), &json!({"status": {"conditions": [ready]}})).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    all.iter().map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap())).collect()
}

fn condition(object: &Value, type_: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

#[tokio::test]
async fn silent_node_is_evicted_and_recovers() {
    let flags = [
        "--controllers=nodelifecycle,taint-eviction-controller",
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=10s",
        "--node-startup-grace-period=60s",
    ];
    let plane = Plane::of(Layout::OneProcess).controller_flags(&flags).start().await;
    let http = plane.http();
    for name in ["a", "b"] {
        http.create(NODES, &json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}})).await;
        let lease = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": name}, "spec": {}});
        http.create(LEASES, &lease).await;
        let node = http.get(&format!("{NODES}/{name}")).await.json();
        assert_eq!(taints(&node), ["node.kubernetes.io/not-ready:NoSchedule"], "no readiness is reported");
    }
    let alive: Alive = Arc::new(Mutex::new(["a", "b"].map(str::to_owned).into()));
    let running = tokio::spawn(agents(plane.http(), Arc::clone(&alive)));
    for name in ["a", "b"] {
        http.until(&format!("{NODES}/{name}"), "open", |node| taints(node).is_empty()).await;
    }
    let toleration = |key: &str, seconds: u32| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    for (name, tolerations) in [("patient", json!([])), ("hasty", json!([toleration("unreachable", 1)]))] {
        let spec = json!({"nodeName": "b", "tolerations": tolerations, "containers": [{"name": "c", "image": "none"}]});
        http.create(
            PODS,
            &json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}),
        )
        .await;
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        http.patch(&format!("{PODS}/{name}/status"), &ready).await.expect(200);
    }

    alive.lock().remove("b");
    let lost =
        |node: &Value| condition(node, "Ready")["reason"] == "NodeStatusUnknown" && taints(node).len() == 2;
    let node = http.until(&format!("{NODES}/b"), "lost", lost).await;
    assert_eq!(
        taints(&node),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert!(node["spec"]["taints"][1]["timeAdded"].is_string(), "{node:#}");
    let going = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    let pod = http.until(&format!("{PODS}/hasty"), "going", going).await;
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    let unready = |pod: &Value| condition(pod, "Ready")["status"] == "False";
    let pod = http.until(&format!("{PODS}/patient"), "not ready", unready).await;
    assert!(!going(&pod), "it tolerates that for five minutes");
    let open = |node: &Value| condition(node, "Ready")["status"] == "True" && taints(node).is_empty();
    http.until(&format!("{NODES}/a"), "ready and open, because it renews its Lease", open).await;

    alive.lock().insert("b".to_owned());
    let node = http.until(&format!("{NODES}/b"), "back", |node| taints(node).is_empty()).await;
    assert_eq!(condition(&node, "Ready")["status"], "True");
    running.abort();
}

/// Starts the registration of node `n`; the receiver has the volumes in use that the server has accepted.
fn register(plane: &Plane, in_use: &[&str], stop: &CancellationToken) -> watch::Receiver<BTreeSet<String>> {
    let (client, clock) = (plane.client(), Clock::Wall);
    let (sink, _writer) = EventSink::start(client.clone(), clock, stop.clone());
    let (heard, hearing) = watch::channel(BTreeSet::new());
    let (in_use, problems) =
        (watch::Sender::new(in_use.iter().map(|v| (*v).to_owned()).collect()), watch::Sender::default());
    let config = NodeConfig {
        labels: [("example.com/rack".to_owned(), "7".to_owned())].into(),
        status_period: Duration::from_secs(1),
        ..NodeConfig::new("n", plane.dir())
    };
    let inputs = Inputs {
        config: Arc::new(config),
        client,
        lines: Lines::default(),
        server: None,
        log_port: None,
        in_use: in_use.subscribe(),
        problems: problems.subscribe(),
        seen: Arc::new(move |_, reported| {
            heard.send_replace(reported.clone());
        }),
        events: sink.recorder("kubelet"),
        clock,
    };
    let stop = stop.clone();
    tokio::spawn(async move {
        node_status::run(inputs, watch::Sender::new(None), stop).await;
        drop((in_use, problems));
    });
    hearing
}

#[tokio::test]
async fn agent_registers_and_node_accepts_pods() {
    let plane =
        Plane::of(Layout::OneProcess).controller_flags(&["--controllers=nodelifecycle"]).start().await;
    let http = plane.http();
    let stop = CancellationToken::new();
    let _end = stop.clone().drop_guard();
    let mut heard = register(&plane, &["kubernetes.io/csi/d^1"], &stop);
    // A nearly full disk taints the node for another reason.
    let closed = |node: &Value| taints(node).iter().any(|taint| taint.contains("not-ready"));
    let ready = |node: &Value| condition(node, "Ready")["status"] == "True" && !closed(node);
    let node = http.until(&format!("{NODES}/n"), "open", ready).await;
    assert_eq!(node["metadata"]["labels"]["example.com/rack"], "7");
    assert!(node["status"]["capacity"]["memory"].as_str().unwrap().ends_with('i'), "{node:#}");
    assert!(node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap().starts_with("v1.36."), "{node:#}");
    let volumes = BTreeSet::from(["kubernetes.io/csi/d^1".to_owned()]);
    heard.wait_for(|heard| *heard == volumes).await.unwrap();
    let renewed = |lease: &Value| lease["spec"]["renewTime"].is_string();
    let lease = http.until(&format!("{LEASES}/n"), "renewed", renewed).await;
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);

    // The agent compares with the status as the server stored it, and writes nothing while nothing changes.
    // (The first writes may be repeated until the agent receives its own changes.)
    http.until(&format!("{NODES}/n"), "volumesInUse is set", |node| {
        node["status"]["volumesInUse"].is_array()
    })
    .await;
    let mut seen = Vec::new();
    loop {
        seen.push(http.get(&format!("{NODES}/n")).await.json()["metadata"]["resourceVersion"].clone());
        if let [.., before, last] = &seen[..]
            && before == last
        {
            break;
        }
        assert!(seen.len() < 5, "it is written again and again: {seen:?}");
        tokio::time::sleep(Duration::from_secs(3)).await;
    }

    // The next start finds its existing Node and Lease.
    stop.cancel();
    let again = CancellationToken::new();
    let _end = again.clone().drop_guard();
    let mut heard = register(&plane, &[], &again);
    let nothing_in_use = |node: &Value| node["status"].get("volumesInUse").is_none();
    let found = http.until(&format!("{NODES}/n"), "nothing is in use", nothing_in_use).await;
    assert_eq!(found["metadata"]["uid"], node["metadata"]["uid"]);
    heard.wait_for(BTreeSet::is_empty).await.unwrap();
    let before = lease["spec"]["renewTime"].clone();
    http.until(&format!("{LEASES}/n"), "renewed again", |lease| lease["spec"]["renewTime"] != before).await;
}
