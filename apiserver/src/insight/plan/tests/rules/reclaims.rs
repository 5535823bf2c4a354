//! Tests for the conditions under which `reclaim` makes a volume available again.

use super::*;

#[test]
fn reclaim_requires_a_released_and_unused_volume() {
    let keep = || json!({"keepData": true});
    let kept_for = || json!({"keepData": true, "for": "b/d"});
    let released =
        |patch: Value| ("persistentvolumes", volume("v", "Released", points("a", "c", "u"), patch));
    let host = || json!({"spec": {"csi": null, "hostPath": {"path": "/tmp/x"}}});
    let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
    let claim_of =
        |uid: &str, volume: &str| ("persistentvolumeclaims", claim("a", "c", uid, "Pending", volume));
    check(
        "reclaim",
        &target("persistentvolumes", "", "v"),
        &[],
        vec![
            ("1 with its data", vec![released(none())], keep(), "update persistentvolume v Available Retain"),
            (
                "2 for a claim",
                vec![released(none())],
                kept_for(),
                "update persistentvolume v -> b/d# Available Retain",
            ),
            (
                "3 scrubbed",
                vec![released(host())],
                json!({"scrub": true}),
                "update persistentvolume v -> a/c#u Released Recycle",
            ),
            (
                "4 cannot be scrubbed",
                vec![released(none())],
                json!({"scrub": true}),
                "no: cannot be scrubbed",
            ),
            (
                "2a for an invalid claim name",
                vec![released(none())],
                json!({"keepData": true, "for": "default/Not_Ok"}),
                "no: no claim can be called default/Not_Ok",
            ),
            (
                "2b in an invalid namespace",
                vec![released(none())],
                json!({"keepData": true, "for": {"namespace": "a.b", "name": "c"}}),
                "no: no claim can be called a.b/c",
            ),
            ("5 neither", vec![released(none())], none(), "no: specify one of keepData"),
            (
                "6 both",
                vec![released(none())],
                json!({"keepData": true, "scrub": true}),
                "no: specify one of keepData",
            ),
            (
                "7 bound",
                vec![("persistentvolumes", volume("v", "Bound", points("a", "c", "u"), none()))],
                keep(),
                "no: bound to the claim a/c",
            ),
            (
                "8 available",
                vec![("persistentvolumes", volume("v", "Available", Value::Null, none()))],
                keep(),
                "no: it is Available",
            ),
            (
                "9 is being deleted by its policy",
                vec![released(policy("Delete"))],
                keep(),
                "no: policy is Delete",
            ),
            (
                "10 is scrubbed by its policy",
                vec![released(policy("Recycle"))],
                keep(),
                "no: policy is Recycle",
            ),
            (
                "11 the claim is there",
                vec![released(none()), claim_of("u", "v")],
                keep(),
                "no: the claim a/c is there",
            ),
            (
                "12 a new claim of that name",
                vec![released(none()), claim_of("u2", "w")],
                keep(),
                "update persistentvolume v Available Retain",
            ),
            (
                "13 a pod still writes",
                vec![released(none()), ("pods", pod("a", "p", "c", "Running"))],
                keep(),
                "no: in use by pod a/p",
            ),
            (
                "14 the pod has ended",
                vec![released(none()), ("pods", pod("a", "p", "c", "Succeeded"))],
                keep(),
                "update persistentvolume v Available Retain",
            ),
            (
                "15 a pod of the new claim",
                vec![released(none()), claim_of("u2", "w"), ("pods", pod("a", "p", "c", "Running"))],
                keep(),
                "update persistentvolume v Available Retain",
            ),
            (
                "16 a pod elsewhere",
                vec![released(none()), ("pods", pod("b", "p", "c", "Running"))],
                keep(),
                "update persistentvolume v Available Retain",
            ),
            (
                "17 attached",
                vec![released(none()), ("volumeattachments", attachment("va", "v", "n1", none()))],
                keep(),
                "no: in use by attachment va (node n1)",
            ),
            (
                "18 mounted",
                vec![
                    released(none()),
                    (
                        "nodes",
                        merged(
                            named("n1"),
                            &json!({"status": {"volumesInUse": ["kubernetes.io/csi/d.example.com^handle-v"]}}),
                        ),
                    ),
                ],
                keep(),
                "no: in use by node n1",
            ),
            (
                "19 the receiver has another one reserved",
                vec![
                    released(none()),
                    ("persistentvolumes", volume("w", "Available", points("b", "d", ""), none())),
                ],
                kept_for(),
                "no: w points to b/d already",
            ),
            (
                "20 the receiver has one",
                vec![released(none()), ("persistentvolumeclaims", claim("b", "d", "u3", "Bound", "w"))],
                kept_for(),
                "no: b/d has the volume w",
            ),
            (
                "21 terminating",
                vec![released(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))],
                keep(),
                "no: being deleted",
            ),
            ("22 not there", vec![], keep(), "no: there is no such object"),
            (
                "23 nonsense",
                vec![released(none())],
                json!({"keepData": true, "for": "x"}),
                "no: has to name a claim",
            ),
            ("24 unknown option", vec![released(none())], json!({"keepdata": true}), "no: unknown field"),
        ],
    );
}

#[test]
fn reclaim_removes_an_unfinished_scrub() {
    const LEFT: &str = "orlop.dev/reclaim-policy-after-scrub";
    let left = || json!({"metadata": {"annotations": {LEFT: "Retain", "x": "y"}}});
    let lost = || ("persistentvolumeclaims", claim("a", "c", "u", "Lost", "v"));
    let there = volume("v", "Released", points("a", "c", "old"), left());
    let past = volume("v", "Bound", points("a", "c", "u"), left());
    let (of_volume, of_claim) =
        (target("persistentvolumes", "", "v"), target("persistentvolumeclaims", "a", "c"));
    for (name, verb, aim, options, objects, past) in [
        (
            "reclaimed",
            "reclaim",
            &of_volume,
            json!({"keepData": true}),
            vec![("persistentvolumes", there.clone())],
            vec![],
        ),
        ("recovered", "recover", &of_claim, none(), vec![lost(), ("persistentvolumes", there)], vec![]),
        ("brought back for its claim", "recover", &of_claim, none(), vec![lost()], vec![past.clone()]),
        ("brought back", "undelete", &of_volume, none(), vec![], vec![past]),
    ] {
        let plan = planned(&objects, aim, verb, options, &past).unwrap();
        let annotations = plan.steps[0].after.at(&["metadata", "annotations"]).unwrap();
        assert_eq!(annotations, &json!({"x": "y"}), "{name}");
    }
}
