//! Tests that containers are isolated and that failures do not kill other processes.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::process::Signal;

use super::*;

fn is_running_now(pid: i32) -> bool {
    process_id::stat(pid).is_ok_and(|stat| !stat.is_over)
}

/// After a reboot, the process IDs of a record belong to another process: a daemon whose session leader has
/// exited.
#[tokio::test]
async fn process_ids_of_an_earlier_boot_are_not_killed() {
    let script = "setsid /bin/sh -c 'sleep 600 >/dev/null 2>&1 & echo $$ $!'";
    let said = Command::new("/bin/sh").args(["-c", script]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let (session, daemon) = said.trim().split_once(' ').unwrap();
    let daemon = process_id::ProcessId::of(daemon.parse().unwrap()).unwrap();
    let earlier =
        process_id::ProcessId { pid: session.parse().unwrap(), start: 1, boot: "earlier".to_owned() };
    let attempt = launch_spec::RunRecord {
        supervisor: earlier.clone(),
        main: Some(earlier),
        cgroup: None,
        started_at: None,
        end: None,
    };
    let dir = tempfile::tempdir().unwrap();
    let ended = container_run::ended(dir.path(), 0, &attempt).await.unwrap();
    let runs = is_running_now(daemon.pid);
    daemon.signal(Signal::KILL).unwrap();
    assert!(runs, "a process of the machine was killed");
    assert_eq!(ended.end.unwrap().reason, "ContainerStatusUnknown");
}

/// A failed check must not count as an exit: the container would be killed.
#[test]
fn running_process_is_found_without_free_file_descriptors() {
    const INNER: &str = "ORLOP_TEST_NO_FILES";
    if std::env::var_os(INNER).is_none() {
        let name =
            "runtime::process::tests::isolation::running_process_is_found_without_free_file_descriptors";
        let script = format!(
            "ulimit -n 32; exec {} --exact {name} --nocapture --test-threads=1",
            std::env::current_exe().unwrap().display()
        );
        let done = Command::new("/bin/sh").args(["-c", &script]).env(INNER, "1").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let own = process_id::ProcessId::own().unwrap();
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    for free in 0..2 {
        files.truncate(files.len() - free);
        let waited = runtime.block_on(async {
            tokio::time::timeout(Duration::from_millis(200), container_run::gone(&own)).await
        });
        assert!(waited.is_err(), "with room for {free} files this process counts as gone");
    }
}

/// A remaining process of a hook or probe would keep the container's volumes busy forever.
#[tokio::test]
async fn hook_processes_end_with_the_container() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let leaves = "setsid sleep 602 >/dev/null 2>&1 & echo $! >/orlop-test/pid";
    let more = json!({
        "volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}],
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", leaves]}}},
    });
    let spec = json!({"containers": [with(shell("c", "exec sleep 603"), more)]});
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    until(&runtime, "running", |state| is_running(state, 0)).await;
    runtime.stop("u", Duration::from_secs(20)).await.unwrap();
    let pid: i32 = std::fs::read_to_string(data.path.join("pid")).unwrap().trim().parse().unwrap();
    let runs = is_running_now(pid);
    if runs {
        process_id::ProcessId::of(pid).unwrap().signal(Signal::KILL).unwrap();
    }
    assert!(!runs, "a program of the hook runs on with the container's volumes");
}

/// A hook ends when its program exits, even if it writes much output and leaves the pipes to another process.
#[tokio::test]
async fn hook_ends_when_its_program_exits_despite_open_pipes() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let says =
        "head -c 200000 /dev/zero >&2; head -c 200000 /dev/zero; sleep 605 & echo hook >/orlop-test/trace";
    let more = json!({
        "volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}],
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", says]}}},
    });
    let script = "trap 'echo term >>/orlop-test/trace; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let spec = json!({"containers": [with(shell("c", script), more)]});
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    until(&runtime, "running", |state| is_running(state, 0)).await;
    while rig.log("c", 0).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    runtime.stop("u", Duration::from_secs(15)).await.unwrap();
    let trace = std::fs::read_to_string(data.path.join("trace")).unwrap_or_default();
    assert_eq!(trace, "hook\nterm\n", "the hook came to its end, and the container had its signal");
}

/// A directory with shared mount propagation, removed on drop.
struct RuntimeContext(PathBuf);

impl RuntimeContext {
    fn new(dir: PathBuf) -> Self {
        mount_bind(&dir, &dir).unwrap();
        let shared = Self(dir);
        mount_change(&shared.0, MountPropagationFlags::SHARED).unwrap();
        shared
    }

    fn memory(&self, at: &str) -> PathBuf {
        let dir = self.0.join(at);
        std::fs::create_dir_all(&dir).unwrap();
        mount("tmpfs", &dir, "tmpfs", MountFlags::empty(), None).unwrap();
        std::fs::write(dir.join("file"), "x").unwrap();
        dir.join("file")
    }
}

impl Drop for RuntimeContext {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Volumes that other pods mount later are hidden like earlier ones.
#[tokio::test]
async fn later_volumes_of_other_pods_are_hidden() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let shared = RuntimeContext::new(rig.dir.path().canonicalize().unwrap());
    let runtime = rig.runtime();
    let before = shared.memory("node/pods/before/volumes/v");
    runtime.start(pod(json!({"containers": [shell("c", "exec sleep 604")]})), Vec::new()).await.unwrap();
    until(&runtime, "running", |state| is_running(state, 0)).await;
    let (later, elsewhere) = (shared.memory("node/pods/later/volumes/v"), shared.memory("elsewhere"));
    let (_, attempt) = container_run::runs(&rig.path("node/pods/u/containers/c")).unwrap().remove(0);
    let root = format!("/proc/{}/root", attempt.main.unwrap().pid);
    let seen = |path: &Path| Path::new(&root).join(path.strip_prefix("/").unwrap()).exists();
    let (before, later, elsewhere) = (seen(&before), seen(&later), seen(&elsewhere));
    runtime.stop("u", Duration::ZERO).await.unwrap();
    assert!(elsewhere, "mounts of the machine are seen as they come");
    assert_eq!((before, later), (false, false), "volumes of other pods are seen");
}

/// Like upstream: users with write access to the volume have write access to a subPath that is created in it.
#[tokio::test]
async fn created_sub_paths_and_files_are_writable_for_the_container_user() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let data = rig.volume("data");
    std::fs::set_permissions(&data.path, std::fs::Permissions::from_mode(0o2777)).unwrap();
    let more = json!({
        "volumeMounts": [{"name": "data", "mountPath": "/orlop-test", "subPath": "made/deep"}],
        "securityContext": {"runAsUser": 4321, "runAsGroup": 4320},
    });
    let spec = json!({
        "restartPolicy": "Never",
        "containers": [with(shell("c", "umask; touch /orlop-test/x && echo written"), more)],
    });
    // The umask of the agent may be stricter.
    let mut launcher = launcher();
    launcher[2].insert_str(0, "umask 077; ");
    let runtime = rig.runtime_with(launcher);
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    until(&runtime, "the end", |state| state.ended).await;
    runtime.stop("u", Duration::ZERO).await.unwrap();
    assert_eq!(rig.log("c", 0), "stdout: 0022\nstdout: written\n");
    for part in ["made", "made/deep"] {
        let mode = std::fs::metadata(data.path.join(part)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o2777, "{part}");
    }
}

/// With `supplementalGroupsPolicy: Strict`, the image adds no groups to the user.
#[tokio::test]
async fn image_groups_apply_only_with_the_merge_policy() {
    if !can_run() {
        return;
    }
    for (policy, want) in [("Merge", "stdout: 4320 4322 4399\n"), ("Strict", "stdout: 4320 4322\n")] {
        let rig = Rig::new();
        let root = rig.path("image");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::create_dir(root.join("usr")).unwrap();
        for link in ["lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link)).unwrap();
        }
        std::fs::write(root.join("etc/passwd"), "me:x:4321:4320::/:\n").unwrap();
        std::fs::write(root.join("etc/group"), "own:x:4320:\nmore:x:4399:me\n").unwrap();
        let machine = PodPath { volume: "usr".into(), path: "/usr".into(), read_only: true, block: false };
        let spec = json!({
            "securityContext": {
                "runAsUser": 4321, "supplementalGroups": [4322], "supplementalGroupsPolicy": policy,
            },
            "containers": [{
                "name": "c", "image": format!("dir://{}", root.display()), "command": ["/usr/bin/id", "-G"],
                "volumeMounts": [{"name": "usr", "mountPath": "/usr"}],
            }],
        });
        let state = outcome(&rig, spec, vec![machine]).await;
        assert_eq!(rig.log("c", 0), want, "{policy}: {state:#?}");
    }
}
