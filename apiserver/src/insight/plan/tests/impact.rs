//! Effects of deletions with many objects.

use super::*;
use crate::insight::plan::impact;

fn deletion_plan(objects: &Objects, aim: &ObjectTarget) -> Plan {
    let snapshot = snapshot(objects);
    impact::plan(&ClusterView::new(&snapshot), aim, &[]).unwrap()
}

#[test]
fn namespace_impact_includes_its_claims_and_their_pods() {
    let mut both = pod("a", "p", "c", "Running");
    both["spec"]["volumes"] = json!([
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "again", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
    ]);
    let mut waiting = pod("a", "q", "d", "Pending");
    waiting["spec"].as_object_mut().unwrap().remove("nodeName");
    let objects: Objects = vec![
        ("namespaces", named("a")),
        ("persistentvolumeclaims", claim("a", "c", "u1", "Bound", "v")),
        ("persistentvolumeclaims", claim("a", "d", "u2", "Pending", "")),
        ("persistentvolumeclaims", claim("a", "p-own", "u3", "Pending", "")),
        ("persistentvolumes", volume("v", "Bound", points("a", "c", "u1"), json!({}))),
        ("pods", both),
        ("pods", waiting),
        ("pods", pod("b", "p", "c", "Running")),
    ];
    let plan = deletion_plan(&objects, &target("namespaces", "", "a"));
    let message = |name: &str| {
        let step = plan
            .steps
            .iter()
            .find(|step| step.after.name() == name && step.kind().names().plural == "persistentvolumeclaims");
        step.map(|step| step.message.as_str())
    };
    assert_eq!(
        message("c"),
        Some("deleted when pod a/p is gone"),
        "listed once, without the other namespace"
    );
    assert_eq!(message("d"), Some("deleted immediately"));
    assert_eq!(message("p-own"), Some("deleted when pod a/p is gone"));
    // Pods that are deleted too cause no warning and no wait.
    assert_eq!(plan.warnings, Vec::<String>::new());
    assert!(!plan.summary.contains("waits for"), "{}", plan.summary);
    assert_eq!(plan.steps.len(), 7, "{:#?}", plan.steps);
    // The same for the claim alone.
    let alone = deletion_plan(&objects, &target("persistentvolumeclaims", "a", "c"));
    assert_eq!(alone.steps[0].message, "deleted when pod a/p is gone");
    assert!(alone.summary.ends_with("it waits for pod a/p"), "{}", alone.summary);
    let alone = deletion_plan(&objects, &target("persistentvolumeclaims", "a", "d"));
    assert_eq!(alone.warnings, ["pods that have no node yet cannot start without it: a/q"]);
}

#[test]
fn impact_lists_the_first_steps_and_counts_all() {
    let mut objects: Objects = vec![("namespaces", named("a"))];
    for at in 0..300 {
        let name = format!("m{at}");
        objects.push(("configmaps", merged(named(&name), &json!({"metadata": {"namespace": "a"}}))));
    }
    let plan = deletion_plan(&objects, &target("namespaces", "", "a"));
    assert_eq!(plan.steps.len(), 200);
    assert!(plan.summary.contains("300 more"), "{}", plan.summary);
    assert!(plan.warnings.iter().any(|warning| warning == "only the first 200 of 301 objects are listed"));
}

/// Adds owners, as `(kind, name)`; the uid of each is `uid-NAME`, as in [`named`].
fn of(object: Value, owners: &[(&str, &str)]) -> Value {
    let reference =
        |(kind, name): &(&str, &str)| json!({"kind": kind, "name": name, "uid": format!("uid-{name}")});
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    merged(object, &json!({"metadata": {"ownerReferences": owners}}))
}

fn within(namespace: &str, name: &str, owners: &[(&str, &str)]) -> Value {
    of(merged(named(name), &json!({"metadata": {"namespace": namespace}})), owners)
}

/// The steps of a plan, one line each, sorted.
fn lines(plan: &Plan) -> Vec<String> {
    let line = |step: &super::super::model::PlanStep| {
        let (action, kind) = (step.action.word(), step.kind().names().singular);
        format!("{action} {kind} {}: {}", step.after.name(), step.message)
    };
    let mut lines: Vec<String> = plan.steps.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn dependents_are_reported_as_if_deleted_directly() {
    const SET: (&str, &str) = ("StatefulSet", "web");
    let deletes = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let ephemeral = |volume: &str| {
        merged(
            pod("a", "p", "none", "Running"),
            &json!({"spec": {"volumes": [
                {"name": volume, "ephemeral": {"volumeClaimTemplate": {}}},
            ]}}),
        )
    };
    let stays = |name: &str| ("configmaps", within("a", name, &[]));
    let cases: Vec<(&str, Objects, ObjectTarget, &str, Vec<&str>)> = vec![
        (
            "1 the claims of a StatefulSet with their volumes",
            vec![
                ("statefulsets", within("a", "web", &[])),
                ("pods", of(pod("a", "web-0", "data-web-0", "Running"), &[SET])),
                ("persistentvolumeclaims", of(claim("a", "data-web-0", "u", "Bound", "v"), &[SET])),
                ("persistentvolumes", volume("v", "Bound", points("a", "data-web-0", "u"), deletes.clone())),
            ],
            target("statefulsets", "a", "web"),
            "statefulset a/web is deleted, and 3 more objects are changed or deleted; the data of v is deleted",
            vec![
                "delete persistentvolume v: its policy is Delete: the asset and the object go",
                "delete persistentvolumeclaim data-web-0: belongs to it alone: deleted when pod a/web-0 is gone",
                "delete pod web-0: belongs to it alone",
                "delete statefulset web: the object",
            ],
        ),
        (
            "2 owners of owners, and the claim of a pod's own volume",
            vec![
                ("deployments", within("a", "dd", &[])),
                ("replicasets", within("a", "dd-1", &[("Deployment", "dd")])),
                ("pods", of(ephemeral("own"), &[("ReplicaSet", "dd-1")])),
                ("persistentvolumeclaims", of(claim("a", "p-own", "u", "Bound", "v"), &[("Pod", "a-p")])),
                ("persistentvolumes", volume("v", "Bound", points("a", "p-own", "u"), deletes)),
            ],
            target("deployments", "a", "dd"),
            "deployment a/dd is deleted, and 4 more objects are changed or deleted; the data of v is deleted",
            vec![
                "delete deployment dd: the object",
                "delete persistentvolume v: its policy is Delete: the asset and the object go",
                "delete persistentvolumeclaim p-own: belongs to Pod a-p alone, which is deleted: deleted when pod a/p is gone",
                "delete pod p: belongs to ReplicaSet dd-1 alone, which is deleted",
                "delete replicaset dd-1: belongs to it alone",
            ],
        ),
        (
            "3 an object with another owner stays",
            vec![
                stays("m"),
                stays("keeper"),
                ("configmaps", within("a", "n", &[("ConfigMap", "m")])),
                ("configmaps", within("a", "both", &[("ConfigMap", "m"), ("ConfigMap", "n")])),
                ("configmaps", within("a", "kept", &[("ConfigMap", "m"), ("ConfigMap", "keeper")])),
                ("configmaps", within("a", "of-kept", &[("ConfigMap", "kept")])),
            ],
            target("configmaps", "a", "m"),
            "configmap a/m is deleted, and 2 more objects are changed or deleted",
            vec![
                "delete configmap both: all its owners are deleted",
                "delete configmap m: the object",
                "delete configmap n: belongs to it alone",
            ],
        ),
        (
            "4 a circle",
            vec![
                ("configmaps", within("a", "m", &[("ConfigMap", "n")])),
                ("configmaps", within("a", "n", &[("ConfigMap", "m")])),
            ],
            target("configmaps", "a", "m"),
            "configmap a/m is deleted, and 1 more object is changed or deleted",
            vec!["delete configmap m: the object", "delete configmap n: belongs to it alone"],
        ),
        (
            "5 dependents are orphaned",
            vec![
                (
                    "configmaps",
                    merged(within("a", "m", &[]), &json!({"metadata": {"finalizers": ["orphan"]}})),
                ),
                ("configmaps", within("a", "n", &[("ConfigMap", "m")])),
            ],
            target("configmaps", "a", "m"),
            "configmap a/m is deleted",
            vec!["delete configmap m: the object"],
        ),
        (
            "6 a volume that is kept",
            vec![
                ("configmaps", within("a", "m", &[])),
                ("persistentvolumeclaims", of(claim("a", "c", "u", "Bound", "v"), &[("ConfigMap", "m")])),
                ("persistentvolumes", volume("v", "Bound", points("a", "c", "u"), json!({}))),
            ],
            target("configmaps", "a", "m"),
            "configmap a/m is deleted, and 2 more objects are changed or deleted",
            vec![
                "delete configmap m: the object",
                "delete persistentvolumeclaim c: belongs to it alone: deleted immediately",
                "update persistentvolume v: its policy is Retain: it becomes Released with its data; `orlop pv reclaim` makes it available again",
            ],
        ),
    ];
    for (name, objects, aim, summary, want) in cases {
        let plan = deletion_plan(&objects, &aim);
        assert_eq!(plan.summary, summary, "{name}");
        assert_eq!(lines(&plan), want, "{name}");
    }
}

#[test]
fn owners_are_followed_to_a_maximum_depth() {
    let mut objects: Objects = vec![("configmaps", within("a", "m0", &[]))];
    for at in 1..=20 {
        let owner = format!("m{}", at - 1);
        objects.push(("configmaps", within("a", &format!("m{at}"), &[("ConfigMap", owner.as_str())])));
    }
    let plan = deletion_plan(&objects, &target("configmaps", "a", "m0"));
    assert_eq!(plan.steps.len(), 17, "{}", plan.summary);
    assert!(plan.warnings.iter().any(|warning| warning.contains("16 times")), "{:?}", plan.warnings);
}

#[test]
fn unknown_finalizers_are_reported() {
    let held = |mut object: Value, held: &[&str]| {
        object["metadata"]["finalizers"] = json!(held);
        object
    };
    let own = || claim("a", "c", "u", "Pending", "");
    let free = || volume("v", "Available", Value::Null, json!({}));
    let the_claim = || target("persistentvolumeclaims", "a", "c");
    let the_volume = || target("persistentvolumes", "", "v");
    const STRANGER: &str = "it is deleted after these finalizers are removed: x.example/y";
    let cases: Vec<(&str, Objects, ObjectTarget, &str, Vec<&str>)> = vec![
        (
            "1 protection alone",
            vec![("persistentvolumeclaims", own())],
            the_claim(),
            "deleted immediately",
            vec![],
        ),
        (
            "2 a stranger, too",
            vec![("persistentvolumeclaims", held(own(), &["kubernetes.io/pvc-protection", "x.example/y"]))],
            the_claim(),
            "no pod uses it; deleted when x.example/y is removed",
            vec![STRANGER],
        ),
        (
            "3 a free volume",
            vec![("persistentvolumes", held(free(), &["kubernetes.io/pv-protection"]))],
            the_volume(),
            "only the object is deleted; the storage remains, and no object refers to it any more; undelete brings the object back \
             with its handle while it is in the history",
            vec![],
        ),
        (
            "4 any object",
            vec![("configmaps", held(within("a", "m", &[]), &["x.example/y"]))],
            target("configmaps", "a", "m"),
            "the object; deleted when x.example/y is removed",
            vec![STRANGER],
        ),
        (
            "5 an attachment",
            vec![("volumeattachments", attachment("va", "v", "n1", json!({})))],
            target("volumeattachments", "", "va"),
            "deleted when its driver has detached v from n1",
            vec![],
        ),
    ];
    for (name, objects, aim, message, warnings) in cases {
        let plan = deletion_plan(&objects, &aim);
        assert_eq!(plan.steps[0].message, message, "{name}");
        assert_eq!(plan.warnings, warnings, "{name}");
    }
}
