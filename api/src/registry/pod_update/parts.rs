//! Tests of `/ephemeralcontainers` and `/resize`.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::{ephemeral, resize};
use crate::object::Object;
use crate::registry::testing::{ReportedCause, causes, object};

fn pod(change: Value) -> Object {
    let mut value = json!({
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "image": "i:1", "resources": {
                "requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}}],
            "initContainers": [
                {"name": "i", "image": "i:1", "resources": {}},
                {"name": "s", "image": "i:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            ],
        },
        "status": {"qosClass": "Burstable"},
    });
    json_patch::merge(&mut value, &change);
    object(value)
}

/// The causes of a change through a subresource, and the resulting pod.
fn changed(
    given: &Object,
    old: &Object,
    take: fn(&Object, &mut Object),
    validate: fn(&Object, &Object, &mut crate::validate::FieldErrors),
) -> (Vec<ReportedCause>, Object) {
    let mut pod = old.clone();
    take(given, &mut pod);
    (causes(|errors| validate(&pod, old, errors)), pod)
}

fn resized(given: &Object, old: &Object) -> (Vec<ReportedCause>, Object) {
    changed(given, old, resize::take, resize::validate)
}

#[test]
fn ephemeral_containers_can_be_added_but_not_removed() {
    let with = |list: Value| pod(json!({"spec": {"ephemeralContainers": list}}));
    let old = with(json!([{"name": "d", "image": "i"}]));
    let removed = "Forbidden: existing ephemeral containers \"d\" may not be removed\n";
    let other = "Forbidden: existing ephemeral containers \"d\" may not be changed\nchanged: command, image";
    for (case, list, want) in [
        ("the same", json!([{"name": "d", "image": "i"}]), None),
        ("one more, in front", json!([{"name": "e", "image": "i"}, {"name": "d", "image": "i"}]), None),
        ("none", json!([]), Some(removed)),
        ("another in its place", json!([{"name": "e", "image": "i"}]), Some(removed)),
        ("changed", json!([{"name": "d", "image": "j", "command": ["x"]}]), Some(other)),
    ] {
        let (found, _) = changed(&with(list), &old, ephemeral::take, ephemeral::validate);
        let want: Vec<_> =
            want.iter().map(|text| ("FieldValueForbidden", "spec.ephemeralContainers", *text)).collect();
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn ephemeral_containers_update_changes_nothing_else() {
    let old = pod(json!({}));
    let given = pod(json!({
        "metadata": {"labels": {"a": "c"}},
        "spec": {"nodeName": "n", "ephemeralContainers": [{"name": "e", "image": "i"}]},
        "status": {"phase": "Failed"},
    }));
    let (_, taken) = changed(&given, &old, ephemeral::take, ephemeral::validate);
    let mut want = old.clone();
    want.set(&["spec", "ephemeralContainers"], json!([{"name": "e", "image": "i"}]));
    assert_eq!(taken, want);
    let (found, taken) = resized(&given, &old);
    assert!(found.is_empty());
    assert_eq!(taken, old);
}

#[test]
fn static_pods_support_neither_subresource() {
    let mut old = pod(json!({}));
    old.set(&["metadata", "annotations", "kubernetes.io/config.mirror"], "x");
    let (found, _) = changed(&old, &old, ephemeral::take, ephemeral::validate);
    let text = "Forbidden: static pods do not support ephemeral containers";
    assert_eq!(found, [("FieldValueForbidden", "[]", text)]);
    let (found, _) = resized(&old, &old);
    assert_eq!(found, [("FieldValueForbidden", "[]", "Forbidden: static pods cannot be resized")]);
    let windows = pod(json!({"spec": {"os": {"name": "windows"}}}));
    let (found, _) = resized(&windows, &windows);
    assert_eq!(found, [("FieldValueForbidden", "[]", "Forbidden: windows pods cannot be resized")]);
}

#[test]
fn only_cpu_and_memory_can_be_resized() {
    let old = pod(json!({}));
    let only = "Forbidden: only cpu and memory resources are mutable";
    for (case, pointer, value, want) in [
        ("more", "/spec/containers/0/resources/requests/cpu", json!("1500m"), vec![]),
        ("a sidecar", "/spec/initContainers/1/resources/requests/cpu", json!("2"), vec![]),
        ("another image is not taken", "/spec/containers/0/image", json!("j"), vec![]),
        (
            "less of something else",
            "/spec/containers/0/resources/limits",
            json!({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}),
            vec![("FieldValueForbidden", "spec", only)],
        ),
        (
            "a policy",
            "/spec/containers/0/resizePolicy",
            json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
            vec![("FieldValueForbidden", "spec", only)],
        ),
        (
            "a limit that is removed",
            "/spec/containers/0/resources/limits",
            json!({"cpu": "2"}),
            vec![(
                "FieldValueForbidden",
                "spec.containers[0].resources.limits",
                "Forbidden: resource limits cannot be removed",
            )],
        ),
        (
            "what runs before",
            "/spec/initContainers/0/resources",
            json!({"requests": {"cpu": "1"}}),
            vec![(
                "FieldValueForbidden",
                "spec",
                "Forbidden: resources for non-sidecar init containers are immutable",
            )],
        ),
        (
            "another name",
            "/spec/containers/0/name",
            json!("d"),
            vec![(
                "FieldValueForbidden",
                "spec.containers[0].name",
                "Forbidden: containers may not be renamed or reordered on resize",
            )],
        ),
    ] {
        let mut given = old.clone().into_value();
        match given.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                given.pointer_mut(parent).unwrap()[name] = value;
            }
        }
        let (found, _) = resized(&object(given), &old);
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn resize_cannot_change_the_qos_class() {
    let old = pod(json!({}));
    let guaranteed = pod(json!({"spec": {
        "containers": [{"name": "c", "image": "i:1", "resources": {
            "requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}}],
    }}));
    let one = |pod: &Object| {
        let mut pod = pod.clone();
        pod.remove(&["spec", "initContainers"]);
        pod
    };
    let (found, _) = resized(&one(&guaranteed), &one(&old));
    let text = "Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing";
    assert_eq!(found, [("FieldValueInvalid", "spec", text)]);
}

#[test]
fn resize_cannot_remove_containers() {
    let old = pod(json!({}));
    let fewer = pod(json!({"spec": {"initContainers": null}}));
    let (found, _) = resized(&fewer, &old);
    let text = "Forbidden: initContainers may not be added or removed on resize";
    assert_eq!(found, [("FieldValueForbidden", "spec.initContainers", text)]);
}

#[test]
fn resize_requires_a_node_that_reports_resources() {
    for (case, resources, can) in [("reported", json!({}), true), ("not reported", Value::Null, false)] {
        let status = json!({"name": "c", "state": {"running": {}}, "resources": resources});
        let mut old = pod(json!({}));
        old.set(&["status", "containerStatuses"], json!([status]));
        let (found, _) = resized(&old, &old);
        assert_eq!(found.is_empty(), can, "{case}: {found:?}");
    }
}

#[test]
fn pod_level_resources_can_be_changed_but_not_removed() {
    let whole = |resources: Value| pod(json!({"spec": {"resources": resources}}));
    let old = whole(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}));
    for (case, given, want) in [
        ("more", whole(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}})), None),
        (
            "gone",
            pod(json!({})),
            Some(("spec.resources", "Forbidden: pod-level resources cannot be removed")),
        ),
        (
            "a request less",
            whole(json!({"requests": {"memory": "1Gi"}, "limits": {"cpu": "4"}})),
            Some(("spec.resources.requests", "Forbidden: pod-level resource requests cannot be removed")),
        ),
        (
            "something else",
            whole(json!({"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}, "limits": {"cpu": "4"}})),
            Some(("spec", "Forbidden: only cpu and memory resources are mutable at pod-level")),
        ),
    ] {
        let (found, _) = resized(&given, &old);
        let want: Vec<_> = want.iter().map(|(path, text)| ("FieldValueForbidden", *path, *text)).collect();
        assert_eq!(found, want, "{case}");
    }
}
