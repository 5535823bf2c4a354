//! Tests for recovering lost claims and for moving claims.

use super::*;

#[test]
fn recover_restores_the_volume_of_a_lost_claim() {
    let lost = || ("persistentvolumeclaims", claim("a", "c", "u", "Lost", "v"));
    let past = [volume(
        "v",
        "Bound",
        points("a", "c", "u"),
        json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}, "metadata": {"finalizers": ["x/y"]}}),
    )];
    let aim = target("persistentvolumeclaims", "a", "c");
    let there = |phase: &str, claim: Value| ("persistentvolumes", volume("v", phase, claim, none()));
    check(
        "recover",
        &aim,
        &past,
        vec![
            ("1 from the history", vec![lost()], none(), "create persistentvolume v -> a/c#u Bound Retain"),
            (
                "2 created again, unbound",
                vec![lost(), there("Available", Value::Null)],
                none(),
                "update persistentvolume v -> a/c#u Bound Retain",
            ),
            (
                "3 the claim was created again",
                vec![lost(), there("Released", points("a", "c", "old"))],
                none(),
                "update persistentvolume v -> a/c#u Bound Retain",
            ),
            (
                "4 another claim has it",
                vec![
                    lost(),
                    there("Bound", points("b", "d", "u2")),
                    ("persistentvolumeclaims", claim("b", "d", "u2", "Bound", "v")),
                ],
                none(),
                "no: belongs to the claim b/d",
            ),
            (
                "5 it is reserved for another claim",
                vec![lost(), there("Available", points("b", "d", ""))],
                none(),
                "no: belongs to the claim b/d",
            ),
            (
                "6 pods of the other use it",
                vec![
                    lost(),
                    there("Released", points("b", "d", "u2")),
                    ("pods", pod("b", "p", "d", "Running")),
                ],
                none(),
                "no: in use by pod b/p",
            ),
            (
                "7 the asset is another one's",
                vec![
                    lost(),
                    (
                        "persistentvolumes",
                        volume(
                            "w",
                            "Bound",
                            Value::Null,
                            json!({"spec": {"csi": {"volumeHandle": "handle-v"}}}),
                        ),
                    ),
                ],
                none(),
                "no: w stands for the same asset",
            ),
            (
                "8 another volume points to it",
                vec![lost(), ("persistentvolumes", volume("w", "Bound", points("a", "c", "u"), none()))],
                none(),
                "no: the volume w points to it already",
            ),
            (
                "9 bound",
                vec![("persistentvolumeclaims", claim("a", "c", "u", "Bound", "v"))],
                none(),
                "no: nothing to recover",
            ),
            (
                "10 pending",
                vec![("persistentvolumeclaims", claim("a", "c", "u", "Pending", ""))],
                none(),
                "no: only a Lost claim",
            ),
            (
                "11 it is being deleted by its policy",
                vec![
                    lost(),
                    (
                        "persistentvolumes",
                        volume(
                            "v",
                            "Released",
                            points("a", "c", "old"),
                            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
                        ),
                    ),
                ],
                none(),
                "no: may be being deleted right now",
            ),
            (
                "12 the claim has lost the name",
                vec![
                    ("persistentvolumeclaims", claim("a", "c", "u", "Lost", "")),
                    there("Bound", points("a", "c", "u")),
                ],
                none(),
                "update persistentvolumeclaim a/c Lost [kubernetes.io/pvc-protection]",
            ),
        ],
    );
    check(
        "recover",
        &aim,
        &[],
        vec![("13 forgotten", vec![lost()], none(), "no: the store has forgotten it")],
    );
    let others = [volume("v", "Bound", points("b", "d", "x"), none())];
    check(
        "recover",
        &aim,
        &others,
        vec![("14 never was its own", vec![lost()], none(), "no: belonged to this claim")],
    );
}

#[test]
fn transfer_moves_a_bound_and_unused_claim() {
    let bound = || ("persistentvolumeclaims", claim("a", "c", "u", "Bound", "v"));
    let own = || ("persistentvolumes", volume("v", "Bound", points("a", "c", "u"), none()));
    let to = || ("namespaces", named("b"));
    let there = || json!({"namespace": "b"});
    const DONE: &str = "update persistentvolume v -> b/c#new-uid Bound Retain; create persistentvolumeclaim b/c Bound; \
                        delete persistentvolumeclaim a/c Bound";
    check(
        "transfer",
        &target("persistentvolumeclaims", "a", "c"),
        &[],
        vec![
            ("1 goes", vec![bound(), own(), to()], there(), DONE),
            ("2 where to", vec![bound(), own(), to()], none(), "no: specify the namespace"),
            ("3 there is no such namespace", vec![bound(), own()], there(), "no: there is no namespace b"),
            (
                "4 the name is taken",
                vec![bound(), own(), to(), ("persistentvolumeclaims", claim("b", "c", "x", "Pending", ""))],
                there(),
                "no: there is a claim b/c",
            ),
            (
                "5 a pod uses it",
                vec![bound(), own(), to(), ("pods", pod("a", "p", "c", "Running"))],
                there(),
                "no: p; delete them first",
            ),
            (
                "6 a pod that has ended",
                vec![bound(), own(), to(), ("pods", pod("a", "p", "c", "Succeeded"))],
                there(),
                "no: has ended and still names it",
            ),
            (
                "7 attached",
                vec![bound(), own(), to(), ("volumeattachments", attachment("va", "v", "n1", none()))],
                there(),
                "no: still attached to n1",
            ),
            (
                "8 pending",
                vec![("persistentvolumeclaims", claim("a", "c", "u", "Pending", "")), to()],
                there(),
                "no: only a Bound claim",
            ),
            (
                "9 not its volume",
                vec![
                    bound(),
                    ("persistentvolumes", volume("v", "Bound", points("a", "c", "x"), none())),
                    to(),
                ],
                there(),
                "no: does not point to it",
            ),
            (
                "10 a volume waits for that name",
                vec![
                    bound(),
                    own(),
                    to(),
                    ("persistentvolumes", volume("w", "Available", points("b", "c", ""), none())),
                ],
                there(),
                "no: w is reserved for b/c",
            ),
            ("11 nowhere", vec![bound(), own(), to()], json!({"namespace": "a"}), "no: there already"),
            (
                "12 under another name",
                vec![bound(), own()],
                json!({"namespace": "a", "name": "e"}),
                "no: no namespace a",
            ),
        ],
    );
}

#[test]
fn transfer_warns_about_readers_in_the_new_namespace() {
    let objects: Objects = vec![
        ("persistentvolumeclaims", claim("a", "c", "u", "Bound", "v")),
        ("persistentvolumes", volume("v", "Bound", points("a", "c", "u"), none())),
        ("namespaces", named("a")),
        ("namespaces", named("b")),
    ];
    let aim = target("persistentvolumeclaims", "a", "c");
    for (name, options, want) in [
        (
            "1 elsewhere",
            json!({"namespace": "b"}),
            vec!["every user with read access to claims in b gains access to the data of a/c"],
        ),
        ("2 under another name", json!({"namespace": "a", "name": "e"}), vec![]),
    ] {
        let plan = planned(&objects, &aim, "transfer", options, &[]).unwrap();
        assert_eq!(plan.warnings, want, "{name}");
    }
}
