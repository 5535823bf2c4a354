//! Three agents on three machines (network namespaces with a cable each) and one server, with TLS and tokens. A
//! cable is pulled: for less than the grace period, while a volume is being mounted, and until the node is lost
//! and its volumes are attached elsewhere; then it is put in again. The invariants are checked on the history of
//! the API, version by version. Without root or `ip`, the test is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Method;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use crate::harness::csi::Hostpath;
use crate::harness::http::Http;
use crate::harness::machine::Machine;
use crate::harness::process::Process;
use crate::harness::wait;
use crate::node::{Swept, mounted};
use crate::tls;
use orlop_test_support::privileges::left_out;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const NODES: &str = "/api/v1/nodes";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const DRIVER: &str = "hostpath.csi.orlop.dev";
const FORCED: &str = "orlop.dev/forced-detach";
/// An agent renews its Lease four times within its duration of 4 s.
const RENEW_EVERY: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let found = list(&object["status"]["conditions"]).iter().find(|condition| condition["type"] == type_);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn taints(node: &Value) -> BTreeSet<String> {
    list(&node["spec"]["taints"])
        .iter()
        .map(|taint| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap()))
        .collect()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn runs(pod: &Value) -> bool {
    condition(pod, "Ready") == "True" && pod["metadata"].get("deletionTimestamp").is_none()
}

/// A pod that writes its name to its volume and its log. It exits by itself if the test does not delete it.
fn pod_spec(claim: Option<&str>, more: Value) -> Value {
    let lost = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1});
    let mut spec = json!({
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
        "tolerations": [lost("unreachable"), lost("not-ready")],
        "containers": [{"name": "c", "image": "none",
            "command": ["/bin/sh", "-c", "echo here | tee -a /data/journal; exec sleep 600"],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]});
    if let Some(claim) = claim {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn claim_spec() -> Value {
    json!({"storageClassName": "lab", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}})
}

/// The server, the driver, and the machines with their agents.
struct NetworkSetup {
    _agents: Vec<Process>,
    machines: Vec<Machine>,
    driver: Hostpath,
    _server: Process,
    http: Http,
    /// The first revision of the history.
    start: u64,
    base: PathBuf,
    // Before the last field: unmount first, then remove the files.
    _swept: Swept,
    _dir: tempfile::TempDir,
}

impl NetworkSetup {
    /// `None` where this machine cannot run it, with a message.
    async fn start() -> Option<Self> {
        let mut machines = Vec::new();
        for _ in NAMES {
            match Machine::start().await {
                Ok(machine) => machines.push(machine),
                Err(why) => {
                    left_out("nodes in network namespaces", &why);
                    return None;
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let sockets = |node: &str| format!("unix://{}", base.join(format!("{node}.sock")).display());
        let endpoints = NAMES.map(|node| format!("--node-endpoint={node}={}", sockets(node)));
        let driver = Hostpath::start(&base, &endpoints.each_ref().map(String::as_str)).await;
        let (server, port) = serve(&base, &driver.flag()).await;
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.root_cert_file = Some(tls::file("ca.crt"));
        config.auth_info = AuthInfo { token: Some("hush".to_owned().into()), ..AuthInfo::default() };
        let http = Http::with(config);
        wait::until("the server is ready", async || {
            let answer = http.try_get("/readyz").await?;
            if answer.code == 200 { Ok(()) } else { Err(answer.text()) }
        })
        .await;
        let start = version(&http.get(NODES).await.expect(200));
        let agents = NAMES
            .iter()
            .zip(&machines)
            .map(|(name, machine)| agent(&base, name, machine, port, &sockets(name)))
            .collect();
        let ground = NetworkSetup {
            _agents: agents,
            machines,
            driver,
            _server: server,
            http,
            start,
            _swept: Swept(base.clone()),
            base,
            _dir: dir,
        };
        for name in NAMES {
            ground.back(name).await;
            let csi = format!("/apis/storage.k8s.io/v1/csinodes/{name}");
            ground
                .http
                .until(&csi, "has the driver", |node| !list(&node["spec"]["drivers"]).is_empty())
                .await;
        }
        let class = json!({"metadata": {"name": "lab"}, "provisioner": DRIVER});
        ground.http.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
        Some(ground)
    }

    fn machine(&self, node: &str) -> &Machine {
        &self.machines[NAMES.iter().position(|name| *name == node).unwrap()]
    }

    fn root(&self, node: &str) -> PathBuf {
        self.base.join(node)
    }

    /// The node is ready and has no taints.
    async fn back(&self, node: &str) -> Value {
        let is_back = |node: &Value| condition(node, "Ready") == "True" && taints(node).is_empty();
        self.http.until(&format!("{NODES}/{node}"), "ready and open", is_back).await
    }

    /// Waits for a report of the node that is newer than now.
    async fn heard(&self, node: &str) {
        let now = format!("{:.6}", jiff::Timestamp::now());
        let is_new = |lease: &Value| lease["spec"]["renewTime"].as_str().unwrap_or_default() > now.as_str();
        self.http.until(&format!("{LEASES}/{node}"), "is renewed", is_new).await;
    }

    /// Waits until the server has missed two renewals of the node's Lease.
    async fn missed_renewals(&self, node: &str) {
        let since = jiff::Timestamp::now();
        let is_late = |lease: &Value| {
            let due = jiff::Timestamp::now() - RENEW_EVERY * 2;
            let renewed = lease["spec"]["renewTime"].as_str().unwrap_or_default();
            since < due && renewed < format!("{due:.6}").as_str()
        };
        self.http.until(&format!("{LEASES}/{node}"), "is late", is_late).await;
    }

    /// Creates a claim, and a pod that uses it on a node.
    async fn bare(&self, name: &str, claim: &str, node: &str) {
        let made = self.http.get(&format!("{CLAIMS}/{claim}")).await.code == 200;
        if !made {
            let object = json!({"metadata": {"name": claim}, "spec": claim_spec()});
            self.http.create(CLAIMS, &object).await;
        }
        let spec = pod_spec(Some(claim), json!({"nodeName": node}));
        self.http.create(PODS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    async fn running(&self, pod: &str) -> Value {
        self.http.until(&format!("{PODS}/{pod}"), "runs", runs).await
    }

    /// The container's log, from the server.
    async fn log(&self, pod: &str) -> String {
        wait::until(&format!("{pod} has said something"), async || {
            let answer = self.http.get(&format!("{PODS}/{pod}/log")).await;
            let text = answer.text();
            if answer.code == 200 && !text.is_empty() { Ok(text) } else { Err(text) }
        })
        .await
    }

    /// The volume of a claim: its name and its handle.
    async fn volume(&self, claim: &str) -> (String, String) {
        let claim = self.http.get(&format!("{CLAIMS}/{claim}")).await.expect(200);
        let name = claim["spec"]["volumeName"].as_str().unwrap().to_owned();
        let volume = self.http.get(&format!("/api/v1/persistentvolumes/{name}")).await.expect(200);
        (name, volume["spec"]["csi"]["volumeHandle"].as_str().unwrap().to_owned())
    }

    /// The number of mounts of a pod's volume on a node.
    fn mounts(&self, node: &str, pod: &Value) -> usize {
        let dir = self.root(node).join("pods").join(uid(pod)).join("volumes/kubernetes.io~csi");
        mounted(&dir).len()
    }

    /// All changes to a kind from a revision until now, in order.
    async fn history(&self, path: &str, since: u64) -> Vec<Value> {
        let now = self.now().await;
        let query = format!("watch=true&resourceVersion={since}&allowWatchBookmarks=true&timeoutSeconds=3");
        let mut watch = self.http.watch(&format!("{path}?{query}")).await;
        let mut all = Vec::new();
        loop {
            let event = watch.next().await.expect("a bookmark comes before the end");
            assert_ne!(event["type"], "ERROR", "{event:#}");
            if event["type"] != "BOOKMARK" {
                all.push(event);
            } else if version(&event["object"]) >= now {
                return all;
            }
        }
    }

    async fn now(&self) -> u64 {
        version(&self.http.get(NODES).await.expect(200))
    }

    /// Waits until a node has no remains of any pod or process.
    async fn is_clean(&self, node: &str) {
        wait::until(&format!("nothing is left on {node}"), async || {
            let left = mounted(&self.root(node));
            let dirs: Vec<_> =
                std::fs::read_dir(self.root(node).join("pods")).into_iter().flatten().flatten().collect();
            if left.is_empty() && dirs.is_empty() { Ok(()) } else { Err(format!("{left:?}\n{dirs:?}")) }
        })
        .await;
        let path = format!("{NODES}/{node}");
        let is_free = |node: &Value| {
            list(&node["status"]["volumesInUse"]).is_empty()
                && list(&node["status"]["volumesAttached"]).is_empty()
        };
        self.http.until(&path, "uses no volume", is_free).await;
    }
}

/// A server that is reachable from other machines, with short timeouts; returns its port too.
async fn serve(base: &Path, csi: &str) -> (Process, u16) {
    let tokens =
        NAMES.map(|name| format!("hush-{name},system:node:{name},{name},\"system:nodes\"\n")).concat();
    std::fs::write(base.join("tokens.csv"), format!("hush,ann,u1,\"system:masters\"\n{tokens}")).unwrap();
    let given = |path: PathBuf| path.display().to_string();
    let args = [
        "serve".to_owned(),
        "--listen=0.0.0.0:0".to_owned(),
        format!("--data-dir={}", given(base.join("data"))),
        format!("--address-file={}", given(base.join("address"))),
        format!("--tls-cert-file={}", given(tls::file("server.crt"))),
        format!("--tls-private-key-file={}", given(tls::file("server.key"))),
        format!("--token-auth-file={}", given(base.join("tokens.csv"))),
        "--node-monitor-period=1s".to_owned(),
        "--node-monitor-grace-period=20s".to_owned(),
        "--attach-detach-force-detach-after=2s".to_owned(),
        csi.to_owned(),
    ];
    let mut process = Process::start("server", base, &args);
    let url = wait::until("the server says where it listens", async || {
        assert!(process.ended().is_none(), "it ended:\n{}", process.log());
        std::fs::read_to_string(base.join("address")).map_err(|_| process.log())
    })
    .await;
    let (_, port) = url.trim().rsplit_once(':').unwrap();
    (process, port.parse().unwrap())
}

/// An agent on its machine. The certificate is for `localhost` and does not contain the cable's address.
fn agent(base: &Path, name: &str, machine: &Machine, port: u16, csi: &str) -> Process {
    let kubeconfig = base.join(format!("{name}.kubeconfig"));
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": format!("https://{}:{port}", machine.here),
            "tls-server-name": "localhost", "certificate-authority": tls::file("ca.crt")}}],
        "users": [{"name": "u", "user": {"token": format!("hush-{name}")}}]});
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let args = [
        "node".to_owned(),
        format!("--name={name}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-dir={}", base.join(name).display()),
        format!("--csi-endpoint={DRIVER}={csi}"),
        "--runtime=process".to_owned(),
        "--node-lease-duration-seconds=4".to_owned(),
        "--node-status-update-frequency=2s".to_owned(),
        // The disk of a test machine may be nearly full.
        "--eviction-hard=".to_owned(),
    ];
    Process::start_in(&machine.prefix(), name, base, &args)
}

/// The names in a list of a Node.
fn names(node: &Value, what: &str) -> BTreeSet<String> {
    let found = list(&node["status"][what]).iter();
    let name = |one: &Value| one.as_str().or_else(|| one["name"].as_str()).unwrap().to_owned();
    found.map(name).collect()
}

/// Checks the rules of attachment over every version of every Node and VolumeAttachment (I7). `volumes` maps the
/// volume names used in Nodes to PersistentVolumes. Returns the forced detachments, as volume and node.
fn attached_once(mut events: Vec<Value>, volumes: &BTreeMap<String, String>) -> BTreeSet<(String, String)> {
    events.sort_by_key(|event| version(&event["object"]));
    let mut nodes: BTreeMap<String, Value> = BTreeMap::new();
    let mut attachments: BTreeMap<String, Value> = BTreeMap::new();
    let mut forced = BTreeSet::new();
    for event in events {
        let (object, is_gone) = (event["object"].clone(), event["type"] == "DELETED");
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let at = version(&object);
        if object["kind"] == "Node" {
            nodes.insert(name, object);
        } else {
            let volume = object["spec"]["source"]["persistentVolumeName"].as_str().unwrap();
            let who = (volume.to_owned(), object["spec"]["nodeName"].as_str().unwrap().to_owned());
            assert!(
                object["status"].get("attachError").is_none(),
                "at {at} the driver refused {who:?}: it has it elsewhere\n{object:#}"
            );
            if object["metadata"]["annotations"].get(FORCED).is_some() {
                forced.insert(who.clone());
            }
            let ends = is_gone || object["metadata"].get("deletionTimestamp").is_some();
            if ends && !forced.contains(&who) {
                let used = names(&nodes[&who.1], "volumesInUse");
                assert!(
                    !used.contains(&volumes[volume]),
                    "at {at} {who:?} is detached in use and unannounced"
                );
            }
            if is_gone {
                attachments.remove(&name);
            } else {
                attachments.insert(name, object);
            }
        }
        let mut holders: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (node, object) in &nodes {
            for volume in names(object, "volumesAttached") {
                holders.entry(volume).or_default().push(node);
            }
        }
        let twice: Vec<_> = holders.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
        assert!(twice.is_empty(), "at {at} listed as attached on two nodes: {twice:?}");
        let mut asked: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for attachment in attachments.values() {
            let volume = attachment["spec"]["source"]["persistentVolumeName"].as_str().unwrap();
            asked.entry(volume).or_default().push(attachment["spec"]["nodeName"].as_str().unwrap());
        }
        let twice: Vec<_> = asked.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
        assert!(twice.is_empty(), "at {at} asked for on two nodes: {twice:?}");
    }
    forced
}

/// The cable is out for less than the grace period: nothing changes.
async fn a_short_cut(ground: &NetworkSetup, node: &str) {
    let before = ground.now().await;
    ground.machine(node).cut();
    ground.missed_renewals(node).await;
    ground.machine(node).heal();
    ground.heard(node).await;
    let [nodes, pods, attachments] = [NODES, PODS, ATTACHMENTS].map(|path| ground.history(path, before));
    let (nodes, pods, attachments) = tokio::join!(nodes, pods, attachments);
    for event in nodes {
        let node = &event["object"];
        assert_eq!((condition(node, "Ready"), taints(node)), ("True", BTreeSet::new()), "{node:#}");
    }
    assert_eq!((pods, attachments), (vec![], vec![]), "nothing changes");
}

/// The cable is out while a volume is being mounted, until the mount is done.
async fn a_cut_while_mounting(ground: &NetworkSetup, node: &str) {
    ground.driver.faults(&json!([{"rpc": "NodePublishVolume", "fault": "hold"}]));
    ground.bare("slow", "slow", node).await;
    wait::until("it is being published, and the agent has asked the server all that it has to", async || {
        let held = ground.driver.held();
        if held.is_empty() { Err("not yet".to_owned()) } else { Ok(()) }
    })
    .await;
    ground.machine(node).cut();
    ground.driver.faults(&json!([]));
    let pod = ground.http.get(&format!("{PODS}/slow")).await.expect(200);
    wait::until("the agent continues alone", async || match ground.mounts(node, &pod) {
        1 => Ok(()),
        mounts => Err(format!("{mounts} mounts")),
    })
    .await;
    let pod = ground.http.get(&format!("{PODS}/slow")).await.expect(200);
    assert_ne!(pod["status"]["phase"], "Running", "it cannot have been informed");
    ground.machine(node).heal();
    let pod = ground.running("slow").await;
    assert_eq!(ground.mounts(node, &pod), 1, "mounted once");
}

/// A pod waits for a volume that is attached to a lost node. The old pod is deleted by force, and the volume
/// moves after the detach has been announced for long enough.
async fn announced(ground: &NetworkSetup, lost: &str, other: &str) {
    let (volume, handle) = ground.volume("lone").await;
    let before = ground.now().await;
    ground.bare("heir", "lone", other).await;
    assert_eq!(ground.driver.nodes_of(&handle).await.unwrap(), [lost]);
    ground.http.delete(&format!("{PODS}/lone?gracePeriodSeconds=0")).await.expect(200);
    ground.running("heir").await;
    // The announcement lasts 2 s; the history contains it even if the test is slower.
    let is_announced = |event: &Value| {
        let attachment = &event["object"];
        attachment["spec"]["source"]["persistentVolumeName"] == volume.as_str()
            && attachment["metadata"]["annotations"].get("orlop.dev/detach-not-before").is_some()
    };
    let history = ground.history(ATTACHMENTS, before).await;
    assert!(history.iter().any(is_announced), "the detach is not announced: {history:#?}");
    assert_eq!(ground.driver.nodes_of(&handle).await.unwrap(), [other]);
}

#[tokio::test]
async fn disconnected_node_is_lost_and_recovers() {
    let Some(ground) = NetworkSetup::start().await else { return };
    let http = &ground.http;
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": pod_spec(None, json!({}))});
    let claim = json!({"metadata": {"name": "data"}, "spec": claim_spec()});
    http.create(
        SETS,
        &json!({"metadata": {"name": "db"}, "spec": {"replicas": 1, "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}}, "template": template, "volumeClaimTemplates": [claim]}}),
    )
    .await;
    let db = ground.running("db-0").await;
    let lost = db["spec"]["nodeName"].as_str().unwrap();
    let others: Vec<&str> = NAMES.into_iter().filter(|name| *name != lost).collect();
    ground.bare("lone", "lone", lost).await;
    let lone = ground.running("lone").await;
    for pod in ["db-0", "lone"] {
        assert_eq!(ground.log(pod).await, "here\n", "logs of another machine");
    }
    a_short_cut(&ground, lost).await;
    a_cut_while_mounting(&ground, others[0]).await;
    let calm = ground.now().await;

    ground.machine(lost).cut();
    for pod in ["db-0", "lone"] {
        let going = |pod: &Value| pod["metadata"].get("deletionTimestamp").is_some();
        let pod = http.until(&format!("{PODS}/{pod}"), "is driven off", going).await;
        assert_eq!(condition(&pod, "DisruptionTarget"), "True");
    }
    let node = http.get(&format!("{NODES}/{lost}")).await.expect(200);
    assert_eq!(condition(&node, "Ready"), "Unknown");
    let unreachable =
        ["NoSchedule", "NoExecute"].map(|effect| format!("node.kubernetes.io/unreachable:{effect}"));
    assert_eq!(taints(&node), unreachable.into());
    announced(&ground, lost, others[1]).await;
    let waiting = http.get(&format!("{PODS}/db-0")).await.expect(200);
    assert_eq!(uid(&waiting), uid(&db), "the set makes no second one while the first may run");
    let path = format!("{PODS}/db-0/log?tailLines=1");
    let log = http.send(Method::GET, &path, &[], Vec::new());
    // It can take 30 s until the server reports that the node does not answer.
    if let Ok(answer) = tokio::time::timeout(Duration::from_millis(200), log).await {
        assert_eq!(answer.code, 500, "{}", answer.text());
    }

    let taint =
        json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]);
    let all = [list(&node["spec"]["taints"]), list(&taint)].concat();
    http.patch(&format!("{NODES}/{lost}"), &json!({"spec": {"taints": all}})).await.expect(200);
    let second = |pod: &Value| uid(pod) != uid(&db) && runs(pod);
    let next = http.until(&format!("{PODS}/db-0"), "has moved", second).await;
    assert_ne!(next["spec"]["nodeName"], lost);
    let (_, handle) = ground.volume("data-db-0").await;
    assert_eq!(ground.driver.nodes_of(&handle).await.unwrap(), [next["spec"]["nodeName"].as_str().unwrap()]);
    for pod in [&db, &lone] {
        assert_eq!(ground.mounts(lost, pod), 1, "the agent that was cut off keeps what it has mounted");
    }

    ground.machine(lost).heal();
    ground.is_clean(lost).await;
    let is_ready = |node: &Value| condition(node, "Ready") == "True";
    http.until(&format!("{NODES}/{lost}"), "ready", is_ready).await;
    http.patch(&format!("{NODES}/{lost}"), &json!({"spec": {"taints": null}})).await.expect(200);
    ground.back(lost).await;
    assert_eq!(
        uid(&ground.running("db-0").await),
        uid(&next),
        "the current user of the volume is not affected"
    );
    // The node can be used again.
    ground.bare("again", "again", lost).await;
    ground.running("again").await;
    assert_eq!(ground.log("again").await, "here\n");

    http.delete(&format!("{SETS}/db")).await.expect(200);
    for pod in ["slow", "heir", "again"] {
        http.delete(&format!("{PODS}/{pod}")).await.expect(200);
    }
    http.until(PODS, "nothing is left", |pods| list(&pods["items"]).is_empty()).await;
    for node in NAMES {
        ground.is_clean(node).await;
    }
    http.until(ATTACHMENTS, "nothing is left", |left| list(&left["items"]).is_empty()).await;
    what_happened(&ground, lost, calm).await;
}

/// Checks the whole history.
async fn what_happened(ground: &NetworkSetup, lost: &str, calm: u64) {
    let mut volumes = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for claim in ["data-db-0", "lone", "slow", "again"] {
        let (volume, handle) = ground.volume(claim).await;
        if ["data-db-0", "lone"].contains(&claim) {
            taken.insert((volume.clone(), lost.to_owned()));
        }
        volumes.insert(volume, format!("kubernetes.io/csi/{DRIVER}^{handle}"));
    }
    let histories =
        tokio::join!(ground.history(NODES, ground.start), ground.history(ATTACHMENTS, ground.start));
    let events = [histories.0, histories.1].concat();
    assert_eq!(attached_once(events.clone(), &volumes), taken, "taken by force");
    let early: Vec<Value> = events.into_iter().filter(|event| version(&event["object"]) <= calm).collect();
    assert!(attached_once(early, &volumes).is_empty(), "before that nothing was");
}
