//! Tests of the `PriorityClass` kind, one row per rule.

use super::super::testing::{causes, kind_now, object};
use super::*;

const FORBIDDEN: &str = "FieldValueForbidden";

#[test]
fn new_classes_are_validated() {
    let reserved =
        "Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: ";
    let cases = [
        ("1 good", "a", 5, false, "Never", None),
        ("2 the highest", "a", 1_000_000_000, false, PREEMPT, None),
        ("3 below zero", "a", -5, true, PREEMPT, None),
        (
            "4 too high",
            "a",
            1_000_000_001,
            false,
            PREEMPT,
            Some((
                FORBIDDEN,
                "value",
                "Forbidden: maximum allowed value of a user defined priority is 1000000000".to_owned(),
            )),
        ),
        (
            "5 a name of the system",
            "system-x",
            5,
            false,
            PREEMPT,
            Some((
                FORBIDDEN,
                "metadata.name",
                format!("{reserved}system-x is not a known system priority class"),
            )),
        ),
        (
            "6 another value",
            "system-node-critical",
            5,
            false,
            PREEMPT,
            Some((
                FORBIDDEN,
                "metadata.name",
                format!("{reserved}value of system-node-critical PriorityClass must be 2000001000"),
            )),
        ),
        (
            "7 the default",
            "system-node-critical",
            2_000_001_000,
            true,
            PREEMPT,
            Some((
                FORBIDDEN,
                "metadata.name",
                format!("{reserved}globalDefault of system-node-critical PriorityClass must be false"),
            )),
        ),
        ("8 one of the system's", "system-node-critical", 2_000_001_000, false, PREEMPT, None),
        (
            "9 an unknown policy",
            "a",
            5,
            false,
            "Maybe",
            Some((
                "FieldValueNotSupported",
                "preemptionPolicy",
                "Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\""
                    .to_owned(),
            )),
        ),
        (
            "10 no policy",
            "a",
            5,
            false,
            "",
            Some(("FieldValueRequired", "preemptionPolicy", "Required value".to_owned())),
        ),
    ];
    for (case, name, value, default, policy, want) in cases {
        let class = object(json!({
            "metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": policy,
        }));
        let got = causes(|errors| PriorityClass.validate_create(&class, errors));
        let want: Vec<_> = want.iter().map(|(reason, path, text)| (*reason, *path, text.as_str())).collect();
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn updates_are_validated() {
    let old = object(json!({"value": 5, "preemptionPolicy": "Never"}));
    type Row<'a> = (&'a str, &'a str, &'a str);
    let cases: [(&str, Value, &[Row<'_>]); 3] = [
        (
            "1 the text and the default",
            json!({"value": 5, "preemptionPolicy": "Never", "globalDefault": true, "description": "x"}),
            &[],
        ),
        (
            "2 the value",
            json!({"value": 6, "preemptionPolicy": "Never"}),
            &[(FORBIDDEN, "value", "Forbidden: may not be changed in an update.")],
        ),
        (
            "3 the policy",
            json!({"value": 5, "preemptionPolicy": PREEMPT}),
            &[(
                "FieldValueInvalid",
                "preemptionPolicy",
                "Invalid value: \"PreemptLowerPriority\": field is immutable",
            )],
        ),
    ];
    for (case, new, want) in cases {
        assert_eq!(
            causes(|errors| PriorityClass.validate_update(&object(new), &old, errors)),
            want,
            "{case}"
        );
    }
}

#[test]
fn system_classes_are_valid() {
    for class in &SYSTEM_CLASSES {
        let mut object = class.object();
        PriorityClass.defaults(&mut object);
        assert_eq!(causes(|errors| PriorityClass.validate_create(&object, errors)), [], "{}", class.name);
    }
}

#[test]
fn lowest_default_class_takes_precedence() {
    let class = |name: &str, value: i64, default: bool| {
        object(json!({"metadata": {"name": name}, "value": value, "globalDefault": default}))
    };
    let of = |classes: Vec<Object>| default_of(classes).map(|class| class.name().to_owned());
    assert_eq!(of(vec![]), None);
    assert_eq!(of(vec![class("a", 1, false)]), None);
    assert_eq!(
        of(vec![class("a", 9, true), class("b", 3, true), class("c", 1, false)]).as_deref(),
        Some("b")
    );
}

#[test]
fn table_row_shows_the_class() {
    let mut class =
        object(json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, "value": 5}));
    PriorityClass.defaults(&mut class);
    let want = [json!("a"), json!(5), json!(false), json!("60s"), json!(PREEMPT)];
    assert_eq!(PriorityClass.cells(&class, kind_now()), want);
    assert_eq!(PriorityClass.columns().len(), want.len());
}
