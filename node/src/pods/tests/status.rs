//! Tests of the status that the node writes, case by case.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::facts::{PodFacts, PodFailure, PodStage};
use super::super::phase::{Phase, phase_of};
use super::super::status::{patch, status};
use super::fixture::{at, condition, state};
use crate::runtime::PodState;

fn container(name: &str, state: &Value, last: &Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state, "lastState": last})
}

#[test]
fn phase_follows_the_container_states() {
    let (run, well, ill) = (
        json!({"running": {}}),
        json!({"terminated": {"exitCode": 0}}),
        json!({"terminated": {"exitCode": 1}}),
    );
    let (wait, none) = (json!({"waiting": {}}), json!({}));
    type Case<'a> =
        (&'a str, &'a str, &'a [(&'a Value, &'a Value)], &'a [(&'a Value, &'a Value)], bool, Phase);
    let cases: &[Case<'_>] = &[
        ("nothing is known", "Always", &[], &[(&none, &none)], false, Phase::Pending),
        ("one waits", "Always", &[], &[(&run, &none), (&wait, &none)], false, Phase::Pending),
        ("all run", "Always", &[], &[(&run, &none), (&run, &none)], false, Phase::Running),
        ("one runs, one has ended", "Never", &[], &[(&run, &none), (&well, &none)], false, Phase::Running),
        ("between two runs", "Always", &[], &[(&wait, &ill)], false, Phase::Running),
        ("all ended well", "Never", &[], &[(&well, &none)], false, Phase::Succeeded),
        ("one ended ill", "Never", &[], &[(&well, &none), (&ill, &none)], false, Phase::Failed),
        ("ended ill, tried again", "OnFailure", &[], &[(&ill, &none)], false, Phase::Running),
        ("ended, always again", "Always", &[], &[(&well, &none)], false, Phase::Running),
        ("ended for good", "Always", &[], &[(&well, &none)], true, Phase::Succeeded),
        ("ended ill for good", "OnFailure", &[], &[(&ill, &none)], true, Phase::Failed),
        ("init runs", "Never", &[(&run, &none)], &[(&wait, &none)], false, Phase::Pending),
        ("init is done", "Never", &[(&well, &none)], &[(&run, &none)], false, Phase::Running),
        ("init has failed", "Never", &[(&ill, &none)], &[(&wait, &none)], false, Phase::Failed),
        (
            "init has failed, tried again",
            "Always",
            &[(&wait, &ill)],
            &[(&wait, &none)],
            false,
            Phase::Pending,
        ),
    ];
    for (name, policy, init, main, may_end, expected) in cases {
        let list = |prefix: &str, states: &[(&Value, &Value)]| -> Vec<Value> {
            states
                .iter()
                .enumerate()
                .map(|(n, (now, last))| container(&format!("{prefix}{n}"), now, last))
                .collect()
        };
        let names =
            |list: &[Value]| -> Vec<Value> { list.iter().map(|c| json!({"name": c["name"]})).collect() };
        let (init, main) = (list("i", init), list("c", main));
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"restartPolicy": policy, "initContainers": names(&init),
            "containers": names(&main)}}))
            .unwrap();
        let read = |list: Vec<Value>| serde_json::from_value(Value::Array(list)).unwrap();
        let (init, main): (Vec<_>, Vec<_>) = (read(init), read(main));
        assert_eq!(phase_of(&pod, &init, &main, *may_end), *expected, "{name}");
    }
}

fn facts(stage: PodStage) -> PodFacts {
    let address = Some("10.0.0.1".to_owned());
    PodFacts { stage, state: None, verdict: None, address, now: at("2026-01-02T00:00:00.9Z") }
}

fn pod(status: Value) -> Pod {
    let pod = json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "7", "generation": 3},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}],
            "readinessGates": [{"conditionType": "Gate"}]}, "status": status});
    serde_json::from_value(pod).unwrap()
}

#[test]
fn status_reports_each_stage_and_never_leaves_a_terminal_phase() {
    let status_value = |pod: &Pod, facts: &PodFacts| serde_json::to_value(status(pod, facts)).unwrap();
    let running = PodFacts { state: Some(state("running")), ..facts(PodStage::Running) };
    let first = status_value(&pod(json!({"phase": "Pending"})), &running);
    assert_eq!(first["startTime"], "2026-01-02T00:00:00Z");
    assert_eq!(first["observedGeneration"], 3);
    assert_eq!(condition(&first, "Ready"), ("False".to_owned(), "ReadinessGatesNotReady".to_owned()));
    let gated = status_value(
        &pod(json!({"phase": "Pending", "conditions": [{"type": "Gate", "status": "True"}]})),
        &running,
    );
    assert_eq!(condition(&gated, "Ready").0, "True");

    // The same facts give no patch.
    let again = pod(first.clone());
    assert_eq!(patch(&again, &status(&again, &running)), None);
    let later = PodFacts { now: at("2026-01-03T00:00:00Z"), ..running.clone() };
    assert_eq!(patch(&again, &status(&again, &later)), None);

    // A pod that is stopped before it ran has failed; one that ended successfully has not.
    let never = status_value(&pod(json!({"phase": "Pending"})), &facts(PodStage::Over));
    assert_eq!(never["phase"], "Failed");
    assert_eq!(never["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
    let well = PodFacts { state: Some(state("well")), ..facts(PodStage::Over) };
    assert_eq!(status_value(&again, &well)["phase"], "Succeeded");
    let lost = status_value(&again, &facts(PodStage::Over));
    assert_eq!(lost["containerStatuses"][0]["state"]["terminated"]["reason"], "ContainerStatusUnknown");

    // An evicted pod has failed when its containers have stopped, and not before.
    let verdict = Some(PodFailure { reason: "Evicted".to_owned(), message: "m".to_owned() });
    for (what, stage, kind, expected) in [
        ("it runs", PodStage::Stopping, "running", "Running"),
        ("it has stopped", PodStage::Stopping, "well", "Failed"),
        ("whatever the runtime says", PodStage::Over, "running", "Failed"),
    ] {
        let facts = PodFacts { state: Some(state(kind)), verdict: verdict.clone(), ..facts(stage) };
        assert_eq!(status_value(&again, &facts)["phase"], expected, "{what}");
    }
    let refused = PodFacts { verdict, ..facts(PodStage::Making) };
    assert_eq!(status_value(&pod(json!({"phase": "Pending"})), &refused)["phase"], "Failed");

    // A terminal phase stays, with its reason and message.
    let over = pod(json!({"phase": "Failed", "reason": "Evicted", "message": "m"}));
    let verdict = Some(PodFailure { reason: "Other".to_owned(), message: "o".to_owned() });
    let after = status_value(&over, &PodFacts { verdict, ..running });
    assert_eq!(
        (&after["phase"], &after["reason"], &after["message"]),
        (&json!("Failed"), &json!("Evicted"), &json!("m"))
    );
}

#[test]
fn sidecar_exit_does_not_change_the_phase() {
    let (run, well, ill, wait, none) = (
        json!({"running": {}}),
        json!({"terminated": {"exitCode": 0}}),
        json!({"terminated": {"exitCode": 137}}),
        json!({"waiting": {}}),
        json!({}),
    );
    for (name, side, last, started, main, may_end, expected) in [
        ("it has not started", &run, &none, false, &wait, false, Phase::Pending),
        ("it has, the work has not", &run, &none, true, &wait, false, Phase::Pending),
        ("both run", &run, &none, true, &run, false, Phase::Running),
        ("it begins again", &run, &ill, false, &run, false, Phase::Running),
        ("it is between two runs", &wait, &ill, false, &run, false, Phase::Running),
        ("it ends after the work", &run, &none, true, &well, false, Phase::Running),
        ("it ended ill after the work", &ill, &none, false, &well, true, Phase::Succeeded),
    ] {
        let mut sidecar = container("s", side, last);
        sidecar["started"] = json!(started);
        let pod: Pod = serde_json::from_value(json!({"spec": {"restartPolicy": "Never",
            "initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]}}))
        .unwrap();
        let read = |one: Value| serde_json::from_value(json!([one])).unwrap();
        let (init, main): (Vec<_>, Vec<_>) = (read(sidecar), read(container("c", main, &none)));
        assert_eq!(phase_of(&pod, &init, &main, may_end), expected, "{name}");
    }
}

#[test]
fn cost_of_a_status_is_linear() {
    const COUNT: usize = 30_000;
    let list = |one: &dyn Fn(usize) -> Value| (0..COUNT).map(one).collect::<Vec<_>>();
    let (run, none) = (json!({"running": {}}), json!({}));
    let init = list(&|at| json!({"name": format!("i{at}"), "restartPolicy": "Always"}));
    let main = list(&|at| json!({"name": format!("c{at}")}));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"initContainers": init, "containers": main,
            "readinessGates": list(&|at| json!({"conditionType": format!("g{at}")}))},
        "status": {"phase": "Running",
            "conditions": list(&|at| json!({"type": format!("g{at}"), "status": "True"}))},
    }))
    .unwrap();
    let ready = |prefix: &str| {
        let statuses = list(&|at| {
            let mut status = container(&format!("{prefix}{at}"), &run, &none);
            (status["ready"], status["started"]) = (json!(true), json!(true));
            status
        });
        serde_json::from_value(Value::Array(statuses)).unwrap()
    };
    let state = PodState { init: ready("i"), containers: ready("c"), ended: false, failure: None };
    let begun = Instant::now();
    let status = status(&pod, &PodFacts { state: Some(state), ..facts(PodStage::Running) });
    // Quadratic work takes a minute.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(condition(&serde_json::to_value(status).unwrap(), "Ready").0, "True");
}

#[test]
fn begun_containers_report_their_resources() {
    let with = |resources: Value| -> Pod {
        let containers = json!([{"name": "c", "image": "i", "resources": resources}, {"name": "d"}]);
        let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": containers}});
        serde_json::from_value(pod).unwrap()
    };
    let running = PodFacts { state: Some(state("running")), ..facts(PodStage::Running) };
    let reported = |pod: &Pod, facts: &PodFacts| {
        let status = serde_json::to_value(status(pod, facts)).unwrap();
        let of = |n: usize| {
            let status = &status["containerStatuses"][n];
            json!([status["resources"], status["allocatedResources"]])
        };
        (of(0), of(1))
    };
    let none = json!([null, null]);
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}, "limits": {"cpu": "2"}});
    for amount in ["1", "1500m"] {
        let want = json!([cpu(amount), {"cpu": amount}]);
        assert_eq!(reported(&with(cpu(amount)), &running), (want, none.clone()), "{amount}");
    }
    assert_eq!(reported(&with(json!({})), &running).0, json!([{}, null]), "no resources are requested");
    let making = facts(PodStage::Making);
    assert_eq!(reported(&with(cpu("1")), &making), (none.clone(), none), "nothing has begun");
}
