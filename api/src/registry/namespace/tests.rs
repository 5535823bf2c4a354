use super::super::testing::{causes, kind_now, object};
use super::*;

#[test]
fn new_namespace_gets_label_finalizer_and_phase() {
    for (case, given, want) in [
        (
            "bare",
            json!({"metadata": {"name": "x"}}),
            json!({
                "metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }),
        ),
        (
            "finalizers kept, status dropped, label forced",
            json!({
                "metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "y", "a": "b"}},
                "spec": {"finalizers": ["example.com/x"]},
                "status": {"phase": "Terminating"},
            }),
            json!({
                "metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x", "a": "b"}},
                "spec": {"finalizers": ["example.com/x", "kubernetes"]},
                "status": {"phase": "Active"},
            }),
        ),
    ] {
        let mut namespace = object(given);
        Namespace.defaults(&mut namespace);
        Namespace.prepare_create(&mut namespace, kind_now());
        assert_eq!(namespace.into_value(), want, "{case}");
    }
}

#[test]
fn update_does_not_change_finalizers() {
    let old = object(json!({"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}}));
    let mut new = object(json!({"metadata": {"name": "x"}, "spec": {"finalizers": ["a/b"]}}));
    Namespace.prepare_update(&mut new, &old, kind_now());
    assert_eq!(
        new.into_value(),
        json!({
            "metadata": {"name": "x", "labels": {"kubernetes.io/metadata.name": "x"}},
            "spec": {"finalizers": ["kubernetes"]},
        })
    );
}

#[test]
fn unqualified_finalizer_is_rejected() {
    let bad = object(json!({"spec": {"finalizers": ["x", "example.com/x", "kubernetes"]}}));
    assert_eq!(
        causes(|errors| Namespace.validate(&bad, errors)),
        vec![(
            "FieldValueInvalid",
            "spec.finalizers",
            "Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified",
        )]
    );
}

#[test]
fn status_phase_must_match_the_deletion() {
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    for (case, metadata, phase, want) in [
        ("active", json!({}), "Active", vec![]),
        (
            "terminating too early",
            json!({}),
            "Terminating",
            vec![(
                "FieldValueInvalid",
                "status.Phase",
                "Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
            )],
        ),
        ("terminating", deleting.clone(), "Terminating", vec![]),
        (
            "active too late",
            deleting,
            "Active",
            vec![(
                "FieldValueInvalid",
                "status.Phase",
                "Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty",
            )],
        ),
    ] {
        let namespace = object(json!({"metadata": metadata, "status": {"phase": phase}}));
        let got = causes(|errors| Namespace.validate_status(&namespace, &namespace, errors));
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn table_row_shows_the_phase() {
    let namespace = object(json!({
        "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": "Active"},
    }));
    assert_eq!(Namespace.cells(&namespace, kind_now()), vec![json!("a"), json!("Active"), json!("60s")]);
    assert_eq!(Namespace.field(&namespace, "status.phase"), "Active");
}
