#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::managed_fields::fields_v1::{parse, path_text, print};

fn set(fields: serde_json::Value) -> Set {
    parse(&fields).unwrap()
}

#[test]
fn fields_v1_round_trips() {
    for (name, fields) in [
        ("nothing", json!({})),
        ("a field", json!({"f:data": {}})),
        ("a field and what is below", json!({"f:data": {".": {}, "f:a": {}}})),
        ("only what is below", json!({"f:data": {"f:a": {}, "f:b": {}}})),
        (
            "keys",
            json!({"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}),
        ),
        ("members", json!({"f:finalizers": {"v:\"a/b\"": {}, "v:1": {}, "v:true": {}}})),
        ("places", json!({"f:x": {"i:0": {}, "i:12": {}}})),
        ("odd names", json!({"f:a:b": {}, "f:": {}, "f:ä\"": {}})),
    ] {
        assert_eq!(print(&set(fields.clone())), fields, "{name}");
    }
}

#[test]
fn malformed_fields_are_rejected_or_normalized() {
    for (name, fields, expected) in [
        ("null", json!(null), Some(json!({}))),
        ("no object", json!("x"), None),
        ("no colon", json!({"fdata": {}}), None),
        ("short key", json!({"f": {}}), None),
        ("unknown kind", json!({"z:x": {}, "f:a": {}}), Some(json!({"f:a": {}}))),
        ("no JSON", json!({"v:x": {}}), None),
        ("no number", json!({"i:x": {}}), None),
        ("a list as member", json!({"v:[]": {}}), None),
        (
            "keys in another order",
            json!({"k:{\"b\":1,\"a\":2}": {}}),
            Some(json!({"k:{\"a\":2,\"b\":1}": {}})),
        ),
        (
            "two spellings of one element",
            json!({"k:{\"a\":2,\"b\":1}": {"f:x": {}}, "k:{\"b\":1,\"a\":2}": {}}),
            Some(json!({"k:{\"a\":2,\"b\":1}": {".": {}, "f:x": {}}})),
        ),
    ] {
        assert_eq!(parse(&fields).map(|set| print(&set)), expected, "{name}");
    }
}

#[test]
fn paths_are_formatted_like_upstream() {
    let set = set(json!({
        "f:metadata": {"f:finalizers": {"v:\"a/b\"": {}}},
        "f:spec": {"f:c": {"k:{\"name\":\"c\",\"port\":80}": {".": {}, "f:image": {}}}, "f:l": {"i:3": {}}},
    }));
    let mut texts = Vec::new();
    set.each_path(&mut |path| texts.push(path_text(path)));
    assert_eq!(
        texts,
        [
            ".metadata.finalizers[=\"a/b\"]",
            ".spec.c[name=\"c\",port=80]",
            ".spec.c[name=\"c\",port=80].image",
            ".spec.l[3]",
        ]
    );
}

#[test]
fn subtract_removes_exact_paths_and_subtract_deep_their_descendants() {
    let whole = json!({"f:a": {".": {}, "f:b": {".": {}, "f:c": {}}}, "f:z": {}});
    for (name, other, exact, deep) in [
        ("nothing", json!({}), whole.clone(), whole.clone()),
        ("all", whole.clone(), json!({}), json!({})),
        (
            "a parent",
            json!({"f:a": {"f:b": {}}}),
            json!({"f:a": {".": {}, "f:b": {"f:c": {}}}, "f:z": {}}),
            json!({"f:a": {}, "f:z": {}}),
        ),
        (
            "a leaf",
            json!({"f:a": {"f:b": {"f:c": {}}}}),
            json!({"f:a": {".": {}, "f:b": {}}, "f:z": {}}),
            json!({"f:a": {".": {}, "f:b": {}}, "f:z": {}}),
        ),
        (
            "the root",
            json!({"f:a": {}}),
            json!({"f:a": {"f:b": {".": {}, "f:c": {}}}, "f:z": {}}),
            json!({"f:z": {}}),
        ),
        ("others", json!({"f:b": {}, "f:zz": {}}), whole.clone(), whole.clone()),
    ] {
        let mut left = set(whole.clone());
        left.subtract(&set(other.clone()));
        assert_eq!(print(&left), exact, "{name}");
        let mut left = set(whole.clone());
        left.subtract_deep(&set(other));
        assert_eq!(print(&left), deep, "{name}, deep");
    }
}

fn element() -> impl Strategy<Value = Element> {
    let atom = prop_oneof![
        (0..3i64).prop_map(Atom::Int),
        "[ab\"]{0,2}".prop_map(|text| Atom::Text(text.into())),
        any::<bool>().prop_map(Atom::Bool),
        Just(Atom::Null),
        Just(Atom::Float(1.5f64.to_bits())),
    ];
    prop_oneof![
        "[ab:.]{0,2}".prop_map(|name| Element::Field(name.into())),
        prop::collection::btree_map("[xy]{1}", atom.clone(), 1..3)
            .prop_map(|keys| Element::Key(keys.into_iter().map(|(k, v)| (k.into(), v)).collect())),
        atom.prop_map(Element::Value),
        (0..3i64).prop_map(Element::Index),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Vec<Element>>> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..12)
}

fn build(paths: &[Vec<Element>]) -> Set {
    let mut set = Set::default();
    for path in paths {
        set.insert(path);
    }
    set
}

/// The paths of a set, computed naively.
fn listed(set: &Set) -> std::collections::BTreeSet<Vec<Element>> {
    let mut all = std::collections::BTreeSet::new();
    set.each_path(&mut |path| {
        all.insert(path.iter().map(|element| (*element).clone()).collect());
    });
    all
}

proptest! {
    #[test]
    fn printed_set_parses_to_the_same_set(paths in paths()) {
        let set = build(&paths);
        prop_assert_eq!(parse(&print(&set)), Some(set));
    }

    #[test]
    fn set_operations_match_plain_sets(a in paths(), b in paths()) {
        let (left, right) = (build(&a), build(&b));
        let (all, others) = (listed(&left), listed(&right));
        let mut union = left.clone();
        union.unite(right.clone());
        prop_assert_eq!(listed(&union), &all | &others);
        prop_assert_eq!(listed(&left.intersection(&right)), &all & &others);
        prop_assert!(all.iter().all(|path| left.has(path)));
        prop_assert!(others.iter().all(|path| left.has(path) == all.contains(path)));
        let mut rest = left.clone();
        rest.subtract(&right);
        prop_assert_eq!(listed(&rest), &all - &others);
        prop_assert_eq!(&rest, &build(&listed(&rest).into_iter().collect::<Vec<_>>()));
        let mut deep = left;
        deep.subtract_deep(&right);
        let apart = |path: &Vec<Element>| !(1..=path.len()).any(|len| others.contains(&path[..len]));
        let expected: std::collections::BTreeSet<_> = all.into_iter().filter(apart).collect();
        prop_assert_eq!(listed(&deep), expected);
    }

    #[test]
    fn parsing_arbitrary_fields_never_panics(text in "\\{\"[fkvi]:[^\\\\]{0,8}\":\\{\\}\\}") {
        if let Ok(value) = serde_json::from_str(&text) {
            let _ = parse(&value);
        }
    }
}
