//! Recycling on nodes: a claim is deleted, and a pod on this machine empties its volume, or fails with a reason.
//! The same with the built-in scrubber (`--runtime none`) and with processes that run the pod's script. Tests
//! that need root are skipped with a message if it is missing.
//!
//! The tests need no NFS client in the kernel: a program in place of mount(8), called with the same arguments,
//! bind-mounts directories of this machine in place of exports. `tests/nfs-guest` does the same with a real
//! server and a real client.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;
use crate::node::{Swept, mounted};

const CLAIMS: &str = "/api/v1/namespaces/test/persistentvolumeclaims";
const MYCLAIM: &str = "/api/v1/namespaces/test/persistentvolumeclaims/myclaim";
const PODS: &str = "/api/v1/namespaces/default/pods";
const RECYCLER: &str = "/api/v1/namespaces/default/pods/recycler-for-pv3";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const PV3: &str = "/api/v1/persistentvolumes/pv3";
const NODE: &str = "/api/v1/nodes/n1";

/// The server whose exports the replacement of mount(8) can mount.
const NAS: &str = "nas.test";
const DEADLINE: &str = "Pod was active on the node longer than the specified deadline";

/// The process that runs the node agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// `orlop serve --node`
    Server,
    /// `orlop node`
    Alone,
}

/// A control plane, and this machine as its only node.
struct RecycleSetup {
    agent: Option<Process>,
    agent_args: Vec<String>,
    plane: Plane,
    http: Http,
    base: PathBuf,
    _swept: Swept,
    _dir: tempfile::TempDir,
}

impl RecycleSetup {
    /// `None` without root, with a message.
    async fn start(place: Where, runtime: &str, flags: &[&str]) -> Option<Self> {
        if !orlop_test_support::privileges::has_root("recycling on a node") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("exports/v1")).unwrap();
        mount_program(&base);
        let machine = [
            format!("--root-dir={}", base.join("node").display()),
            format!("--runtime={runtime}"),
            format!("--host-path-roots={}", base.display()),
            "--port=0".to_owned(),
            // The disk of a test machine may be nearly full.
            "--eviction-hard=".to_owned(),
        ];
        let mut builder = Plane::of(Layout::OneProcess).controller_flags(flags);
        if place == Where::Server {
            let name = ["--node".to_owned(), "--node-name=n1".to_owned()];
            let all: Vec<&str> = name.iter().chain(&machine).map(String::as_str).collect();
            builder = builder.server_flags(&all);
        }
        let plane = builder.start().await;
        let mut agent_args = vec!["node".to_owned(), "--name=n1".to_owned(), plane.agent_flag("n1")];
        agent_args.extend(machine);
        let http = plane.http();
        let mut ground = RecycleSetup {
            agent: None,
            agent_args,
            plane,
            http,
            base: base.clone(),
            _swept: Swept(base),
            _dir: dir,
        };
        if place == Where::Alone {
            ground.start_agent();
        }
        let http = &ground.http;
        http.until(NODE, "ready, without a taint", |node| {
            let ready = node["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = ready.filter(|condition| condition["type"] == "Ready");
            ready.any(|condition| condition["status"] == "True")
                && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
        })
        .await;
        http.create("/api/v1/namespaces", &json!({"metadata": {"name": "test"}})).await;
        Some(ground)
    }

    fn start_agent(&mut self) {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.base.join("bin").display());
        // The machine may have no CA certificates; plain HTTP needs none.
        let variables = [("PATH", &*path), ("SSL_CERT_FILE", "/nowhere"), ("SSL_CERT_DIR", "/nowhere")];
        self.agent = Some(Process::start_with("agent", &self.base, &self.agent_args, &variables));
    }

    async fn kill_agent(&mut self) {
        self.agent.as_mut().unwrap().kill().await;
    }

    /// A volume and a claim are bound, and then the claim is deleted.
    async fn released(&self, source: Value) -> Value {
        let (volume, claim) = (volume(source), claim());
        self.http.create("/api/v1/persistentvolumes", &volume).await;
        self.bound(&claim).await;
        self.http.delete(MYCLAIM).await.expect(200);
        self.http.until_gone(MYCLAIM).await;
        volume
    }

    /// Creates a claim, and waits until it is bound to the volume.
    async fn bound(&self, claim: &Value) {
        let made = self.http.create(CLAIMS, claim).await;
        let uid = &made["metadata"]["uid"];
        self.http.until(MYCLAIM, "bound", |claim| claim["status"]["phase"] == "Bound").await;
        self.http
            .until(PV3, "bound to it", |volume| {
                volume["status"]["phase"] == "Bound" && volume["spec"]["claimRef"]["uid"] == *uid
            })
            .await;
    }

    async fn see_phase(&self, phase: &str) -> Value {
        self.http.until(PV3, phase, |volume| volume["status"]["phase"] == phase).await
    }

    /// Waits for an event with this object, type, reason, and prefix of its message.
    async fn until_event(&self, about: &str, type_: &str, reason: &str, begin: &str) -> String {
        wait::until(&format!("event of {about}: {type_} {reason} {begin}"), async || {
            let events = self.http.try_get(EVENTS).await?.expect(200);
            let events: Vec<&Value> = events["items"].as_array().unwrap().iter().collect();
            let found = events.iter().find(|event| {
                event["involvedObject"]["name"] == about
                    && event["type"] == type_
                    && event["reason"] == reason
                    && event["message"].as_str().is_some_and(|message| message.starts_with(begin))
            });
            let lines = events.iter().map(|event| {
                format!(
                    "{} {} {} {}",
                    event["involvedObject"]["name"], event["type"], event["reason"], event["message"]
                )
            });
            match found {
                Some(found) => Ok(found["message"].as_str().unwrap_or_default().to_owned()),
                None => Err(lines.collect::<Vec<_>>().join("\n")),
            }
        })
        .await
    }

    /// The volume is empty, available, and bound to a new claim; nothing of the recycler is left.
    async fn is_recycled(&self, dir: &Path) {
        let free = self.see_phase("Available").await;
        assert!(free["spec"]["claimRef"].is_null(), "{free:#}");
        assert_eq!(names(dir), Vec::<String>::new(), "files and dot files are gone");
        assert!(free["status"]["message"].is_null(), "{free:#}");
        self.until_event("pv3", "Normal", "VolumeRecycled", "Volume recycled").await;
        self.http.until_gone(RECYCLER).await;
        self.bound(&claim()).await;
        self.nothing_is_left().await;
    }

    async fn nothing_is_left(&self) {
        wait::until("nothing is mounted, and no pod has a directory", async || {
            let pods = names(&self.base.join("node/pods"));
            let mounts = mounted(&self.base.join("node"));
            if pods.is_empty() && mounts.is_empty() { Ok(()) } else { Err(format!("{pods:?} {mounts:?}")) }
        })
        .await;
    }
}

fn volume(source: Value) -> Value {
    let mut volume = json!({"metadata": {"name": "pv3"}, "spec": {"capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
        "persistentVolumeReclaimPolicy": "Recycle"}});
    for (kind, source) in source.as_object().unwrap() {
        volume["spec"][kind] = source.clone();
    }
    volume
}

fn claim() -> Value {
    json!({"metadata": {"name": "myclaim"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}}}})
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Files, dot files, directories, and a link to a directory that must be preserved.
fn fill(dir: &Path, stays: &Path) {
    std::fs::create_dir_all(dir.join("a/b/.c")).unwrap();
    std::fs::create_dir_all(dir.join(".hidden")).unwrap();
    for file in ["file", ".file", "a/b/.c/file", ".hidden/.file", "a name with\nwords"] {
        std::fs::write(dir.join(file), "data").unwrap();
    }
    std::fs::create_dir_all(stays).unwrap();
    std::fs::write(stays.join("dear"), "dear").unwrap();
    std::os::unix::fs::symlink(stays, dir.join("link")).unwrap();
}

/// The program in place of mount(8) and its helper: `mount -n -t nfs [-o OPTIONS] SERVER:PATH DIRECTORY`.
fn mount_program(base: &Path) {
    let bin = base.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = format!(
        r#"#!/bin/sh
test "$1 $2 $3" = "-n -t nfs" || exec /bin/mount "$@"
while [ $# -gt 2 ]; do shift; done
case "$1" in
{NAS}:/*) exec /bin/mount -n --bind "{}${{1#*:}}" "$2" ;;
*) echo "mount.nfs: Failed to resolve server ${{1%%:*}}: Name or service not known" >&2; exit 32 ;;
esac
"#,
        base.join("exports").display()
    );
    for name in ["mount", "mount.nfs"] {
        std::fs::write(bin.join(name), &script).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn nfs(server: &str, path: &str) -> Value {
    json!({"nfs": {"server": server, "path": path}})
}

const SHORT: [&str; 2] = ["--pv-recycler-minimum-timeout-nfs=3", "--pv-recycler-increment-timeout-nfs=0"];

/// The export's server does not exist: the pod waits for its volume until its deadline, the volume fails with a
/// reason, and an administrator frees it.
async fn out_of_reach(place: Where, runtime: &str) {
    let Some(mut ground) = RecycleSetup::start(place, runtime, &SHORT).await else { return };
    ground.released(nfs("172.16.51.58.1", "/")).await;
    let pod = ground.http.until(RECYCLER, "on the node", |pod| pod["spec"]["nodeName"] == "n1").await;
    assert_eq!(pod["spec"]["volumes"][0]["nfs"], json!({"server": "172.16.51.58.1", "path": "/"}));
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 3);

    let failed = ground.see_phase("Failed").await;
    let message = format!("Recycle failed: failed to recycle volume: {DEADLINE}");
    assert_eq!(failed["status"]["message"], message, "{failed:#}");
    ground.until_event("pv3", "Warning", "VolumeFailedRecycle", &message).await;
    let setup = "MountVolume.SetUp failed for volume \"vol\" : ";
    let said = ground.until_event("recycler-for-pv3", "Warning", "FailedMount", setup).await;
    assert!(said.contains("172.16.51.58.1:/") && said.contains("mount.nfs"), "{said}");
    let assigned = "Successfully assigned default/recycler-for-pv3 to n1";
    for (type_, text) in [("Normal", assigned), ("Warning", &*said), ("Normal", DEADLINE)] {
        ground.until_event("pv3", type_, "RecyclerPod", &format!("Recycler pod: {text}")).await;
    }

    // Recycling is retried. Meanwhile the claimRef is removed: the volume is available to other claims, and is no
    // longer scrubbed.
    let again = |pod: &Value| pod["metadata"]["uid"].as_str().is_some();
    ground.http.until(RECYCLER, "the next one", again).await;
    ground.http.patch(PV3, &json!({"spec": {"claimRef": null}})).await.expect(200);
    ground.see_phase("Available").await;
    ground.http.until_gone(RECYCLER).await;
    ground.bound(&claim()).await;
    let pods = ground.http.get(PODS).await.expect(200);
    assert_eq!(pods["items"], json!([]), "{pods:#}");
    ground.nothing_is_left().await;
    ground.plane.stop().await;
}

#[tokio::test]
async fn unreachable_export_fails_with_the_scrubber() {
    out_of_reach(Where::Server, "none").await;
}

#[tokio::test]
async fn unreachable_export_fails_with_processes() {
    out_of_reach(Where::Alone, "process").await;
}

#[tokio::test]
async fn export_is_emptied_by_the_script() {
    let Some(ground) = RecycleSetup::start(Where::Alone, "process", &[]).await else { return };
    let export = ground.base.join("exports/v1");
    fill(&export, &ground.base.join("stays"));
    let volume = ground.released(nfs(NAS, "/v1")).await;
    ground.is_recycled(&export).await;
    assert_eq!(std::fs::read(ground.base.join("stays/dear")).unwrap(), b"dear");
    assert_eq!(volume["spec"]["nfs"]["server"], NAS);
}

/// The mount is really a directory of this machine: the scrubber detects that, and deletes nothing.
#[tokio::test]
async fn scrubber_refuses_a_mount_that_is_not_nfs() {
    let Some(ground) = RecycleSetup::start(Where::Alone, "none", &[]).await else { return };
    let export = ground.base.join("exports/v1");
    fill(&export, &ground.base.join("stays"));
    ground.released(nfs(NAS, "/v1")).await;
    let failed = ground.see_phase("Failed").await;
    let message = failed["status"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Recycle failed: failed to recycle volume: "), "{message}");
    assert!(message.contains("nothing was deleted") && message.contains("is mounted there"), "{message}");
    assert_eq!(names(&export).len(), 6, "{:?}", names(&export));
}

/// A directory of this machine. A mount below it first makes the scrubber fail; the next attempt, on the failed
/// volume, succeeds.
#[tokio::test]
async fn directory_is_emptied_by_the_scrubber() {
    let flags = ["--pvclaimbinder-sync-period=1s"];
    let Some(ground) = RecycleSetup::start(Where::Server, "none", &flags).await else { return };
    let data = ground.base.join("data");
    fill(&data, &ground.base.join("stays"));
    let (theirs, below) = (ground.base.join("theirs"), data.join("a/b"));
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("kept"), "kept").unwrap();
    assert!(Command::new("mount").args(["--bind"]).args([&theirs, &below]).status().unwrap().success());
    ground.released(json!({"hostPath": {"path": data}})).await;
    let failed = ground.see_phase("Failed").await;
    let message = format!(
        "Recycle failed: failed to recycle volume: {} is not the directory of volume pv3, nothing was deleted: {} \
         is mounted below it; unmount it, or empty the volume yourself",
        data.display(),
        below.display()
    );
    assert_eq!(failed["status"]["message"], message, "{failed:#}");
    ground.until_event("pv3", "Warning", "VolumeFailedRecycle", &message).await;
    assert_eq!(names(&data).len(), 6, "{:?}", names(&data));
    assert!(Command::new("umount").arg(&below).status().unwrap().success());
    ground.is_recycled(&data).await;
    assert_eq!(std::fs::read(theirs.join("kept")).unwrap(), b"kept");
    assert_eq!(std::fs::read(ground.base.join("stays/dear")).unwrap(), b"dear");
}

/// The agent dies while the scrubber works; at any point, the next agent finishes the work.
#[tokio::test]
async fn scrubbing_is_finished_after_the_agent_dies() {
    let Some(mut ground) = RecycleSetup::start(Where::Alone, "none", &[]).await else { return };
    let data = ground.base.join("data");
    fill(&data, &ground.base.join("stays"));
    for file in 0..5000 {
        std::fs::write(data.join(format!("file-{file}")), "").unwrap();
    }
    ground.released(json!({"hostPath": {"path": data}})).await;
    wait::until("it has begun", async || {
        let left = names(&data).len();
        if left < 5006 { Ok(()) } else { Err(format!("{left} are there")) }
    })
    .await;
    ground.kill_agent().await;
    ground.start_agent();
    ground.is_recycled(&data).await;
    assert_eq!(std::fs::read(ground.base.join("stays/dear")).unwrap(), b"dear");
}

/// A template of the administrator: first its script fails; then the agent dies while the script runs, and the
/// script continues without it.
#[tokio::test]
async fn script_failure_is_reported_and_script_survives_the_agent() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let flags = [
        format!("--pv-recycler-pod-template-filepath-hostpath={}", file.path().display()),
        "--pvclaimbinder-sync-period=1s".to_owned(),
    ];
    let base = tempfile::tempdir().unwrap();
    let (ill, begun, go) = (base.path().join("ill"), base.path().join("begun"), base.path().join("go"));
    let script = format!(
        "test ! -e {} || exit 3; touch {}; until test -e {}; do sleep 0.1; done; find /scrub -mindepth 1 -delete",
        ill.display(),
        begun.display(),
        go.display()
    );
    let template = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "default"},
        "spec": {"restartPolicy": "Never", "volumes": [{"name": "vol", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "i", "command": ["/bin/sh", "-c", script],
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}]}]}});
    std::fs::write(file.path(), template.to_string()).unwrap();
    std::fs::write(&ill, "").unwrap();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Some(mut ground) = RecycleSetup::start(Where::Alone, "process", &flags).await else { return };
    let data = ground.base.join("data");
    fill(&data, &ground.base.join("stays"));
    ground.released(json!({"hostPath": {"path": data}})).await;
    let failed = ground.see_phase("Failed").await;
    let message = "Recycle failed: failed to recycle volume: pod failed, pod.Status.Message unknown";
    assert_eq!(failed["status"]["message"], message, "{failed:#}");
    ground.until_event("pv3", "Warning", "VolumeFailedRecycle", message).await;
    assert_eq!(names(&data).len(), 6, "{:?}", names(&data));

    std::fs::remove_file(&ill).unwrap();
    // A running pod may still be the one that is about to fail.
    wait::until("a script begins", async || begun.exists().then_some(()).ok_or_else(String::new)).await;
    ground.http.until(RECYCLER, "runs", |pod| pod["status"]["phase"] == "Running").await;
    ground.kill_agent().await;
    std::fs::write(&go, "").unwrap();
    wait::until("the script continues", async || {
        let left = names(&data);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let pod = ground.http.get(RECYCLER).await.expect(200);
    assert_eq!(pod["status"]["phase"], "Running", "no status is reported: {pod:#}");
    ground.start_agent();
    ground.is_recycled(&data).await;
}
