//! What a deletion would do, where there is much of it.

use super::*;
use crate::insight::plan::impact;

fn told(objects: &Objects, aim: &Target) -> Plan {
    let snapshot = snapshot(objects);
    impact::plan(&World::new(&snapshot), aim, &[]).unwrap()
}

#[test]
fn a_namespace_with_pods_and_claims() {
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
    let plan = told(&objects, &target("namespaces", "", "a"));
    let message = |name: &str| {
        let step = plan
            .steps
            .iter()
            .find(|step| step.after.name() == name && step.kind().names().plural == "persistentvolumeclaims");
        step.map(|step| step.message.as_str())
    };
    assert_eq!(message("c"), Some("goes when pod a/p is gone"), "told once, and not of the other namespace");
    assert_eq!(message("d"), Some("goes at once"));
    assert_eq!(message("p-own"), Some("goes when pod a/p is gone"));
    assert!(plan.warnings.iter().any(|warning| warning.contains("no node yet") && warning.contains("a/q")));
    assert_eq!(plan.steps.len(), 7, "{:#?}", plan.steps);
    // The same of the claim alone.
    let alone = told(&objects, &target("persistentvolumeclaims", "a", "c"));
    assert_eq!(alone.steps[0].message, "goes when pod a/p is gone");
}

#[test]
fn the_first_are_told_and_all_are_counted() {
    let mut objects: Objects = vec![("namespaces", named("a"))];
    for at in 0..300 {
        let name = format!("m{at}");
        objects.push(("configmaps", merged(named(&name), &json!({"metadata": {"namespace": "a"}}))));
    }
    let plan = told(&objects, &target("namespaces", "", "a"));
    assert_eq!(plan.steps.len(), 200);
    assert!(plan.summary.contains("300 more"), "{}", plan.summary);
    assert!(plan.warnings.iter().any(|warning| warning == "only the first 200 of 301 objects are told"));
}
