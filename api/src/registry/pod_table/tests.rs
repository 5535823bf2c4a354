use super::super::testing::{kind_now, object};
use super::*;

/// A pod with two containers, an init container and a sidecar.
fn pod(status: Value) -> Object {
    object(json!({
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "containers": [{"name": "c"}, {"name": "d"}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        },
        "status": status,
    }))
}

#[test]
fn status_cell_summarizes_the_containers() {
    let state =
        |name: &str, state: Value| json!({"name": name, "ready": false, "restartCount": 0, "state": state});
    let running =
        |name: &str| json!({"name": name, "ready": true, "restartCount": 0, "state": {"running": {}}});
    let done = |name: &str| state(name, json!({"terminated": {"exitCode": 0, "reason": "Completed"}}));
    for (case, status, ready, want) in [
        ("fresh", json!({"phase": "Pending"}), "0/3", "Pending"),
        ("reason", json!({"phase": "Failed", "reason": "Evicted"}), "0/3", "Evicted"),
        (
            "gated",
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "0/3",
            "SchedulingGated",
        ),
        (
            "running",
            json!({"phase": "Running", "containerStatuses": [running("c"), running("d")]}),
            "2/3",
            "Running",
        ),
        (
            "one crashes",
            json!({"phase": "Running", "containerStatuses": [running("c"), state("d", json!({"waiting": {"reason": "CrashLoopBackOff"}}))]}),
            "1/3",
            "CrashLoopBackOff",
        ),
        (
            "init runs",
            json!({"phase": "Pending", "initContainerStatuses": [state("i", json!({"running": {}}))]}),
            "0/3",
            "Init:0/2",
        ),
        (
            "init waits for its turn",
            json!({"phase": "Pending", "initContainerStatuses": [done("i"), state("s", json!({"waiting": {"reason": "PodInitializing"}}))]}),
            "0/3",
            "Init:1/2",
        ),
        (
            "init cannot pull",
            json!({"phase": "Pending", "initContainerStatuses": [state("i", json!({"waiting": {"reason": "ErrImagePull"}}))]}),
            "0/3",
            "Init:ErrImagePull",
        ),
        (
            "init failed",
            json!({"phase": "Pending", "initContainerStatuses": [state("i", json!({"terminated": {"exitCode": 3, "reason": "Error"}}))]}),
            "0/3",
            "Init:Error",
        ),
        (
            "init killed",
            json!({"phase": "Pending", "initContainerStatuses": [state("i", json!({"terminated": {"exitCode": 137, "signal": 9}}))]}),
            "0/3",
            "Init:Signal:9",
        ),
        (
            "init exited",
            json!({"phase": "Pending", "initContainerStatuses": [state("i", json!({"terminated": {"exitCode": 3}}))]}),
            "0/3",
            "Init:ExitCode:3",
        ),
        (
            "sidecar runs",
            json!({"phase": "Running", "containerStatuses": [running("c"), running("d")], "initContainerStatuses": [
                done("i"), {"name": "s", "ready": true, "started": true, "restartCount": 0, "state": {"running": {}}}]}),
            "3/3",
            "Running",
        ),
        (
            "completed",
            json!({"phase": "Succeeded", "containerStatuses": [done("c"), done("d")]}),
            "0/3",
            "Completed",
        ),
        (
            "one completed, one runs, not ready",
            json!({"phase": "Running", "containerStatuses": [done("c"), running("d")]}),
            "1/3",
            "NotReady",
        ),
        (
            "one completed, one runs, ready",
            json!({"phase": "Running", "containerStatuses": [done("c"), running("d")],
                "conditions": [{"type": "Ready", "status": "True"}]}),
            "1/3",
            "Running",
        ),
        (
            "one completed, one failed",
            json!({"phase": "Failed", "containerStatuses": [done("c"),
                state("d", json!({"terminated": {"exitCode": 2, "reason": "Error"}}))]}),
            "0/3",
            "Error",
        ),
        (
            "killed",
            json!({"phase": "Failed", "containerStatuses": [
                state("c", json!({"terminated": {"exitCode": 137, "signal": 9}})), state("d", json!({"terminated": {"exitCode": 0}}))]}),
            "0/3",
            "Signal:9",
        ),
    ] {
        let cells = cells(&pod(status), kind_now());
        assert_eq!((cells[1].as_str(), cells[2].as_str()), (Some(ready), Some(want)), "{case}");
    }
}

#[test]
fn deleted_pod_is_shown_as_terminating() {
    for (case, status, want) in [
        ("running", json!({"phase": "Running"}), "Terminating"),
        ("succeeded", json!({"phase": "Succeeded"}), "Succeeded"),
        ("node lost", json!({"phase": "Running", "reason": "NodeLost"}), "Unknown"),
    ] {
        let mut pod = pod(status);
        pod.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(cells(&pod, kind_now())[2], want, "{case}");
    }
}

#[test]
fn restarts_cell_shows_the_last_restart() {
    let last = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:30Z"}});
    for (case, status, want) in [
        (
            "known time",
            json!({"containerStatuses": [{"name": "c", "restartCount": 2, "lastState": last}, {"name": "d", "restartCount": 1}]}),
            "3 (30s ago)",
        ),
        (
            "unknown time",
            json!({"containerStatuses": [{"name": "c", "restartCount": 2, "lastState": {}}]}),
            "2",
        ),
        (
            "init containers count until they are done",
            json!({"initContainerStatuses": [{"name": "i", "restartCount": 4, "state": {"running": {}}}]}),
            "4",
        ),
        (
            "afterwards sidecars alone",
            json!({"initContainerStatuses": [{"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}},
                {"name": "s", "restartCount": 1, "started": true, "state": {"running": {}}}]}),
            "1",
        ),
    ] {
        assert_eq!(cells(&pod(status), kind_now())[3], want, "{case}");
    }
}

#[test]
fn wide_cells_and_row_conditions_are_shown() {
    let pod = object(json!({
        "metadata": {"name": "a"},
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "example.com/g"}, {"conditionType": "h"}]},
        "status": {"phase": "Failed", "podIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::9"}], "nominatedNodeName": "n2",
            "conditions": [{"type": "example.com/g", "status": "True"}]},
    }));
    assert_eq!(
        json!(cells(&pod, kind_now())),
        json!(["a", "0/0", "Failed", "0", "<unknown>", "10.0.0.9", "n1", "n2", "1/2"])
    );
    assert_eq!(
        row_conditions(&pod),
        Some(
            json!([{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}])
        )
    );
    let fresh = object(json!({"status": {"phase": "Pending"}}));
    assert_eq!(row_conditions(&fresh), None);
    assert_eq!(
        json!(cells(&fresh, kind_now())),
        json!(["", "0/0", "Pending", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"])
    );
}
