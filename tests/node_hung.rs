//! A mount that hangs, and a driver that never answers: each blocks its own pod only, is reported in an event,
//! and completes once it is unblocked. Also tests that a directory has only one agent, and that only this agent
//! cleans up in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::process::Process;
use crate::harness::wait;
use crate::node::{ATTACHMENTS, CLAIMS, NODES, NodeSetup, PODS, mounted, pod, running};

/// A mount(8) that blocks mounts of the server `dead` until the test releases them, and mounts a tmpfs for all
/// other servers.
struct Helper(PathBuf);

impl Helper {
    fn new(dir: &Path) -> Self {
        let programs = dir.join("programs");
        fs::create_dir(&programs).unwrap();
        let real =
            ["/usr/bin/mount", "/bin/mount"].into_iter().find(|path| Path::new(path).exists()).unwrap();
        let helper = Helper(programs);
        let (begun, go) = (helper.0.join("begun"), helper.0.join("go"));
        let script = format!(
            "#!/bin/sh\n\
             for last in \"$@\"; do :; done\n\
             case \" $* \" in\n\
             *' -t nfs dead:'*) echo x >>{begun}; while [ ! -e {go} ]; do sleep 0.05; done;;\n\
             esac\n\
             case \" $* \" in\n\
             *' -t nfs '*) exec {real} -n -t tmpfs memory \"$last\";;\n\
             esac\n\
             exec {real} \"$@\"\n",
            begun = begun.display(),
            go = go.display(),
        );
        for (name, text) in [("mount", &*script), ("mount.nfs", "#!/bin/sh\nexit 1\n")] {
            let path = helper.0.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        helper
    }

    fn path(&self) -> String {
        format!("{}:{}", self.0.display(), std::env::var("PATH").unwrap_or_default())
    }

    async fn hangs(&self) {
        wait::until("the mount hangs", async || {
            if self.0.join("begun").exists() { Ok(()) } else { Err("no mount has begun".to_owned()) }
        })
        .await;
    }

    fn release(&self) {
        fs::write(self.0.join("go"), "").unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Also when the test fails: otherwise it would hang forever.
        let _ = fs::write(self.0.join("go"), "");
    }
}

fn nfs(server: &str) -> Value {
    json!([{"name": "share", "nfs": {"server": server, "path": "/x"}}])
}

/// Pods of these kinds start and end while `hangs` remains true.
async fn others_live(http: &Http, others: &[(&str, &Value)], hangs: impl Fn() -> bool) {
    for (name, volumes) in others {
        http.create(PODS, &pod(name, "n1", volumes)).await;
    }
    for (name, _) in others {
        running(http, name).await;
        http.delete(&format!("{PODS}/{name}")).await.expect(200);
    }
    for (name, _) in others {
        http.until_gone(&format!("{PODS}/{name}")).await;
    }
    assert!(hangs(), "the other pods came and went only after the hang had ended");
}

/// Waits for an event of a pod whose message contains all of these words.
async fn until_event(http: &Http, pod: &str, reason: &str, words: &[&str]) {
    let events = "/api/v1/namespaces/default/events";
    http.until(events, &format!("{reason} of {pod}"), |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == pod
                && event["reason"] == reason
                && words.iter().all(|word| message.contains(word))
        })
    })
    .await;
}

/// The pod is being deleted, but still exists.
async fn is_held(http: &Http, pod: &str) {
    let found = http.get(&format!("{PODS}/{pod}")).await.expect(200);
    assert!(found["metadata"]["deletionTimestamp"].is_string(), "{found:#}");
}

fn places(root: &Path) -> Vec<PathBuf> {
    fs::read_dir(root.join("mounting")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

async fn nothing_is_mounted(root: &Path) {
    wait::until("nothing is mounted", async || {
        let left = (mounted(root), places(root));
        if left.0.is_empty() && left.1.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[tokio::test]
async fn hanging_mount_blocks_its_own_pod_only() {
    let Some(mut ground) = NodeSetup::start().await else { return };
    let (http, root) = (ground.plane.http(), ground.root.clone());
    let helper = Helper::new(root.parent().unwrap());
    // The leftovers of a killed agent are removed at the start.
    fs::create_dir_all(root.join("mounting/left")).unwrap();
    let bound = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "left"])
        .arg(root.join("mounting/left"))
        .status();
    assert!(bound.unwrap().success());
    fs::write(root.join("mounting/file"), "").unwrap();
    ground.variables = vec![("PATH", helper.path())];
    ground.flags = vec!["--mount-timeout=2s".to_owned()];
    ground.kill_agent().await;
    nothing_is_mounted(&root).await;

    http.create(PODS, &pod("hung", "n1", &nfs("dead"))).await;
    helper.hangs().await;
    let memory = json!([{"name": "room", "emptyDir": {"medium": "Memory"}}]);
    // The directory of the hanging mount is removed when the mount ends.
    let hangs = || places(&root).len() == 1;
    others_live(&http, &[("same", &nfs("alive")), ("other", &memory)], hangs).await;
    until_event(&http, "hung", "FailedMount", &["share", "no answer for 2 s; it is still being tried"]).await;

    // A second agent exits, and does not remove the directory in which the first one is mounting.
    let making = places(&root);
    assert_eq!(making.len(), 1, "{making:?}");
    let args =
        ["node", "--name=n2", &ground.plane.agent_flag("n2"), &format!("--root-dir={}", root.display())];
    let mut second = Process::start("second", root.parent().unwrap(), &args.map(str::to_owned));
    assert_eq!(second.exit_code().await, 1, "{}", second.log());
    assert!(second.log().contains("another agent has the directory"), "{}", second.log());
    assert_eq!(places(&root), making);

    http.delete(&format!("{PODS}/hung")).await.expect(200);
    until_event(&http, "hung", "FailedUnMount", &["share", "still being tried"]).await;
    is_held(&http, "hung").await;
    others_live(&http, &[("same", &nfs("alive")), ("other", &memory)], hangs).await;
    is_held(&http, "hung").await;
    assert_eq!(fs::read_to_string(helper.0.join("begun")).unwrap(), "x\n", "it is not mounted twice");
    helper.release();
    http.until_gone(&format!("{PODS}/hung")).await;
    nothing_is_mounted(&root).await;
}

#[tokio::test]
async fn mount_helper_of_a_killed_agent_does_not_disturb_the_next_one() {
    let Some(mut ground) = NodeSetup::start().await else { return };
    let (http, root) = (ground.plane.http(), ground.root.clone());
    let helper = Helper::new(root.parent().unwrap());
    ground.variables = vec![("PATH", helper.path())];
    ground.kill_agent().await;
    http.create(PODS, &pod("hung", "n1", &nfs("dead"))).await;
    helper.hangs().await;
    let before = places(&root);
    ground.kill_agent().await;
    wait::until("the next agent mounts, too", async || {
        let now = places(&root);
        if now.len() == 1 && now != before { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    helper.release();
    let hung = running(&http, "hung").await;
    let uid = hung["metadata"]["uid"].as_str().unwrap();
    let target = root.join("pods").join(uid).join("volumes/kubernetes.io~nfs/share");
    assert_eq!(mounted(&root), [target], "once");
    http.delete(&format!("{PODS}/hung")).await.expect(200);
    http.until_gone(&format!("{PODS}/hung")).await;
    nothing_is_mounted(&root).await;
}

#[tokio::test]
async fn unresponsive_driver_blocks_its_own_pod_only() {
    let Some(ground) = NodeSetup::start().await else { return };
    let (http, root) = (ground.plane.http(), ground.root.clone());
    ground.claim().await;
    for name in ["second", "third"] {
        let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": "lab",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
        http.create(CLAIMS, &claim).await;
    }
    let of = |claim: &str| json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    let memory = json!([{"name": "room", "emptyDir": {"medium": "Memory"}}]);
    let held = async |rpc: &str| {
        wait::until(&format!("{rpc} is held"), async || {
            let held = ground.driver.held();
            if held == [rpc] { Ok(()) } else { Err(format!("{held:?}")) }
        })
        .await;
    };

    ground.driver.faults(&json!([{"rpc": "NodePublishVolume", "times": 1, "fault": "hold"}]));
    http.create(PODS, &pod("hung", "n1", &of("data"))).await;
    held("NodePublishVolume").await;
    others_live(&http, &[("same", &of("second")), ("other", &memory)], || {
        ground.driver.held() == ["NodePublishVolume"]
    })
    .await;
    http.delete(&format!("{PODS}/hung")).await.expect(200);
    until_event(&http, "hung", "FailedUnMount", &["mounting it was begun earlier and has not ended yet"])
        .await;
    is_held(&http, "hung").await;
    ground.driver.faults(&json!([]));
    http.until_gone(&format!("{PODS}/hung")).await;

    // The same while a pod is torn down.
    http.create(PODS, &pod("going", "n1", &of("data"))).await;
    running(&http, "going").await;
    ground.driver.faults(&json!([{"rpc": "NodeUnpublishVolume", "times": 1, "fault": "hold-after"}]));
    http.delete(&format!("{PODS}/going")).await.expect(200);
    held("NodeUnpublishVolume").await;
    others_live(&http, &[("same", &of("third")), ("other", &memory)], || {
        ground.driver.held() == ["NodeUnpublishVolume"]
    })
    .await;
    until_event(&http, "going", "FailedUnMount", &["unmounting it has not ended yet"]).await;
    is_held(&http, "going").await;
    ground.driver.faults(&json!([]));
    http.until_gone(&format!("{PODS}/going")).await;
    http.until(ATTACHMENTS, "none", |list| list["items"].as_array().is_some_and(Vec::is_empty)).await;
    http.until(&format!("{NODES}/n1"), "no volume in use", |node| {
        node["status"].get("volumesInUse").is_none()
    })
    .await;
    assert_eq!(mounted(&root), Vec::<PathBuf>::new());
}
