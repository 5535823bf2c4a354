//! Real processes with real mounts, below a temporary directory. The hidden mode is this test binary: one of its
//! tests executes orders.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::ExitCode;

use orlop_test_support::FakeApi;
use serde_json::{Value, json};

use super::*;

mod isolation;
mod sidecars;

/// Set when the process was started by an order; otherwise that test does nothing.
const ORDERED: &str = "ORLOP_TEST_HIDDEN_MODE";

#[test]
fn hidden_mode() {
    if std::env::var_os(ORDERED).is_none() {
        return;
    }
    // The test harness has already written to the standard output, so the container's output is another file (see
    // `launcher`).
    let out = std::fs::File::options().write(true).open("/proc/self/fd/9").unwrap();
    rustix::stdio::dup2_stdout(&out).unwrap();
    drop(out);
    let code = container_main(Path::new("-"));
    std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 });
}

fn launcher() -> Vec<String> {
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "export {ORDERED}=1; exec 9>&1 >/dev/null; exec {} --exact runtime::process::tests::hidden_mode --nocapture --test-threads=1",
        exe.display()
    );
    ["/bin/sh".to_owned(), "-c".to_owned(), script].to_vec()
}

/// Whether containers can be created here; reports a skipped test if not.
fn can_run() -> bool {
    orlop_test_support::privileges::has_root("containers")
}

struct Rig {
    dir: tempfile::TempDir,
    api: FakeApi,
}

impl Rig {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), api: FakeApi::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn runtime(&self) -> ProcessRuntime {
        self.runtime_with(launcher())
    }

    fn runtime_with(&self, launcher: Vec<String>) -> ProcessRuntime {
        let mut config = ProcessConfig::new(Paths::new(self.path("node")), self.api.client());
        config.launcher = launcher;
        let second = Duration::from_millis(50);
        config.back_off = BackOff { first: second, max: second * 4, reset: Duration::from_secs(600) };
        ProcessRuntime::new(config).unwrap()
    }

    fn volume(&self, name: &str) -> PodPath {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        PodPath { volume: name.into(), path, read_only: false, block: false }
    }

    fn log(&self, container: &str, restart: u32) -> String {
        let file = self.path(&format!("node/logs/n_p_u/{container}/{restart}.log"));
        let text = std::fs::read(&file).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter_map(log::parse);
        lines
            .map(|line| format!("{}: {}\n", line.stream.word(), String::from_utf8_lossy(line.text)))
            .collect()
    }
}

impl Drop for Rig {
    /// Stops the containers of a failed test.
    fn drop(&mut self) {
        let pods = self.path("node/pods");
        for uid in records::names(&pods).unwrap_or_default() {
            let dir = pods.join(uid).join("containers");
            for name in records::names(&dir).unwrap_or_default() {
                for (_, attempt) in container_run::runs(&dir.join(name)).unwrap_or_default() {
                    for one in [attempt.main, Some(attempt.supervisor)].into_iter().flatten() {
                        let _ = one.signal(rustix::process::Signal::KILL);
                    }
                }
            }
        }
    }
}

fn pod(spec: Value) -> Arc<Pod> {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "i", "command": ["/bin/sh", "-c", script]})
}

fn with(mut container: Value, more: Value) -> Value {
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}

/// Waits for a state; fails the test on a timeout.
async fn until(runtime: &ProcessRuntime, what: &str, is_there: impl Fn(&PodState) -> bool) -> PodState {
    let mut state = runtime.state("u").unwrap();
    let found = tokio::time::timeout(Duration::from_secs(30), state.wait_for(|state| is_there(state))).await;
    match found {
        Ok(found) => found.unwrap().clone(),
        Err(_) => panic!("{what}: {:#?}", *runtime.state("u").unwrap().borrow()),
    }
}

fn is_running(state: &PodState, index: usize) -> bool {
    let status = state.containers.get(index);
    status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

fn exit(state: &PodState, index: usize) -> (i32, String, String) {
    let terminated = state.containers[index].state.as_ref().unwrap().terminated.clone();
    let terminated = terminated.unwrap_or_else(|| panic!("{:#?}", state.containers[index]));
    (terminated.exit_code, terminated.reason.unwrap_or_default(), terminated.message.unwrap_or_default())
}

/// Runs a pod until it ends by itself and returns its last state.
async fn outcome(rig: &Rig, spec: Value, volumes: Vec<PodPath>) -> PodState {
    let runtime = rig.runtime();
    let spec = with(spec, json!({"restartPolicy": "Never"}));
    runtime.start(pod(spec), volumes).await.unwrap();
    let state = until(&runtime, "the end", |state| state.ended).await;
    runtime.stop("u", Duration::from_secs(1)).await.unwrap();
    assert!(!rig.path("node/pods/u/containers").exists());
    state
}

#[tokio::test]
async fn container_sees_its_volumes_and_reports_its_exit() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    rig.api.seed(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": {"k": "Z2VoZWlt"},
    }));
    let (data, fixed) = (rig.volume("data"), rig.volume("fixed"));
    std::fs::write(fixed.path.join("f"), "fixed").unwrap();
    std::fs::create_dir_all(data.path.join("sub")).unwrap();
    let lacks = "/usr/orlop-test-missing/deep";
    let script = format!(
        "echo $SECRET $1 >/orlop-test/out; cat {lacks}/f; echo; echo no >{lacks}/f || echo refused; ls -d /usr/bin /etc/passwd; \
         pwd; id -u; id -G; echo bad >&2; echo why >/dev/termination-log; echo below >/orlop-test-sub/x; exit 3"
    );
    let container = json!({
        "name": "c",
        "command": ["/bin/sh", "-c", script, "sh"],
        "args": ["$(SECRET)!"],
        "workingDir": "/orlop-test",
        "env": [{"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "volumeMounts": [
            {"name": "data", "mountPath": "/orlop-test"},
            {"name": "data", "mountPath": "/orlop-test-sub", "subPath": "sub"},
            {"name": "fixed", "mountPath": lacks, "readOnly": true},
        ],
    });
    let spec = json!({"containers": [container], "securityContext": {"fsGroup": 4322, "supplementalGroups": [4323]}});
    let state = outcome(&rig, spec, vec![data.clone(), fixed.clone()]).await;
    assert_eq!(exit(&state, 0), (3, "Error".into(), "why\n".into()), "{}", rig.log("c", 0));
    assert_eq!(std::fs::read_to_string(data.path.join("out")).unwrap(), "geheim geheim!\n");
    assert_eq!(std::fs::read_to_string(data.path.join("sub/x")).unwrap(), "below\n");
    assert_eq!(std::fs::read_to_string(fixed.path.join("f")).unwrap(), "fixed");
    let log = rig.log("c", 0);
    for line in [
        "stdout: fixed",
        "stdout: refused",
        "stdout: /usr/bin",
        "stdout: /orlop-test",
        "stdout: 0",
        "stderr: bad",
    ] {
        assert!(log.lines().any(|found| found == line), "{line} is not in {log}");
    }
    assert!(log.contains(" 4322 4323") || log.contains("4322 4323"), "{log}");
    assert!(!Path::new("/orlop-test").exists() && !Path::new("/usr/orlop-test-missing").exists());
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains(rig.dir.path().to_str().unwrap()), "nothing is left mounted");
}

#[tokio::test]
async fn users_are_applied_and_links_do_not_leave_a_volume() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let data = rig.volume("data");
    std::fs::create_dir(rig.path("secret")).unwrap();
    std::os::unix::fs::symlink(rig.path("secret"), data.path.join("link")).unwrap();
    let mount = |more: Value| json!({"volumeMounts": [with(json!({"name": "data", "mountPath": "/orlop-test"}), more)]});
    let user = json!({"securityContext": {"runAsUser": 4321, "runAsGroup": 4320, "allowPrivilegeEscalation": false}});
    let spec = json!({"containers": [
        with(shell("attack", "echo x >/orlop-test/x"), mount(json!({"subPath": "link"}))),
        with(shell("user", "id -u; id -g; grep NoNewPrivs /proc/self/status; touch /orlop-test/x"), with(mount(json!({})), user)),
        with(shell("root"," true"), json!({"securityContext": {"runAsNonRoot": true}})),
        with(shell("fixed", "echo x >/usr/orlop-test && echo written; echo x >/tmp/orlop-test && echo written"),
             json!({"securityContext": {"readOnlyRootFilesystem": true}})),
        json!({"name": "nothing", "command": ["/no/such/program"]}),
        with(shell("log", "echo because >&2; kill -9 $$$$"), json!({"terminationMessagePolicy": "FallbackToLogsOnError"})),
    ]});
    let state = outcome(&rig, spec, vec![data]).await;
    let (code, reason, message) = exit(&state, 0);
    assert_eq!((code, reason.as_str()), (128, "StartError"));
    assert!(message.contains("it leads out of the volume"), "{message}");
    assert!(std::fs::read_dir(rig.path("secret")).unwrap().next().is_none());
    assert_eq!(exit(&state, 1).0, 1, "another user may not write");
    // Lines of stderr may come in between.
    let log = rig.log("user", 0);
    let stdout: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("stdout: ")).collect();
    assert_eq!(stdout, ["4321", "4320", "NoNewPrivs:\t1"], "{log}");
    assert!(exit(&state, 2).2.contains("runAsNonRoot"));
    assert!(!rig.log("fixed", 0).contains("written"), "{}", rig.log("fixed", 0));
    assert_eq!(exit(&state, 5), (137, "Error".into(), "because\n".into()));
    assert!(exit(&state, 4).2.contains("exec: \"/no/such/program\""), "{}", exit(&state, 4).2);
}

#[tokio::test]
async fn restarted_agent_adopts_running_containers() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let first = rig.runtime();
    let data = rig.volume("data");
    let mount = json!({"volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}]});
    let script = "until test -e /orlop-test/end; do sleep 0.05; done; exit 7";
    let spec = json!({"restartPolicy": "Never", "containers": [
        with(shell("waits", script), mount.clone()), with(shell("killed", "sleep 600 & sleep 600"), mount),
    ]});
    first.start(pod(spec.clone()), vec![data.clone()]).await.unwrap();
    let before = until(&first, "running", |state| is_running(state, 0) && is_running(state, 1)).await;
    drop(first);

    let second = rig.runtime();
    assert_eq!(second.known().await, ["u"]);
    let after = until(&second, "running", |state| is_running(state, 0) && is_running(state, 1)).await;
    assert_eq!(after.containers[0].container_id, before.containers[0].container_id);
    let started = |state: &PodState| state.containers[0].state.clone().unwrap().running.unwrap().started_at;
    assert_eq!(started(&after), started(&before));
    std::fs::write(data.path.join("end"), "").unwrap();
    let state = until(&second, "one end", |state| !is_running(state, 0)).await;
    assert_eq!(exit(&state, 0).0, 7);
    assert!(!state.ended);

    // The container of a killed supervisor is killed too, and its status reports it.
    let (_, attempt) = container_run::runs(&rig.path("node/pods/u/containers/killed")).unwrap().remove(0);
    attempt.supervisor.signal(rustix::process::Signal::KILL).unwrap();
    let state = until(&second, "the other", |state| !is_running(state, 1)).await;
    assert_eq!((exit(&state, 1).0, exit(&state, 1).1.as_str()), (137, "ContainerStatusUnknown"));
    let main = attempt.main.unwrap();
    assert!(process_id::find(|stat| stat.session == main.pid && !stat.is_over).unwrap().is_empty());
    second.start(pod(spec), vec![data]).await.unwrap();
    until(&second, "the end", |state| state.ended).await;
    second.stop("u", Duration::ZERO).await.unwrap();
    assert!(second.known().await.is_empty());
    second.forget("u").await;
    assert!(!rig.path("node/logs/n_p_u").exists());
}

#[tokio::test]
async fn stop_runs_the_hook_waits_for_the_grace_and_kills_all_processes() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let mount = json!({"volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}]});
    let hook = json!({"lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo hook >>/orlop-test/trace"]}}}});
    let polite = "trap 'echo term >>/orlop-test/trace; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let deaf = "trap '' TERM; setsid sleep 601 & echo up; while :; do sleep 1; done";
    let spec = json!({"containers": [
        with(shell("polite", polite), with(mount.clone(), hook)), with(shell("deaf", deaf), mount),
    ]});
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    until(&runtime, "running", |state| is_running(state, 0) && is_running(state, 1)).await;
    while rig.log("polite", 0).is_empty() || rig.log("deaf", 0).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let state = runtime.state("u").unwrap();
    let (_, attempt) = container_run::runs(&rig.path("node/pods/u/containers/deaf")).unwrap().remove(0);
    let deaf = attempt.main.unwrap();
    let children = process_id::find(|stat| stat.parent == deaf.pid).unwrap();
    assert!(!children.is_empty());
    let children: Vec<_> =
        children.into_iter().filter_map(|pid| process_id::ProcessId::of(pid).ok()).collect();
    let begun = std::time::Instant::now();
    runtime.stop("u", Duration::from_secs(2)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2), "the deaf one has its grace");
    let last = state.borrow().clone();
    assert!(last.ended);
    assert_eq!((exit(&last, 0).0, exit(&last, 1).0), (0, 137));
    assert_eq!(std::fs::read_to_string(data.path.join("trace")).unwrap(), "hook\nterm\n");
    for child in children {
        assert!(child.open().unwrap().is_none(), "{child:?} runs on");
    }
}

#[tokio::test]
async fn failing_containers_restart_with_back_off() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let mount = json!({"volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}]});
    let spec = json!({
        "restartPolicy": "OnFailure",
        "initContainers": [with(shell("init", "echo init >>/orlop-test/trace"), mount.clone())],
        "containers": [with(shell("c", "echo run >>/orlop-test/trace; test $(wc -l </orlop-test/trace) = 5"), mount)],
    });
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    let waits = |state: &PodState| {
        let state = state.containers.first().and_then(|status| status.state.as_ref());
        state
            .and_then(|state| state.waiting.as_ref())
            .is_some_and(|w| w.reason.as_deref() == Some("CrashLoopBackOff"))
    };
    let state = until(&runtime, "back-off", waits).await;
    let message =
        state.containers[0].state.as_ref().unwrap().waiting.as_ref().unwrap().message.clone().unwrap();
    assert!(message.ends_with("restarting failed container=c pod=p_n(u)"), "{message}");
    let state = until(&runtime, "success", |state| state.ended).await;
    assert_eq!(state.containers[0].restart_count, 3);
    assert_eq!(exit(&state, 0).0, 0);
    assert_eq!(state.containers[0].last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
    assert_eq!(std::fs::read_to_string(data.path.join("trace")).unwrap(), "init\nrun\nrun\nrun\nrun\n");
    assert!(state.init[0].ready);
    runtime.stop("u", Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn deadline_ends_the_pod_and_liveness_restarts_a_container() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let mount = json!({"volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}]});
    let ready = json!({"readinessProbe": {"exec": {"command": ["test", "-e", "/orlop-test/ready"]}, "periodSeconds": 1, "timeoutSeconds": 20}});
    let sick = json!({"livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1}});
    let spec = json!({
        "activeDeadlineSeconds": 6, "terminationGracePeriodSeconds": 0,
        "containers": [
            with(shell("slow", "exec sleep 600"), with(mount, ready)), with(shell("sick", "exec sleep 600"), sick),
        ],
    });
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    let state = until(&runtime, "running", |state| is_running(state, 0)).await;
    assert!(!state.containers[0].ready);
    std::fs::write(data.path.join("ready"), "").unwrap();
    until(&runtime, "ready", |state| state.containers[0].ready).await;
    until(&runtime, "a sick container is started again", |state| state.containers[1].restart_count > 0).await;
    let state = until(&runtime, "the deadline", |state| state.ended).await;
    let text = "Pod was active on the node longer than the specified deadline";
    assert_eq!(state.failure, Some(("DeadlineExceeded".into(), text.into())));
    assert!(exit(&state, 0).0 > 128, "by a signal");
    runtime.stop("u", Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn missing_objects_and_unsupported_probes_are_reported() {
    let rig = Rig::new();
    let runtime = rig.runtime();
    let env = json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]});
    let spec = json!({"containers": [with(shell("c", "true"), env)]});
    if !can_run() {
        let error = runtime.start(pod(spec), Vec::new()).await.unwrap_err().to_string();
        assert!(error.contains("run the agent as root"), "{error}");
        return;
    }
    runtime.start(pod(spec), Vec::new()).await.unwrap();
    let waiting = |state: &PodState| state.containers.first()?.state.as_ref()?.waiting.clone()?.message;
    let state = until(&runtime, "a message", |state| waiting(state).is_some()).await;
    assert_eq!(waiting(&state).unwrap(), "configmap \"m\" not found");
    let reason = state.containers[0].state.as_ref().unwrap().waiting.as_ref().unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("CreateContainerConfigError"));
    runtime.stop("u", Duration::ZERO).await.unwrap();
    let probed = with(shell("c", "true"), json!({"livenessProbe": {"grpc": {"port": 1}}}));
    let error =
        runtime.start(pod(json!({"containers": [probed]})), Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains("gRPC"), "{error}");
}

#[tokio::test]
async fn directory_image_is_the_root() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let root = rig.path("image");
    for (from, to) in [("/usr", "usr"), ("/bin", "bin"), ("/lib", "lib"), ("/lib64", "lib64")] {
        std::fs::create_dir_all(&root).unwrap();
        match std::fs::read_link(from) {
            Ok(target) => std::os::unix::fs::symlink(target, root.join(to)).unwrap(),
            // The programs of the machine are mounted as a volume.
            Err(_) => std::fs::create_dir(root.join(to)).unwrap(),
        }
    }
    let machine = PodPath { volume: "usr".into(), path: "/usr".into(), read_only: true, block: false };
    let spec = json!({"containers": [{
        "name": "c", "image": format!("dir://{}", root.display()),
        "command": ["/usr/bin/ls", "/", "/proc/self/exe", "/dev/null"],
        "volumeMounts": [{"name": "usr", "mountPath": "/usr"}],
    }]});
    let state = outcome(&rig, spec, vec![machine]).await;
    let log = rig.log("c", 0);
    assert_eq!(exit(&state, 0).0, 0, "{log} {state:#?}");
    assert!(!log.contains("etc") && !log.contains("tmp"), "{log}");
    assert!(!root.join("proc").exists(), "nothing is made in the image");
}

#[tokio::test]
async fn logs_of_the_last_two_runs_are_kept() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let spec = json!({"restartPolicy": "OnFailure", "containers": [shell("c", "echo said; exit 1")]});
    runtime.start(pod(spec), Vec::new()).await.unwrap();
    // A run that is stopped immediately may not have written any output.
    until(&runtime, "three runs", |state| {
        state.containers.first().is_some_and(|status| status.restart_count >= 2)
            && rig.log("c", 2) == "stdout: said\n"
    })
    .await;
    runtime.stop("u", Duration::ZERO).await.unwrap();
    let place = runtime.log("n", "p", "c", false).unwrap();
    let before = runtime.log("n", "p", "c", true).unwrap();
    assert_eq!((before.restart, place.restart), (1, 2));
    assert_eq!(records::names(&place.dir).unwrap(), ["1.log", "2.log"]);
    assert_eq!(rig.log("c", 2), "stdout: said\n");
    let error = runtime.log("n", "p", "x", false).unwrap_err();
    assert_eq!(error.to_string(), "container \"x\" not found in pod \"p\"\n");
    assert_eq!(runtime.log("n", "q", "c", false).unwrap_err().to_string(), "pod \"q\" does not exist\n");
}
