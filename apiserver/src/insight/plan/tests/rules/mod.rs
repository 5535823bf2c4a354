//! Tables of situations and the result of each verb: the steps in short form, or the refusal.

mod claims;
mod finalizers;
mod reclaims;

use super::*;

/// `plan` as `action resource name`, followed by the relevant fields of the object; a refusal as `no: words`.
fn format_plan(plan: Result<Plan, PlanRefusal>) -> String {
    match plan {
        Err(refusal) => format!("no: {refusal}"),
        Ok(plan) => plan.steps.iter().map(step).collect::<Vec<_>>().join("; "),
    }
}

fn step(step: &super::super::model::PlanStep) -> String {
    let after = &step.after;
    let mut text = format!(
        "{} {} {}",
        step.action.word(),
        step.kind().names().singular,
        super::super::facts::key_of(after)
    );
    if let Some(reference) = super::super::facts::claim_ref(after) {
        text.push_str(&format!(" -> {}/{}#{}", reference.namespace, reference.name, reference.uid));
    }
    let phase = super::super::facts::phase(after);
    if !phase.is_empty() {
        text.push_str(&format!(" {phase}"));
    }
    if let Some(policy) = after.at(&["spec", "persistentVolumeReclaimPolicy"]) {
        text.push_str(&format!(" {}", policy.as_str().unwrap_or_default()));
    }
    let left: Vec<&str> = after.finalizers().collect();
    if !left.is_empty() {
        text.push_str(&format!(" [{}]", left.join(",")));
    }
    text
}

/// A row: name, objects, options, expected result (part of the message, for a refusal).
type Row = (&'static str, Objects, Value, &'static str);

fn check(verb: &str, target: &ObjectTarget, past: &[Value], rows: Vec<Row>) {
    for (name, objects, options, want) in rows {
        let got = format_plan(planned(&objects, target, verb, options, past));
        match want.strip_prefix("no: ") {
            Some(words) => {
                assert!(got.starts_with("no: ") && got.contains(words), "{name}: {got}\n  wanted: {want}");
            }
            None => assert_eq!(got, want, "{name}"),
        }
    }
}

fn none() -> Value {
    json!({})
}

fn forced() -> Value {
    json!({"force": "data may be corrupted"})
}

#[test]
fn undelete_restores_an_earlier_version() {
    let aim = target("persistentvolumes", "", "v");
    let deleted = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let past = [volume("v", "Bound", points("a", "c", "u"), deleted)];
    let lost = || ("persistentvolumeclaims", claim("a", "c", "u", "Lost", "v"));
    check(
        "undelete",
        &aim,
        &past,
        vec![
            ("1 its claim waits", vec![lost()], none(), "create persistentvolume v -> a/c#u Bound Retain"),
            ("2 its claim is gone", vec![], none(), "create persistentvolume v -> a/c#u Released Retain"),
            (
                "2a its claim does not refer to it yet",
                vec![("persistentvolumeclaims", claim("a", "c", "u", "Bound", "v"))],
                none(),
                "create persistentvolume v -> a/c#u Bound Retain",
            ),
            (
                "2b its claim has another volume",
                vec![
                    ("persistentvolumeclaims", claim("a", "c", "u", "Bound", "w")),
                    ("persistentvolumes", volume("w", "Bound", points("a", "c", "u"), none())),
                ],
                none(),
                "no: the volume w points to a/c already",
            ),
            (
                "2c its claim is not bound yet",
                vec![("persistentvolumeclaims", claim("a", "c", "u", "Pending", ""))],
                none(),
                "create persistentvolume v -> a/c#u Available Retain",
            ),
            (
                "3 it is there",
                vec![("persistentvolumes", volume("v", "Available", Value::Null, none()))],
                none(),
                "no: an object of that name",
            ),
            (
                "4 the asset is another one's",
                vec![(
                    "persistentvolumes",
                    volume("w", "Bound", Value::Null, json!({"spec": {"csi": {"volumeHandle": "handle-v"}}})),
                )],
                none(),
                "no: stands for the same asset",
            ),
            ("5 long ago", vec![], json!({"at": "5"}), "no: no such object at revision 5"),
            (
                "6 at a revision",
                vec![],
                json!({"at": "92"}),
                "create persistentvolume v -> a/c#u Released Retain",
            ),
            ("7 after its end", vec![], json!({"at": "95"}), "no: no such object at revision 95"),
            ("8 nonsense", vec![], json!({"at": "x"}), "no: no revision"),
        ],
    );
    // Written at 89 and 90, deleted at 95.
    let two = [past[0].clone(), volume("v", "Available", Value::Null, none())];
    check(
        "undelete",
        &aim,
        &two,
        vec![
            ("8a the last", vec![], none(), "create persistentvolume v -> a/c#u Released Retain"),
            ("8b the one before", vec![], json!({"at": "89"}), "create persistentvolume v Available Retain"),
            ("8c when it had gone", vec![], json!({"at": "95"}), "no: no such object at revision 95"),
            ("8d later", vec![], json!({"at": "97"}), "no: no such object at revision 97"),
        ],
    );
    let past = [claim("a", "c", "u", "Bound", "v")];
    let space = || ("namespaces", named("a"));
    let own = |policy: &str| {
        (
            "persistentvolumes",
            volume(
                "v",
                "Released",
                points("a", "c", "u"),
                json!({"spec": {"persistentVolumeReclaimPolicy": policy}}),
            ),
        )
    };
    check(
        "undelete",
        &target("persistentvolumeclaims", "a", "c"),
        &past,
        vec![
            (
                "9 a claim and its volume",
                vec![space(), own("Retain")],
                none(),
                "update persistentvolume v -> a/c#new-uid Bound Retain; create persistentvolumeclaim a/c Bound",
            ),
            (
                "10 its volume is being deleted",
                vec![space(), own("Delete")],
                none(),
                "no: may be being deleted",
            ),
            (
                "11 its volume is another's",
                vec![space(), ("persistentvolumes", volume("v", "Bound", points("b", "d", "x"), none()))],
                none(),
                "no: belongs to b/d",
            ),
            (
                "11a and bound to it, as after a transfer",
                vec![
                    space(),
                    ("persistentvolumes", volume("v", "Bound", points("b", "d", "x"), none())),
                    ("persistentvolumeclaims", claim("b", "d", "x", "Bound", "v")),
                ],
                none(),
                "no: `orlop pvc transfer d -n b --to a --as c`",
            ),
            (
                "11b reserved for another claim that is not bound",
                vec![
                    space(),
                    ("persistentvolumes", volume("v", "Released", points("b", "d", "x"), none())),
                    ("persistentvolumeclaims", claim("b", "d", "y", "Pending", "")),
                ],
                none(),
                "no: `orlop pv reclaim v --keep-data --for a/c`",
            ),
            ("12 its volume is gone", vec![space()], none(), "create persistentvolumeclaim a/c Lost"),
            ("13 its namespace is gone", vec![own("Retain")], none(), "no: bring that back first"),
        ],
    );
    check(
        "undelete",
        &target("configmaps", "a", "m"),
        &[],
        vec![
            ("14 never was", vec![space()], none(), "no: nothing is known of an earlier one"),
            (
                "15 never was, at a revision",
                vec![space()],
                json!({"at": "5"}),
                "no: nothing is known of one at",
            ),
            ("16 forgotten", vec![space()], json!({"at": "0"}), "no: the store no longer contains it"),
        ],
    );
}

#[test]
fn undelete_of_an_unknown_object_fails() {
    let aim = target("configmaps", "a", "m");
    for (name, options, code) in
        [("1 the last", none(), 404), ("2 before all that is known", json!({"at": "0"}), 410)]
    {
        let refusal = planned(&Vec::new(), &aim, "undelete", options, &[]).unwrap_err();
        assert_eq!(refusal.error(&aim).code, code, "{name}");
    }
}

#[test]
fn undeleted_secret_values_are_restored_but_not_shown() {
    let aim = target("secrets", "a", "s");
    let objects: Objects = vec![("namespaces", named("a"))];
    let past = [merged(named("s"), &json!({"metadata": {"namespace": "a"}, "data": {"k": "aGlkZGVu"}}))];
    let plan = planned(&objects, &aim, "undelete", none(), &past).unwrap();
    assert_eq!(plan.warnings, ["the values of secrets are not shown; they come back as they were"]);
}

#[test]
fn verbs_reject_other_kinds() {
    for (verb, plural, want) in [
        ("reclaim", "pods", "reclaim applies to persistentvolumes"),
        ("recover", "persistentvolumes", "recover applies to persistentvolumeclaims"),
        ("release", "nodes", "release applies to volumeattachments"),
        ("explode", "nodes", "there is no verb"),
    ] {
        let got = planned(&Vec::new(), &target(plural, "", "x"), verb, none(), &[]).unwrap_err();
        assert!(matches!(&got, PlanRefusal::Kind(why) if why.contains(want)), "{verb}: {got}");
    }
}
