//! Tests of links, records, hooks and states, with real files.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

fn pod(uid: &str) -> Arc<Pod> {
    let spec = json!({
        "initContainers": [{"name": "i", "image": "x"}],
        "containers": [{"name": "a", "image": "img"}, {"name": "b"}],
    });
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": uid}, "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn volume(name: &str, path: &str) -> PodPath {
    PodPath { volume: name.into(), path: path.into(), read_only: false, block: false }
}

struct Rig {
    dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn runtime(&self) -> NoRuntime {
        let hooks = Hooks::new(Some(self.dir.path().join("hooks")));
        NoRuntime::new(Paths::new(self.dir.path()), hooks, Clock::Wall, None).unwrap()
    }

    fn hook(&self, event: HookEvent, script: &str) {
        let dir = self.dir.path().join("hooks");
        std::fs::create_dir_all(&dir).unwrap();
        let fresh = dir.join("new");
        let script = format!("#!/bin/sh\ncd {}\n{script}\n", self.dir.path().display());
        std::fs::write(&fresh, script).unwrap();
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(fresh, dir.join(event.name())).unwrap();
    }

    fn links(&self) -> Vec<(String, String)> {
        let dir = self.dir.path().join("by-name/n/p");
        let target = |name: &String| std::fs::read_link(dir.join(name)).unwrap().display().to_string();
        records::names(&dir).unwrap().into_iter().map(|name| (name.clone(), target(&name))).collect()
    }
}

fn pairs(links: &[(&str, &str)]) -> Vec<(String, String)> {
    links.iter().map(|(name, target)| ((*name).to_owned(), (*target).to_owned())).collect()
}

#[tokio::test]
async fn pod_has_links_and_runs_until_it_is_stopped() {
    let rig = Rig::new();
    let runtime = rig.runtime();
    runtime.start(pod("u1"), vec![volume("d", "/x"), volume("e", "/y")]).await.unwrap();
    assert_eq!(rig.links(), pairs(&[("d", "/x"), ("e", "/y")]));
    let state = runtime.state("u1").unwrap();
    let first = state.borrow().clone();
    assert_eq!(first.containers.len(), 2);
    let a = &first.containers[0];
    assert_eq!(a.container_id.as_deref(), Some("orlop://none/u1/a"));
    assert_eq!((a.image.as_str(), a.ready, a.started), ("img", true, Some(true)));
    assert!(a.state.as_ref().unwrap().running.is_some());
    assert!(first.init[0].state.as_ref().unwrap().terminated.is_some());

    runtime.start(pod("u1"), vec![volume("d", "/z")]).await.unwrap();
    assert_eq!(rig.links(), pairs(&[("d", "/z")]));
    assert_eq!(*state.borrow(), first, "a second start changes no state");

    runtime.stop("u1", Duration::ZERO).await.unwrap();
    let last = state.borrow().clone();
    assert!(last.ended);
    let done = last.containers[0].state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((done.exit_code, done.reason.as_deref()), (0, Some("Completed")));
    assert!(!rig.dir.path().join("by-name/n").exists());
    assert!(!rig.dir.path().join("pods/u1/containers").exists());
    assert_eq!(runtime.known().await, Vec::<String>::new());
    runtime.stop("u1", Duration::ZERO).await.unwrap();
    runtime.stop("never", Duration::ZERO).await.unwrap();
    runtime.forget("u1").await;
    assert!(runtime.state("u1").is_none());
}

#[tokio::test]
async fn restarted_agent_loads_its_records() {
    let rig = Rig::new();
    rig.hook(HookEvent::PodStarted, "echo start >>calls");
    rig.runtime().start(pod("u1"), vec![volume("d", "/x")]).await.unwrap();
    let before = rig.runtime().state("u1").unwrap().borrow().clone();
    let runtime = rig.runtime();
    assert_eq!(runtime.known().await, ["u1"]);
    assert_eq!(*runtime.state("u1").unwrap().borrow(), before);
    runtime.start(pod("u1"), vec![volume("d", "/x")]).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(rig.dir.path().join("calls")).unwrap(),
        "start\n",
        "the hook ran once"
    );
    runtime.stop("u1", Duration::ZERO).await.unwrap();
    assert_eq!(rig.links(), []);
}

#[tokio::test]
async fn pod_of_the_same_name_waits_for_the_links() {
    let rig = Rig::new();
    let runtime = rig.runtime();
    runtime.start(pod("u1"), vec![volume("d", "/x")]).await.unwrap();
    let error = runtime.start(pod("u2"), vec![volume("d", "/y")]).await.unwrap_err().to_string();
    assert!(error.contains("pod u1 of the same name"), "{error}");
    assert_eq!(rig.links(), pairs(&[("d", "/x")]));
    runtime.stop("u2", Duration::ZERO).await.unwrap();
    assert_eq!(rig.links(), pairs(&[("d", "/x")]), "a pod that was never started takes nothing away");
    runtime.stop("u1", Duration::ZERO).await.unwrap();
    runtime.start(pod("u2"), vec![volume("d", "/y")]).await.unwrap();
    assert_eq!(rig.links(), pairs(&[("d", "/y")]));
}

#[tokio::test]
async fn hooks_see_the_links_and_a_failed_hook_prevents_the_start() {
    let rig = Rig::new();
    let runtime = rig.runtime();
    rig.hook(HookEvent::VolumeMounted, "echo mounted $ORLOP_VOLUME $ORLOP_PATH >>calls; exit 1");
    rig.hook(HookEvent::PodStarted, "ls by-name/n/p >>calls; exit 1");
    rig.hook(HookEvent::PodStopping, "echo stopping; ls by-name/n/p >>calls");
    rig.hook(HookEvent::VolumeUnmounting, "ls by-name >>calls; echo leaving $ORLOP_VOLUME >>calls");
    rig.hook(HookEvent::PodStopped, "echo stopped >>calls");
    let paths = vec![volume("d", "/x")];
    let error = runtime.start(pod("u1"), paths.clone()).await.unwrap_err().to_string();
    assert!(error.contains("pod-started ended with exit status: 1"), "{error}");
    assert_eq!(*runtime.state("u1").unwrap().borrow(), PodState::default());
    rig.hook(HookEvent::PodStarted, "true");
    runtime.start(pod("u1"), paths).await.unwrap();
    runtime.stop("u1", Duration::ZERO).await.unwrap();
    let calls = std::fs::read_to_string(rig.dir.path().join("calls")).unwrap();
    assert_eq!(calls, "mounted d /x\nd\nmounted d /x\nd\nleaving d\nstopped\n");
}

#[tokio::test]
async fn invalid_volume_names_and_foreign_files_are_refused() {
    let rig = Rig::new();
    let runtime = rig.runtime();
    let error = runtime.start(pod("u1"), vec![volume("../d", "/x")]).await.unwrap_err().to_string();
    assert!(error.contains("cannot be the name of a file"), "{error}");
    runtime.start(pod("u1"), vec![volume("d", "/x")]).await.unwrap();
    std::fs::create_dir(rig.dir.path().join("by-name/n/p/mine")).unwrap();
    let error = runtime.stop("u1", Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("is not a link"), "{error}");
    std::fs::remove_dir(rig.dir.path().join("by-name/n/p/mine")).unwrap();
    runtime.stop("u1", Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn pod_that_never_ran_has_no_exit_code() {
    let rig = Rig::new();
    let runtime = rig.runtime();
    rig.hook(HookEvent::PodStarted, "exit 1");
    runtime.start(pod("u1"), vec![volume("d", "/x")]).await.unwrap_err();
    let state = runtime.state("u1").unwrap();
    runtime.stop("u1", Duration::ZERO).await.unwrap();
    assert_eq!(*state.borrow(), PodState { ended: true, ..PodState::default() });
    assert_eq!(rig.links(), []);
}
