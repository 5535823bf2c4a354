//! Nodes: virtual ones in the server's process, and a real one on this machine with the lab driver, which is also
//! killed in the middle of its work. Tests that need root are skipped with a message if it is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::csi::Hostpath;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(crate) const NODES: &str = "/api/v1/nodes";

pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let list = object["status"]["conditions"].as_array();
    let found = list.and_then(|list| list.iter().find(|condition| condition["type"] == type_));
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

async fn ready(http: &Http, node: &str) -> Value {
    http.until(&format!("{NODES}/{node}"), "ready", |node| condition(node, "Ready") == "True").await
}

/// A pod for a node, with one volume of each given kind.
pub(crate) fn pod(name: &str, node: &str, volumes: &Value) -> Value {
    let mounts: Vec<Value> = volumes
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"].as_str().unwrap())}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node,
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "volumes": volumes}})
}

pub(crate) async fn running(http: &Http, pod: &str) -> Value {
    http.until(&format!("{PODS}/{pod}"), "runs", |pod| {
        pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "True"
    })
    .await
}

#[tokio::test]
async fn pod_runs_on_a_virtual_node() {
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&["--virtual-nodes", "2"]).start().await;
    let http = plane.http();
    for node in ["virtual-1", "virtual-2"] {
        ready(&http, node).await;
    }
    http.create(
        "/api/v1/namespaces/default/configmaps",
        &json!({"metadata": {"name": "settings"}, "data": {"a": "1"}}),
    )
    .await;
    let volumes =
        json!([{"name": "settings", "configMap": {"name": "settings"}}, {"name": "room", "emptyDir": {}}]);
    http.create(PODS, &pod("web", "virtual-1", &volumes)).await;
    let web = running(&http, "web").await;
    assert_eq!(web["status"]["containerStatuses"][0]["ready"], true, "{web:#}");
    let root = plane.data_dir().join("virtual-nodes/virtual-1");
    let uid = web["metadata"]["uid"].as_str().unwrap();
    let file = root.join("pods").join(uid).join("volumes/kubernetes.io~configmap/settings/a");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1", "{}", file.display());

    // It survives the restart.
    plane.kill_and_restart().await;
    let http = plane.http();
    ready(&http, "virtual-1").await;
    assert_eq!(running(&http, "web").await["metadata"]["uid"], uid);
    http.delete(&format!("{PODS}/web")).await.expect(200);
    http.until_gone(&format!("{PODS}/web")).await;
    wait::until("the pod's directory is gone", async || {
        let dir = root.join("pods").join(uid);
        if dir.exists() { Err(format!("{} is there", dir.display())) } else { Ok(()) }
    })
    .await;
    plane.stop().await;
}

/// The mounts below a directory.
pub(crate) fn mounted(below: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let targets = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    targets.filter(|target| target.starts_with(below)).collect()
}

/// Loop devices of files below a directory.
pub(crate) fn loop_devices(below: &Path) -> Vec<PathBuf> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_below = |device: &std::fs::DirEntry| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(&file).starts_with(below))
    };
    devices.filter(is_below).map(|device| Path::new("/dev").join(device.file_name())).collect()
}

/// Unmounts the volumes of a failed test.
pub(crate) struct Swept(pub(crate) PathBuf);

impl Drop for Swept {
    fn drop(&mut self) {
        for target in mounted(&self.0).iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(target).status();
        }
        for device in loop_devices(&self.0) {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

/// A control plane, a driver, and this machine as node n1 in a separate process.
pub(crate) struct NodeSetup {
    pub(crate) agent: Option<Process>,
    /// Environment variables and flags for the agent, from its next start on.
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) flags: Vec<String>,
    pub(crate) driver: Hostpath,
    pub(crate) plane: Plane,
    pub(crate) root: PathBuf,
    // Before the last field: unmount first, then remove the files.
    _swept: Swept,
    _dir: tempfile::TempDir,
}

impl NodeSetup {
    /// `None` without root, with a message.
    pub(crate) async fn start() -> Option<Self> {
        if !orlop_test_support::privileges::has_root("mounts of a node") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let driver = Hostpath::start(&base, &[]).await;
        let plane = Plane::of(Layout::OneProcess).controller_flags(&[&driver.flag()]).start().await;
        let root = base.join("node");
        let mut ground = NodeSetup {
            agent: None,
            variables: Vec::new(),
            flags: Vec::new(),
            driver,
            plane,
            root,
            _swept: Swept(base),
            _dir: dir,
        };
        ground.start_agent();
        let http = ground.plane.http();
        ready(&http, "n1").await;
        http.until("/apis/storage.k8s.io/v1/csinodes/n1", "has the driver", |node| {
            node["spec"]["drivers"].as_array().is_some_and(|drivers| !drivers.is_empty())
        })
        .await;
        Some(ground)
    }

    pub(crate) fn start_agent(&mut self) {
        let mut args = vec![
            "node".to_owned(),
            "--name=n1".to_owned(),
            self.plane.agent_flag("n1"),
            format!("--root-dir={}", self.root.display()),
            self.driver.flag(),
        ];
        args.extend(self.flags.iter().cloned());
        let dir = self.root.parent().unwrap();
        self.agent = Some(Process::start_with("agent", dir, &args, &self.variables));
    }

    pub(crate) async fn kill_agent(&mut self) {
        self.agent.as_mut().unwrap().kill().await;
        self.start_agent();
    }

    /// Creates a class, and a claim of it that waits for its pod.
    pub(crate) async fn claim(&self) {
        let http = self.plane.http();
        http.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            &json!({"metadata": {"name": "lab"}, "provisioner": "hostpath.csi.orlop.dev"}),
        )
        .await;
        http.create(
            CLAIMS,
            &json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "lab",
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}),
        )
        .await;
    }

    /// The path of a volume in the pod's directory.
    fn path(&self, pod: &Value, volume: &str) -> PathBuf {
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        self.root.join("pods").join(uid).join("volumes/kubernetes.io~csi").join(volume).join("mount")
    }

    async fn volume(&self) -> String {
        let http = self.plane.http();
        let claim =
            http.until(&format!("{CLAIMS}/data"), "bound", |it| it["status"]["phase"] == "Bound").await;
        claim["spec"]["volumeName"].as_str().unwrap().to_owned()
    }

    /// After the pod is gone: nothing is mounted, attached, or in use.
    async fn nothing_is_left(&self) {
        let http = self.plane.http();
        wait::until("no volume is attached", async || {
            let left = http.try_get(ATTACHMENTS).await?.expect(200);
            if left["items"].as_array().is_some_and(Vec::is_empty) {
                Ok(())
            } else {
                Err(format!("{left:#}"))
            }
        })
        .await;
        http.until(&format!("{NODES}/n1"), "no volume in use", |node| {
            node["status"].get("volumesInUse").is_none_or(|list| list.as_array().is_none_or(Vec::is_empty))
        })
        .await;
        assert_eq!(mounted(&self.root), Vec::<PathBuf>::new());
        wait::until("no directory of a pod is left", async || {
            let left: Vec<_> =
                std::fs::read_dir(self.root.join("pods")).into_iter().flatten().flatten().collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
    }
}

const CLAIMED: &str = "data";

fn claimed() -> Value {
    json!([{"name": CLAIMED, "persistentVolumeClaim": {"claimName": "data"}}, {"name": "room", "emptyDir": {}}])
}

#[tokio::test]
async fn volume_lives_from_claim_to_deletion_on_one_machine() {
    let Some(mut ground) = NodeSetup::start().await else { return };
    let http = ground.plane.http();
    ground.claim().await;
    http.create(PODS, &pod("web", "n1", &claimed())).await;
    let web = running(&http, "web").await;
    let volume = ground.volume().await;
    let path = ground.path(&web, &volume);
    assert!(mounted(&ground.root).contains(&path), "{:?}", mounted(&ground.root));
    std::fs::write(path.join("written"), "by the pod").unwrap();
    let by_name = ground.root.join("by-name/default/web").join(CLAIMED).join("written");
    assert_eq!(std::fs::read_to_string(by_name).unwrap(), "by the pod");
    let node = http.get(&format!("{NODES}/n1")).await.expect(200);
    assert_eq!(node["status"]["volumesInUse"].as_array().map(Vec::len), Some(1), "{node:#}");

    http.delete(&format!("{PODS}/web")).await.expect(200);
    http.until_gone(&format!("{PODS}/web")).await;
    ground.nothing_is_left().await;

    // The data is still there for the next pod.
    http.create(PODS, &pod("next", "n1", &claimed())).await;
    let next = running(&http, "next").await;
    let path = ground.path(&next, &volume);
    assert_eq!(std::fs::read_to_string(path.join("written")).unwrap(), "by the pod");
    http.delete(&format!("{PODS}/next")).await.expect(200);
    http.until_gone(&format!("{PODS}/next")).await;
    ground.nothing_is_left().await;
    http.delete(&format!("{CLAIMS}/data")).await.expect(200);
    http.until_gone(&format!("{VOLUMES}/{volume}")).await;
    assert_eq!(ground.driver.driver().await.all_volumes().await.unwrap().len(), 0);
    let mut agent = ground.agent.take().unwrap();
    agent.signal(rustix::process::Signal::TERM);
    assert_eq!(agent.exit_code().await, 0, "{}", agent.log());
}

#[tokio::test]
async fn drain_ends_when_everything_is_unmounted_and_detached() {
    let Some(ground) = NodeSetup::start().await else { return };
    let http = ground.plane.http();
    ground.claim().await;
    ground
        .driver
        .faults(&json!([{"rpc": "NodeUnstageVolume", "times": 1, "fault": "error", "code": "UNAVAILABLE"}]));
    http.create(PODS, &pod("web", "n1", &claimed())).await;
    running(&http, "web").await;
    let args = ["node", "drain", "n1", "--force", "--delete-emptydir-data", "--timeout=60s", "--server"];
    let mut args = args.map(str::to_owned).to_vec();
    args.push(ground.plane.url());
    let mut drain = Process::start("drain", ground.root.parent().unwrap(), &args);
    assert_eq!(drain.exit_code().await, 0, "{}", drain.log());
    // Checked without waiting: the drain has already waited.
    assert_eq!(http.get(PODS).await.expect(200)["items"], json!([]));
    assert_eq!(http.get(ATTACHMENTS).await.expect(200)["items"], json!([]));
    assert_eq!(mounted(&ground.root), Vec::<PathBuf>::new());
    let node = http.get(&format!("{NODES}/n1")).await.expect(200);
    assert_eq!(
        (&node["spec"]["unschedulable"], &node["status"]["volumesInUse"]),
        (&json!(true), &Value::Null)
    );
}

#[tokio::test]
async fn agent_is_killed_during_pod_setup_and_teardown() {
    let Some(mut ground) = NodeSetup::start().await else { return };
    let http = ground.plane.http();
    ground.claim().await;
    // Slow enough for a kill in the middle.
    ground.driver.faults(&json!([
        {"rpc": "NodePublishVolume", "times": 1, "delay_ms": 1000},
        {"rpc": "NodeUnpublishVolume", "times": 1, "delay_ms": 1000}
    ]));
    http.create(PODS, &pod("web", "n1", &claimed())).await;
    wait::until("something is on disk", async || {
        let any = ground.root.join("plugins/kubernetes.io/csi/hostpath.csi.orlop.dev");
        if any.exists() { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    ground.kill_agent().await;
    let web = running(&http, "web").await;
    let path = ground.path(&web, &ground.volume().await);
    assert!(mounted(&ground.root).contains(&path), "{:?}", mounted(&ground.root));

    // The pod keeps running without its agent.
    ground.kill_agent().await;
    assert!(mounted(&ground.root).contains(&path), "what is mounted stays");
    http.delete(&format!("{PODS}/web")).await.expect(200);
    http.until(&format!("{PODS}/web"), "is stopped", |pod| {
        pod["status"]["containerStatuses"][0]["state"].get("terminated").is_some()
    })
    .await;
    // The state after a kill in the middle of preparing a mount.
    let half = ground.root.join("mounting/half");
    std::fs::create_dir_all(&half).unwrap();
    assert!(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&half).status().unwrap().success());
    ground.kill_agent().await;
    http.until_gone(&format!("{PODS}/web")).await;
    ground.nothing_is_left().await;
}
