//! Tests of sidecars, hooks, and shortened grace periods.

use super::*;

/// A container that writes its name to a shared file when it starts and ends, and exits on SIGTERM.
fn traced(name: &str) -> Value {
    let script = format!(
        "trap 'sleep 0.2; echo {name} ends >>/orlop-test/trace; exit 0' TERM; echo {name} begins >>/orlop-test/trace; \
         while :; do sleep 0.05; done"
    );
    with(shell(name, &script), json!({"volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}]}))
}

fn side(name: &str) -> Value {
    with(traced(name), json!({"restartPolicy": "Always"}))
}

fn lines(data: &PodPath) -> Vec<String> {
    let text = std::fs::read_to_string(data.path.join("trace")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn until_line(data: &PodPath, line: &str) {
    let found = tokio::time::timeout(Duration::from_secs(30), async {
        while !lines(data).iter().any(|found| found == line) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(found.await.is_ok(), "{line}: {:?}", lines(data));
}

#[tokio::test]
async fn sidecars_start_in_order_and_end_last() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let mount = json!({"volumeMounts": [{"name": "data", "mountPath": "/orlop-test"}]});
    let slow = with(
        side("one"),
        json!({"startupProbe": {"exec": {"command": ["test", "-e", "/orlop-test/go"]}, "periodSeconds": 1,
            "timeoutSeconds": 20, "failureThreshold": 600}}),
    );
    let work =
        "echo work begins >>/orlop-test/trace; until test -e /orlop-test/end; do sleep 0.05; done; exit 3";
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [slow, with(shell("once", "echo once >>/orlop-test/trace"), mount.clone()), side("two")],
        "containers": [with(shell("work", work), mount)],
    });
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    until_line(&data, "one begins").await;
    let state = until(&runtime, "it runs and has not started", |state| {
        state.init.first().and_then(|one| one.state.as_ref()).is_some_and(|state| state.running.is_some())
    })
    .await;
    assert_eq!((state.init[0].started, state.init[0].ready), (Some(false), false));
    assert_eq!(lines(&data), ["one begins"], "the next one waits for its probe");
    std::fs::write(data.path.join("go"), "").unwrap();
    until_line(&data, "work begins").await;
    let state = until(&runtime, "all run", |state| is_running(state, 0) && state.init[2].ready).await;
    assert_eq!((state.init[0].started, state.init[0].ready), (Some(true), true));
    assert_eq!(lines(&data)[..2], ["one begins", "once"]);

    // A sidecar that exits is restarted regardless of the restart policy of the pod.
    let (_, attempt) = container_run::runs(&rig.path("node/pods/u/containers/two")).unwrap().remove(0);
    attempt.main.unwrap().signal(rustix::process::Signal::KILL).unwrap();
    until(&runtime, "the second sidecar again", |state| {
        state.init[2].restart_count == 1 && state.init[2].ready
    })
    .await;

    // The main container exits, then the sidecars in reverse order.
    std::fs::write(data.path.join("end"), "").unwrap();
    let state = until(&runtime, "the end", |state| state.ended).await;
    assert_eq!(exit(&state, 0).0, 3);
    let all = lines(&data);
    assert_eq!(all[all.len() - 2..], ["two ends", "one ends"], "{all:?}");
    runtime.stop("u", Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn stopped_pod_ends_main_containers_before_sidecars() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let spec = json!({"initContainers": [side("one"), side("two")], "containers": [traced("work"), traced("other")]});
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    for name in ["one", "two", "work", "other"] {
        until_line(&data, &format!("{name} begins")).await;
    }
    runtime.stop("u", Duration::from_secs(20)).await.unwrap();
    let all = lines(&data);
    let at =
        |line: &str| all.iter().position(|found| found == line).unwrap_or_else(|| panic!("{line}: {all:?}"));
    assert!(
        at("work ends").max(at("other ends")) < at("two ends") && at("two ends") < at("one ends"),
        "{all:?}"
    );
}

#[tokio::test]
async fn stop_with_a_shorter_grace_applies_immediately() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = Arc::new(rig.runtime());
    let deaf = "trap '' TERM; echo up; while :; do sleep 1; done";
    runtime.start(pod(json!({"containers": [shell("deaf", deaf)]})), Vec::new()).await.unwrap();
    until(&runtime, "running", |state| is_running(state, 0)).await;
    while rig.log("deaf", 0).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let slow = runtime.clone();
    let slow = tokio::spawn(async move { slow.stop("u", Duration::from_secs(600)).await });
    // The order of the two stops is random and both must work, so the test does not wait.
    tokio::task::yield_now().await;
    tokio::time::timeout(Duration::from_secs(60), runtime.stop("u", Duration::ZERO)).await.unwrap().unwrap();
    tokio::time::timeout(Duration::from_secs(60), slow).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn post_start_hook_delays_readiness_and_its_failure_ends_the_container() {
    if !can_run() {
        return;
    }
    let rig = Rig::new();
    let runtime = rig.runtime();
    let data = rig.volume("data");
    let wait = "echo hook >>/orlop-test/trace; until test -e /orlop-test/go; do sleep 0.05; done";
    let hook = |command: &str| json!({"lifecycle": {"postStart": {"exec": {"command": ["/bin/sh", "-c", command]}}}});
    let bad = "test -e /orlop-test/well || { echo no >&2; exit 1; }";
    let spec = json!({"restartPolicy": "OnFailure", "containers": [with(traced("good"), hook(wait)), with(traced("bad"), hook(bad))]});
    runtime.start(pod(spec), vec![data.clone()]).await.unwrap();
    until_line(&data, "hook").await;
    let state = until(&runtime, "it runs", |state| is_running(state, 0)).await;
    assert_eq!((state.containers[0].started, state.containers[0].ready), (Some(false), false));
    std::fs::write(data.path.join("go"), "").unwrap();
    until(&runtime, "its hook is done", |state| state.containers[0].ready).await;
    // The other container is terminated gracefully, because its hook failed.
    until_line(&data, "bad ends").await;
    runtime.stop("u", Duration::from_secs(20)).await.unwrap();
}
