//! Desired state for each observed state.
#![allow(clippy::unwrap_used)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;

fn node(conditions: &[(&str, &str)], taints: &[&str], unschedulable: bool) -> Node {
    let conditions: Vec<Value> =
        conditions.iter().map(|(type_, status)| json!({"type": type_, "status": status})).collect();
    let taints: Vec<Value> = taints
        .iter()
        .map(|text| {
            let (key, effect) = text.split_once(':').unwrap();
            json!({"key": long(key), "effect": effect})
        })
        .collect();
    serde_json::from_value(json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}}))
    .unwrap()
}

fn long(key: &str) -> String {
    if key.contains('/') { key.to_owned() } else { format!("node.kubernetes.io/{key}") }
}

fn now() -> Timestamp {
    "2026-01-01T00:10:00.5Z".parse().unwrap()
}

#[test]
fn taints_follow_conditions() {
    use Eviction::{Granted, Stopped, Waiting};
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], bool, Eviction, Option<&'a [&'a str]>);
    let lost: &[(&str, &str)] = &[("Ready", "Unknown")];
    let table: [Row; 22] = [
        ("nothing said, new", &[], &["not-ready:NoSchedule"], false, Waiting, None),
        ("nothing said, opened by hand", &[], &[], false, Granted, None),
        ("nothing said, cordoned", &[], &[], true, Waiting, Some(&["unschedulable:NoSchedule"])),
        ("uncordoned", &[], &["unschedulable:NoSchedule"], false, Waiting, Some(&[])),
        ("ready", &[("Ready", "True")], &["not-ready:NoSchedule"], false, Waiting, Some(&[])),
        (
            "ready again, others stay",
            &[("Ready", "True")],
            &[
                "a/b:NoExecute",
                "unreachable:NoExecute",
                "unreachable:NoSchedule",
                "not-ready:PreferNoSchedule",
            ],
            false,
            Granted,
            Some(&["a/b:NoExecute", "not-ready:PreferNoSchedule"]),
        ),
        ("new and not ready", &[("Ready", "False")], &["not-ready:NoSchedule"], false, Waiting, None),
        ("not ready", &[("Ready", "False")], &[], false, Waiting, Some(&["not-ready:NoSchedule"])),
        (
            "not ready, granted",
            &[("Ready", "False")],
            &[],
            false,
            Granted,
            Some(&["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ),
        ("lost, waiting", lost, &[], false, Waiting, Some(&["unreachable:NoSchedule"])),
        (
            "lost, granted",
            lost,
            &["unreachable:NoSchedule"],
            false,
            Granted,
            Some(&["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ),
        ("lost and done", lost, &["unreachable:NoSchedule", "unreachable:NoExecute"], false, Granted, None),
        (
            "continues without a request",
            lost,
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
            false,
            Waiting,
            None,
        ),
        (
            "was not ready, is lost now",
            lost,
            &["not-ready:NoSchedule", "not-ready:NoExecute"],
            false,
            Waiting,
            Some(&["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ),
        (
            "was lost, is not ready now",
            &[("Ready", "False")],
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
            false,
            Waiting,
            Some(&["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ),
        (
            "all are lost",
            lost,
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
            false,
            Stopped,
            Some(&["unreachable:NoSchedule"]),
        ),
        (
            "memory",
            &[("Ready", "True"), ("MemoryPressure", "True")],
            &[],
            false,
            Waiting,
            Some(&["memory-pressure:NoSchedule"]),
        ),
        ("disk", &[("DiskPressure", "True")], &[], false, Waiting, Some(&["disk-pressure:NoSchedule"])),
        ("processes", &[("PIDPressure", "True")], &[], false, Waiting, Some(&["pid-pressure:NoSchedule"])),
        (
            "network",
            &[("NetworkUnavailable", "True")],
            &[],
            false,
            Waiting,
            Some(&["network-unavailable:NoSchedule"]),
        ),
        (
            "no pressure",
            &[("DiskPressure", "False")],
            &["disk-pressure:NoSchedule"],
            false,
            Waiting,
            Some(&[]),
        ),
        (
            "pressure unknown",
            &[("DiskPressure", "Unknown")],
            &["disk-pressure:NoExecute"],
            false,
            Waiting,
            None,
        ),
    ];
    for (name, conditions, taints, cordoned, eviction, wanted) in table {
        let found = retainted(&node(conditions, taints, cordoned), eviction, now());
        let shown = found.map(|taints| {
            taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect::<Vec<_>>()
        });
        let wanted = wanted.map(|taints| taints.iter().map(|text| long_taint(text)).collect::<Vec<_>>());
        assert_eq!(shown, wanted, "{name}");
    }
}

fn long_taint(text: &str) -> String {
    let (key, effect) = text.split_once(':').unwrap();
    format!("{}:{effect}", long(key))
}

#[test]
fn new_taint_has_a_time_and_existing_taint_is_unchanged() {
    let mut node = node(&[("Ready", "Unknown")], &["unreachable:NoSchedule"], false);
    node.spec.as_mut().unwrap().taints.as_mut().unwrap()[0].value = Some("v".to_owned());
    let taints = retainted(&node, Eviction::Granted, now()).unwrap();
    assert_eq!((taints[0].value.as_deref(), &taints[0].time_added), (Some("v"), &None));
    assert_eq!(taints[1].time_added, Some(Time("2026-01-01T00:10:00Z".parse().unwrap())));
}

#[test]
fn unready_node_without_a_no_execute_taint_awaits_eviction() {
    for (name, conditions, taints, wanted) in [
        ("nothing said", None, &["not-ready:NoSchedule"][..], false),
        ("ready", Some("True"), &[][..], false),
        ("not ready", Some("False"), &["not-ready:NoSchedule"][..], true),
        ("lost", Some("Unknown"), &[][..], true),
        ("lost and reported", Some("Unknown"), &["unreachable:NoExecute"][..], false),
        ("reported otherwise", Some("Unknown"), &["not-ready:NoExecute"][..], false),
    ] {
        let conditions: Vec<(&str, &str)> = conditions.map(|status| ("Ready", status)).into_iter().collect();
        assert_eq!(awaits_eviction(&node(&conditions, taints, false)), wanted, "{name}");
    }
}

#[test]
fn conditions_reported_by_a_lost_node_become_unknown() {
    let mut seen =
        node(&[("Ready", "True"), ("NetworkUnavailable", "False"), ("DiskPressure", "Unknown")], &[], false);
    let conditions = lost(&seen, now()).unwrap();
    let line = |c: &NodeCondition| {
        format!(
            "{} {} {} {}",
            c.type_,
            c.status,
            c.reason.as_deref().unwrap_or("-"),
            c.message.as_deref().unwrap_or("-")
        )
    };
    assert_eq!(
        conditions.iter().map(line).collect::<Vec<_>>(),
        [
            "Ready Unknown NodeStatusUnknown Kubelet stopped posting node status.",
            "NetworkUnavailable False - -",
            "DiskPressure Unknown - -",
            "MemoryPressure Unknown NodeStatusNeverUpdated Kubelet never posted node status.",
            "PIDPressure Unknown NodeStatusNeverUpdated Kubelet never posted node status.",
        ]
    );
    let time = |text: &str| Some(Time(text.parse().unwrap()));
    assert_eq!(conditions[0].last_transition_time, time("2026-01-01T00:10:00Z"));
    assert_eq!(conditions[3].last_heartbeat_time, time("2026-01-01T00:00:00Z"));
    seen.status.as_mut().unwrap().conditions = Some(conditions);
    assert_eq!(lost(&seen, now()), None);
}

#[test]
fn beta_labels_copy_the_current_labels() {
    let (os, arch) = ("kubernetes.io/os", "kubernetes.io/arch");
    for (name, labels, wanted) in [
        ("none", json!(null), json!({})),
        ("only the older", json!({"beta.kubernetes.io/os": "x"}), json!({})),
        ("missing", json!({os: "linux"}), json!({"beta.kubernetes.io/os": "linux"})),
        (
            "other",
            json!({arch: "arm64", "beta.kubernetes.io/arch": "x"}),
            json!({"beta.kubernetes.io/arch": "arm64"}),
        ),
        ("equal", json!({arch: "arm64", "beta.kubernetes.io/arch": "arm64"}), json!({})),
    ] {
        let node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap();
        assert_eq!(json!(relabeled(&node)), wanted, "{name}");
    }
}
