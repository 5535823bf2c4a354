//! Commands for nodes: `orlop node drain`, `uncordon` and `gc`, against a real server. No agents run here; the
//! test creates directories and objects itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, Process, command};
use crate::harness::wait;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const NODES: &str = "/api/v1/nodes";

/// Asserts the exit code; returns stdout and stderr.
#[track_caller]
fn ends(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{}\n{}", said.0, said.1);
    said
}

fn node(plane: &Plane, args: &[&str]) -> Output {
    let mut all = command(&*ORLOP, plane.dir());
    all.arg("node").args(args).arg("--server").arg(plane.url()).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn has(said: &str, lines: &[&str]) {
    for line in lines {
        assert!(said.lines().any(|found| found == *line), "{line}\nis not in\n{said}");
    }
}

/// Creates a running pod on n1.
async fn pod(http: &Http, name: &str, owner: Option<&str>, volumes: Value) {
    let owners = owner.map(
        |kind| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true}]),
    );
    let pod = json!({"metadata": {"name": name, "labels": {"app": name}, "ownerReferences": owners},
        "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i"}], "volumes": volumes}});
    http.create(PODS, &pod).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    http.patch(&format!("{PODS}/{name}/status"), &status).await.expect(200);
}

/// Creates a volume of a driver, bound to a claim and attached to n1.
async fn attached(http: &Http, name: &str) {
    let volume = json!({"metadata": {"name": format!("pv-{name}")}, "spec": {"capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": name}, "storageClassName": "",
        "claimRef": {"namespace": "default", "name": name}}});
    http.create(VOLUMES, &volume).await;
    let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "volumeName": format!("pv-{name}"), "resources": {"requests": {"storage": "1Mi"}}}});
    http.create(CLAIMS, &claim).await;
    let attachment = json!({"metadata": {"name": format!("va-{name}")}, "spec": {"attacher": "d", "nodeName": "n1",
        "source": {"persistentVolumeName": format!("pv-{name}")}}});
    http.create(ATTACHMENTS, &attachment).await;
}

async fn in_use(http: &Http, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|name| format!("kubernetes.io/csi/d^{name}")).collect();
    let status = json!({"status": {"volumesInUse": names}});
    http.patch(&format!("{NODES}/n1/status"), &status).await.expect(200);
}

async fn names(http: &Http) -> Vec<String> {
    let pods = http.get(PODS).await.expect(200);
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn drained_node_can_be_uncordoned() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    http.create(NODES, &json!({"metadata": {"name": "n1"}})).await;
    let claimed = |name: &str| json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
    for name in ["daemon", "kept"] {
        attached(&http, name).await;
    }
    in_use(&http, &["daemon", "kept"]).await;
    pod(&http, "daemon", Some("DaemonSet"), claimed("daemon")).await;
    pod(&http, "kept", Some("ReplicaSet"), claimed("kept")).await;
    pod(&http, "lone", None, json!([])).await;
    pod(&http, "room", Some("ReplicaSet"), json!([{"name": "v", "emptyDir": {}}])).await;
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}});
    http.create(BUDGETS, &budget).await;
    let allow = async |allowed: u32| {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1}});
        http.patch(&format!("{BUDGETS}/b/status"), &status).await.expect(200);
    };
    allow(0).await;

    // A dry run changes nothing, and checks the budgets.
    let (said, _) =
        ends(&node(&plane, &["drain", "n1", "--dry-run", "--force", "--delete-emptydir-data"]), 0);
    has(
        &said,
        &[
            "node n1 would be cordoned",
            "pod default/daemon would stay",
            "pod default/lone would be evicted",
            "pod default/room would be evicted",
            "nothing was changed",
        ],
    );
    assert!(said.contains("pod default/kept could not be evicted yet (Cannot evict pod"), "{said}");
    let object = http.get(&format!("{NODES}/n1")).await.expect(200);
    assert!(object["spec"].get("unschedulable").is_none(), "{object:#}");

    // Data that would be lost is reported before the confirmation.
    let (_, error) = ends(&node(&plane, &["drain", "n1"]), 1);
    assert_eq!(
        error.trim_end(),
        "error: no pod was evicted from node n1: no controller manages these pods (--force evicts them anyway): \
         default/lone; these pods use emptyDir volumes, whose data would be deleted (--delete-emptydir-data evicts them anyway): \
         default/room"
    );
    assert_eq!(names(&http).await, ["daemon", "kept", "lone", "room"]);
    let object = http.get(&format!("{NODES}/n1")).await.expect(200);
    assert_eq!(object["spec"]["unschedulable"], true);

    for said in ["node n1 is uncordoned\n", "node n1 is uncordoned already\n"] {
        assert_eq!(ends(&node(&plane, &["uncordon", "n1"]), 0).0, said);
    }
    let object = http.get(&format!("{NODES}/n1")).await.expect(200);
    assert!(object["spec"].get("unschedulable").is_none(), "{object:#}");
    let (_, error) = ends(&node(&plane, &["uncordon", "n2"]), 1);
    assert_eq!(error.trim_end(), "error: cannot read node n2: nodes \"n2\" not found");

    // The drain waits for a budget, then for the pods' volumes; a pod that stays keeps its volume.
    let flags = ["node", "drain", "n1", "--force", "--delete-emptydir-data", "--server"];
    let mut args = flags.map(str::to_owned).to_vec();
    args.push(plane.url());
    let mut drain = Process::start("drain", plane.dir(), &args);
    let says = async |drain: &Process, text: &str| {
        wait::until(text, async || {
            let log = drain.log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        })
        .await;
    };
    says(&drain, "waiting for pods: default/kept cannot be evicted yet (Cannot evict pod").await;
    assert_eq!(names(&http).await, ["daemon", "kept"]);
    allow(1).await;
    says(&drain, "waiting for volumes to be unmounted: kubernetes.io/csi/d^kept\n").await;
    in_use(&http, &["daemon"]).await;
    says(&drain, "waiting for volumes to be detached: pv-kept\n").await;
    http.delete(&format!("{ATTACHMENTS}/va-kept")).await.expect(200);
    assert_eq!(drain.exit_code().await, 0, "{}", drain.log());
    says(&drain, "node n1 is drained: it has no pods to evict and no attached volumes\n").await;
    assert_eq!(names(&http).await, ["daemon"]);

    attached(&http, "late").await;
    let (said, error) = ends(&node(&plane, &["drain", "n1", "--timeout=1s"]), 1);
    has(&said, &["node n1 is already cordoned"]);
    assert_eq!(
        error.trim_end(),
        "error: node n1 is not drained after 1 s: waiting for volumes to be detached: pv-late"
    );
}

/// Unmounts, also when the test fails.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount_memory(at: &Path) -> Option<Mounted> {
    if !orlop_test_support::privileges::has_root("a mount below the agent's directory") {
        return None;
    }
    fs::create_dir_all(at).unwrap();
    let status = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(at).status().unwrap();
    assert!(status.success());
    Some(Mounted(at.to_owned()))
}

#[tokio::test]
async fn gc_removes_leftovers_of_an_agent() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    http.create(NODES, &json!({"metadata": {"name": "n1"}})).await;
    // A pod of another node: a wrong --name must not move the directory of a known pod.
    pod(&http, "known", None, json!([])).await;
    let known = http.get(&format!("{PODS}/known")).await.expect(200);
    let known = known["metadata"]["uid"].as_str().unwrap();
    let root = plane.dir().canonicalize().unwrap().join("agent");
    let (pods, outside) = (root.join("pods"), plane.dir().join("outside"));
    let shown = |path: &str| root.join(path).display().to_string();
    let write = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "data").unwrap();
    };
    write(outside.join("file"));
    fs::create_dir_all(pods.join("empty/volumes/x~y")).unwrap();
    fs::create_dir_all(pods.join("linked/what")).unwrap();
    std::os::unix::fs::symlink(&outside, pods.join("linked/what/out")).unwrap();
    for name in ["full/what/file", &format!("{known}/what/file"), "runs/containers/none.json"] {
        write(pods.join(name));
    }
    fs::create_dir_all(pods.join("left/volumes/kubernetes.io~empty-dir/v")).unwrap();
    for name in ["20200101T000000Z-old", "by-hand"] {
        write(root.join("quarantine").join(name).join("file"));
        std::os::unix::fs::symlink(&outside, root.join("quarantine").join(name).join("out")).unwrap();
    }
    let mounted = mount_memory(&pods.join("mounted/what"));
    let gc = |more: &[&str]| {
        let root = format!("--root-dir={}", root.display());
        node(&plane, &[&["gc", "--name=n9", &root], more].concat())
    };
    let all = |dir: &Path| {
        let found = Command::new("find").arg(dir).output().unwrap();
        let mut lines: Vec<_> = String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };

    // A dry run changes nothing, and a running agent excludes gc.
    let before = all(&root);
    let would = [
        "unmounted by the next agent: volume kubernetes.io/empty-dir/v (of unknown pod left)".to_owned(),
        format!("would be removed: {}, which is empty", shown("pods/empty")),
        format!("would be moved into quarantine: {}, which is not empty", shown("pods/full")),
        format!("would be moved into quarantine: {}, which is not empty", shown("pods/linked")),
        format!(
            "kept: {}; there are records of its containers; the agent ends what runs of them",
            shown("pods/runs")
        ),
    ];
    let (said, _) = ends(&gc(&["--dry-run", "--purge-quarantine", "--older-than=24h"]), 1);
    has(&said, &would.each_ref().map(String::as_str));
    has(&said, &[&format!("{}: not in use by an agent", root.display())]);
    assert!(
        said.contains(&format!(
            "would be deleted from quarantine: {}, for ",
            shown("quarantine/20200101T000000Z-old")
        )),
        "{said}"
    );
    assert!(
        said.contains(&format!("in quarantine: {}, since an unknown time", shown("quarantine/by-hand"))),
        "{said}"
    );
    assert!(!said.contains(known), "{said}");
    if mounted.is_some() {
        let stays = "unknown mounts in it";
        has(&said, &[&format!("kept: {}; {stays}: {}", shown("pods/mounted"), shown("pods/mounted/what"))]);
    }
    assert_eq!(all(&root), before);
    {
        let lock = fs::File::create(root.join("agent.lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let before = all(&root);
        let (said, _) = ends(&gc(&[]), 1);
        has(
            &said,
            &[
                &format!(
                    "{}: in use by an agent, which cleans it up every minute; this command only reports",
                    root.display()
                ),
                &would[1],
                &would[2],
            ],
        );
        assert_eq!(all(&root), before);
    }

    // If the pods cannot be listed, nothing is changed.
    let (_, error) = ends(&gc(&["--purge-quarantine"]), 2);
    assert!(error.contains("--older-than"), "{error}");
    let deaf = command(&*ORLOP, plane.dir())
        .args(["node", "gc", "--server=http://127.0.0.1:1", &format!("--root-dir={}", root.display())])
        .output()
        .unwrap();
    let (_, error) = ends(&deaf, 2);
    assert!(error.contains("error: cannot list pods, which is required to find leftovers"), "{error}");
    assert!(pods.join("full").exists() && pods.join("empty").exists());

    let (said, _) = ends(&gc(&[]), 1);
    has(&said, &[&format!("removed: {}, which was empty", shown("pods/empty"))]);
    let mut left: Vec<String> =
        fs::read_dir(&pods).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.retain(|name| name != "mounted");
    left.sort();
    let mut expected = ["left", "runs", known];
    expected.sort_unstable();
    assert_eq!(left, expected);
    let quarantine = all(&root.join("quarantine"));
    for end in ["-full/what/file", "-linked/what/out", "20200101T000000Z-old/file"] {
        assert!(quarantine.iter().any(|path| path.ends_with(end)), "{end}: {quarantine:#?}");
    }
    http.until("/api/v1/namespaces/default/events", "tells of both", |list| {
        let events = list["items"].as_array().unwrap().iter();
        events.filter(|event| event["reason"] == "OrphanedPodVolume").count() == 2
    })
    .await;

    // Only old entries are purged from the quarantine, and links are never followed.
    let (said, _) = ends(&gc(&["--purge-quarantine", "--older-than=24h"]), 1);
    assert!(
        said.contains(&format!(
            "\ndeleted from quarantine: {}, for ",
            shown("quarantine/20200101T000000Z-old")
        )),
        "{said}"
    );
    let quarantine = all(&root.join("quarantine"));
    assert!(!quarantine.iter().any(|path| path.contains("-old")), "{quarantine:#?}");
    assert!(quarantine.iter().any(|path| path.ends_with("-full/what/file")), "{quarantine:#?}");
    ends(&gc(&["--purge-quarantine", "--older-than=0s"]), 1);
    assert_eq!(fs::read_dir(root.join("quarantine")).unwrap().count(), 1, "by-hand");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "data");

    drop(mounted);
    for dir in ["quarantine/by-hand", "pods/left", "pods/runs"] {
        fs::remove_dir_all(root.join(dir)).unwrap();
    }
    let (said, _) = ends(&gc(&[]), 0);
    has(&said, &["nothing is left"]);
    assert!(pods.join(known).join("what/file").exists());
}
