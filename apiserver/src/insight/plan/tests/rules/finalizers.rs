//! Tests for `release` and `unblock`: the finalizers that they remove, and the force that this requires.

use super::*;

#[test]
fn release_requires_a_stopped_node_or_force() {
    let held = || ("volumeattachments", attachment("va", "v", "n1", none()));
    let node = || ("nodes", named("n1"));
    let out = || {
        (
            "nodes",
            merged(
                named("n1"),
                &json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}),
            ),
        )
    };
    let driver = || ("csidrivers", named("d.example.com"));
    let on_a_node = || {
        let drivers = json!([{"name": "d.example.com", "nodeID": "n2"}]);
        ("csinodes", merged(named("n2"), &json!({"spec": {"drivers": drivers}})))
    };
    let leaving = || {
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        ("volumeattachments", attachment("va", "v", "n1", going))
    };
    let of_a_claim = || ("persistentvolumes", volume("v", "Bound", points("a", "c", "u"), none()));
    const HELD: &str = "delete volumeattachment va [external-attacher/d-example-com]";
    check(
        "release",
        &target("volumeattachments", "", "va"),
        &[],
        vec![
            ("1 the node is gone", vec![held(), driver()], none(), HELD),
            ("2 nothing tells of the driver", vec![held()], none(), HELD),
            ("2a confirmed as removed", vec![held()], forced(), "delete volumeattachment va"),
            ("2b a node has it", vec![held(), on_a_node()], forced(), HELD),
            (
                "2c nothing tells of it, and the node is there",
                vec![held(), node()],
                forced(),
                "delete volumeattachment va",
            ),
            ("3 the node is there", vec![held(), node(), driver()], none(), "no: may still write"),
            (
                "3a how it is forced",
                vec![held(), node(), driver()],
                none(),
                "no: corrupted (--force; in the API force: ",
            ),
            ("4 out of service", vec![held(), out(), driver()], none(), HELD),
            (
                "5 a pod is left there",
                vec![held(), out(), driver(), of_a_claim(), ("pods", pod("a", "p", "c", "Running"))],
                none(),
                "no: pod a/p still use",
            ),
            ("6 by force", vec![held(), node(), driver()], forced(), HELD),
            (
                "7 in other words",
                vec![held(), node(), driver()],
                json!({"force": "yes"}),
                "no: set it to \"data may be corrupted\"",
            ),
            ("8 on its way", vec![leaving(), driver()], none(), "no: has to detach the volume"),
            (
                "9 on its way, and nothing tells of the driver",
                vec![leaving()],
                none(),
                "no: can force it (--force",
            ),
            ("10 in progress, confirmed as removed", vec![leaving()], forced(), "delete volumeattachment va"),
            ("11 on its way, and the node is there", vec![leaving(), node()], none(), "no: may still write"),
            (
                "12 on its way, and the driver is there",
                vec![leaving(), driver()],
                forced(),
                "no: has to detach",
            ),
        ],
    );
    // There is no proof that the node has stopped: the summary does not claim it either.
    let plan =
        planned(&vec![held(), node()], &target("volumeattachments", "", "va"), "release", forced(), &[]);
    assert!(plan.unwrap().summary.ends_with("because it is forced, although the node n1 is there"));
    // The conditions that unblock would have to check are checked by release only.
    check(
        "unblock",
        &target("volumeattachments", "", "va"),
        &[],
        vec![
            ("13 unblocked", vec![leaving()], none(), "no: release asks whether the node"),
            ("14 unblocked by force", vec![leaving(), node()], forced(), "no: release asks whether the node"),
        ],
    );
}

#[test]
fn unblock_removes_only_orphaned_finalizers() {
    let ends =
        |held: &str| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [held]}});
    let ending =
        |phase: &str, claim: Value, held: &str| ("persistentvolumes", volume("v", phase, claim, ends(held)));
    const PROTECTION: &str = "kubernetes.io/pv-protection";
    let driver = || ("csidrivers", named("d.example.com"));
    let made = |patch: Value| {
        let held = ends("external-provisioner.volume.kubernetes.io/finalizer");
        ("persistentvolumes", merged(volume("v", "Released", Value::Null, held), &patch))
    };
    let of_old = |annotations: Value| {
        let by = json!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd"});
        json!({
            "metadata": {"annotations": merged(by, &annotations)},
            "spec": {"csi": null, "gcePersistentDisk": {"pdName": "x"}},
        })
    };
    let migrated = || json!({"pv.kubernetes.io/migrated-to": "d.example.com"});
    check(
        "unblock",
        &target("persistentvolumes", "", "v"),
        &[],
        vec![
            (
                "1 not attached",
                vec![ending("Available", Value::Null, PROTECTION)],
                none(),
                "delete persistentvolume v Available Retain",
            ),
            (
                "2 a claim has it",
                vec![
                    ending("Bound", points("a", "c", "u"), PROTECTION),
                    ("persistentvolumeclaims", claim("a", "c", "u", "Bound", "v")),
                ],
                none(),
                "no: a/c is bound to it",
            ),
            (
                "3 attached",
                vec![
                    ending("Released", points("a", "c", "u"), PROTECTION),
                    ("volumeattachments", attachment("va", "v", "n1", none())),
                ],
                none(),
                "no: in use by attachment va",
            ),
            (
                "4 lives",
                vec![("persistentvolumes", volume("v", "Bound", Value::Null, none()))],
                none(),
                "no: not being deleted",
            ),
            (
                "5 a stranger's",
                vec![ending("Available", Value::Null, "x.example/y")],
                none(),
                "no: what x.example waits for",
            ),
            ("6 nothing tells of the provisioner", vec![made(none())], none(), "no: can force it (--force"),
            (
                "6a confirmed as removed",
                vec![made(none())],
                forced(),
                "delete persistentvolume v Released Retain",
            ),
            ("7 the provisioner is there", vec![made(none()), driver()], none(), "no: looks after the asset"),
            ("7a confirmed as removed", vec![made(none()), driver()], forced(), "no: its events"),
            (
                "7b in other words",
                vec![made(none())],
                json!({"force": "yes"}),
                "no: set it to \"data may be corrupted\"",
            ),
            (
                "7c not of a CSI driver",
                vec![made(of_old(none()))],
                forced(),
                "no: provisioner kubernetes.io/gce-pd",
            ),
            ("7d migrated", vec![made(of_old(migrated())), driver()], forced(), "no: its events"),
            (
                "7e migrated to what is gone",
                vec![made(of_old(migrated()))],
                forced(),
                "delete persistentvolume v Released Retain",
            ),
            (
                "8 the attacher's",
                vec![ending("Released", Value::Null, "external-attacher/d-example-com")],
                none(),
                "delete persistentvolume v Released Retain",
            ),
        ],
    );
    let ending = || {
        merged(
            claim("a", "c", "u", "Bound", "v"),
            &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        )
    };
    check(
        "unblock",
        &target("persistentvolumeclaims", "a", "c"),
        &[],
        vec![
            (
                "9 unused",
                vec![("persistentvolumeclaims", ending())],
                none(),
                "delete persistentvolumeclaim a/c Bound",
            ),
            (
                "10 used",
                vec![("persistentvolumeclaims", ending()), ("pods", pod("a", "p", "c", "Running"))],
                none(),
                "no: pods use the claim: a/p",
            ),
        ],
    );
}
