//! Node registration against the in-memory API server.
#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;

use orlop_client::recorder::EventSink;
use orlop_test_support::{FakeApi, Fault, FaultKind};
use serde_json::{Value, json};

use super::*;

/// Contents of each version of the Node: volumes in use, and number of attached volumes.
type Heard = Vec<(BTreeSet<String>, usize)>;

/// A running registration and the versions that it has reported.
struct Rig {
    api: FakeApi,
    lines: Lines,
    in_use: watch::Sender<BTreeSet<String>>,
    problems: watch::Sender<Vec<String>>,
    node: watch::Receiver<Option<Arc<Node>>>,
    seen: Arc<Mutex<Heard>>,
    stop: CancellationToken,
}

impl Rig {
    fn start(api: FakeApi) -> Self {
        let stop = CancellationToken::new();
        let clock = Clock::following_tokio(1_767_225_600);
        let (sink, _writer) = EventSink::start(api.client(), clock, stop.clone());
        let (in_use, problems) = (watch::Sender::default(), watch::Sender::default());
        let (sender, node) = watch::channel(None);
        let seen: Arc<Mutex<Heard>> = Arc::default();
        let log = Arc::clone(&seen);
        let lines = Lines::default();
        let inputs = Inputs {
            config: Arc::new(NodeConfig::new("n", "/")),
            client: api.client(),
            lines: lines.clone(),
            server: None,
            log_port: Some(10250),
            in_use: in_use.subscribe(),
            problems: problems.subscribe(),
            seen: Arc::new(move |node, reported| {
                let attached =
                    node.status.as_ref().and_then(|s| s.volumes_attached.as_ref()).map_or(0, Vec::len);
                log.lock().push((reported.clone(), attached));
            }),
            events: sink.recorder("kubelet"),
            clock,
        };
        tokio::spawn(run(inputs, sender, stop.clone()));
        Self { api, lines, in_use, problems, node, seen, stop }
    }

    fn node(&self) -> Value {
        self.api.get("nodes", "n").unwrap()
    }

    fn lease(&self) -> Option<Value> {
        self.api.get("leases", "kube-node-lease/n")
    }

    /// Number of requests of one kind since the start.
    fn count(&self, prefix: &str) -> usize {
        self.api.requests().iter().filter(|line| line.starts_with(prefix)).count()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn ready(node: &Value) -> (String, String) {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|c| c["type"] == "Ready").unwrap();
    (ready["status"].as_str().unwrap().to_owned(), ready["lastHeartbeatTime"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn node_is_created_updated_and_left_at_shutdown() {
    let rig = Rig::start(FakeApi::new());
    seconds(2).await;
    let node = rig.node();
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n");
    assert_eq!(ready(&node).0, "True");
    assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
    assert_eq!(rig.node.borrow().as_ref().unwrap().metadata.uid.as_deref(), node["metadata"]["uid"].as_str());
    let lease = rig.lease().unwrap();
    assert_eq!(
        (&lease["spec"]["holderIdentity"], &lease["spec"]["leaseDurationSeconds"]),
        (&json!("n"), &json!(40))
    );
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);

    // An hour without changes: a Lease every ten seconds, a status every five minutes.
    let (leases, statuses) = (rig.count("PUT"), rig.count("PATCH /api/v1/nodes/n/status"));
    seconds(3600).await;
    let leases = rig.count("PUT") - leases;
    assert!((340..=360).contains(&leases), "{leases}");
    assert_eq!(rig.count("PATCH /api/v1/nodes/n/status") - statuses, 12);
    assert_ne!(ready(&rig.node()).1, ready(&node).1);
    assert_eq!(rig.count("GET /api/v1/nodes/n"), 0, "it is followed, not asked for");

    rig.stop.cancel();
    seconds(60).await;
    assert!(rig.lease().is_some());
    assert_eq!(ready(&rig.node()).0, "True");
    let events = rig.api.events();
    for wanted in [
        "Node n Normal Starting Starting kubelet.",
        "Node n Normal NodeReady Node n status is now: NodeReady",
    ] {
        assert!(events.iter().any(|event| event == wanted), "{wanted} is not in {events:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn existing_node_keeps_values_of_other_writers() {
    let api = FakeApi::new();
    api.seed(json!({"kind": "Node", "metadata": {"name": "n", "uid": "u", "labels": {"own": "1", "kubernetes.io/hostname": "x"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"volumesAttached": [{"name": "v", "devicePath": ""}], "volumesInUse": ["v"],
            "conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "NetworkUnavailable", "status": "False"}]}}));
    let rig = Rig::start(api);
    // The volumes in use of the previous agent are known before the first report.
    rig.in_use.send_replace(["v".to_owned()].into());
    seconds(2).await;
    let node = rig.node();
    assert_eq!((&node["metadata"]["uid"], &node["metadata"]["labels"]["own"]), (&json!("u"), &json!("1")));
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n");
    assert_eq!(
        node["metadata"]["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"],
        "true"
    );
    assert_eq!(node["spec"]["taints"], json!([{"key": "k", "effect": "NoSchedule"}]));
    assert_eq!(node["status"]["volumesAttached"][0]["name"], "v");
    assert_eq!(node["status"]["volumesInUse"], json!(["v"]));
    assert_eq!(node["status"]["conditions"][1]["type"], "NetworkUnavailable");
    assert_eq!(ready(&node).0, "True");
}

#[tokio::test(start_paused = true)]
async fn volumes_in_use_are_written_immediately_and_confirmed() {
    let rig = Rig::start(FakeApi::new());
    seconds(2).await;
    assert_eq!(rig.seen.lock().last().unwrap(), &(BTreeSet::new(), 0));
    let one: BTreeSet<String> = ["v1".to_owned()].into();
    rig.in_use.send_replace(one.clone());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.node()["status"]["volumesInUse"], json!(["v1"]));
    assert_eq!(rig.seen.lock().last().unwrap(), &(one.clone(), 0));
    // The controller attaches the volume.
    rig.api.patch(
        "nodes",
        "n",
        "status",
        json!({"status": {"volumesAttached": [{"name": "v1", "devicePath": ""}]}}),
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.seen.lock().last().unwrap(), &(one.clone(), 1));
    // Another client has written in the meantime, and one answer is lost: the write still succeeds.
    rig.api.fail(Fault {
        verb: "patch",
        resource: "nodes/status",
        skip: 0,
        kind: FaultKind::Status(409, "Conflict", "no"),
    });
    rig.api.fail(Fault { verb: "patch", resource: "nodes/status", skip: 1, kind: FaultKind::AnswerLost });
    rig.in_use.send_replace(BTreeSet::new());
    seconds(2).await;
    assert_eq!(rig.api.pending_faults(), 0);
    assert_eq!(rig.node()["status"].get("volumesInUse"), None);
    assert_eq!(rig.seen.lock().last().unwrap(), &(BTreeSet::new(), 1));
    // Another client removes it without reason: the next report writes it again.
    rig.in_use.send_replace(one.clone());
    seconds(1).await;
    rig.api.patch("nodes", "n", "status", json!({"status": {"volumesInUse": null}}));
    seconds(11).await;
    assert_eq!(rig.node()["status"]["volumesInUse"], json!(["v1"]));
    assert_eq!(rig.seen.lock().last().unwrap(), &(one, 1));
}

#[tokio::test(start_paused = true)]
async fn problems_are_written_immediately() {
    let rig = Rig::start(FakeApi::new());
    seconds(2).await;
    rig.problems.send_replace(vec!["the runtime is not there".to_owned()]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ready(&rig.node()).0, "False");
    rig.problems.send_replace(vec![]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ready(&rig.node()).0, "True");
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_is_waited_for() {
    let api = FakeApi::new();
    api.set_away(true);
    let rig = Rig::start(api);
    seconds(300).await;
    assert!(rig.node.borrow().is_none());
    rig.api.set_away(false);
    seconds(15).await;
    assert_eq!(ready(&rig.node()).0, "True");
    let line = rig.lines.now();
    seconds(300).await;
    assert!(!line.is_cancelled(), "nothing is given up while the server is there");
    let renewed = || rig.lease().unwrap()["spec"]["renewTime"].clone();
    rig.api.set_away(true);
    let before = renewed();
    rig.in_use.send_replace(["v".to_owned()].into());
    seconds(300).await;
    assert_eq!(renewed(), before);
    assert!(!line.is_cancelled(), "nor while it is away");
    rig.api.set_away(false);
    seconds(8).await;
    assert_ne!(renewed(), before);
    assert!(line.is_cancelled(), "what may hang since then is given up when it is back");
    assert_eq!(rig.node()["status"]["volumesInUse"], json!(["v"]));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_stays_deleted_until_the_next_start() {
    let rig = Rig::start(FakeApi::new());
    seconds(20).await;
    rig.api.delete("nodes", "n");
    rig.api.delete("leases", "kube-node-lease/n");
    seconds(600).await;
    assert!(rig.node.borrow().is_none() && rig.api.get("nodes", "n").is_none() && rig.lease().is_none());
    let api = rig.api.clone();
    drop(rig);
    let rig = Rig::start(api);
    seconds(20).await;
    assert_eq!(ready(&rig.node()).0, "True");
    assert!(rig.lease().is_some());
}
