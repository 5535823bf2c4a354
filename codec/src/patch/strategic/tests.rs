#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use orlop_apimachinery::thread_time::assert_linear;
use orlop_openapi::Strategic;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Test rules: every object accepts every member, and lists with these names are merged.
#[derive(Clone, Copy)]
struct ByName;

static BY_NAME: LazyLock<[(&str, Strategic); 4]> = LazyLock::new(|| {
    [
        ("containers", Strategic::MergeBy("name".to_owned())),
        ("ports", Strategic::MergeBy("port".to_owned())),
        ("finalizers", Strategic::MergeSet),
        ("keyless", Strategic::MergeSet),
    ]
});

impl Rules<'static> for ByName {
    fn member(self, name: &str) -> Result<(Self, &'static Strategic), Fault> {
        if name == "bogus" {
            return Err(Fault::NoField { owner: "T".to_owned(), field: name.to_owned() });
        }
        let found = BY_NAME.iter().find(|(one, _)| *one == name);
        Ok((self, found.map_or(&Strategic::Replace, |(_, strategy)| strategy)))
    }

    fn name(self) -> &'static str {
        "struct"
    }

    fn take_steps(self, _: usize) -> Result<(), Fault> {
        Ok(())
    }
}

fn merged(live: &Value, patch: &Value) -> Result<Value, Fault> {
    let map = |value: &Value| value.as_object().unwrap().clone();
    merge(map(live), map(patch), ByName).map(Value::Object)
}

/// Texts with the numbers in a range.
fn texts(range: std::ops::Range<usize>) -> Vec<Value> {
    range.map(|n| format!("n{n}").into()).collect()
}

#[test]
fn long_lists_are_merged_in_linear_time() {
    type Case = (&'static str, fn(usize) -> (Value, Value));
    let cases: [Case; 5] = [
        ("1 objects", |n| {
            let items = |from: usize| -> Vec<Value> {
                (from..from + n).map(|n| json!({"name": format!("n{n}")})).collect()
            };
            (json!({"containers": items(0)}), json!({"containers": items(n / 2)}))
        }),
        ("2 deletes", |n| {
            let named = |n: usize| json!({"name": format!("n{n}")});
            let gone = |n: usize| json!({"name": format!("n{n}"), "$patch": "delete"});
            let (live, patch): (Vec<Value>, Vec<Value>) = (0..n).map(|n| (named(n), gone(n))).unzip();
            (json!({"containers": live}), json!({"containers": patch}))
        }),
        ("3 texts", |n| (json!({"finalizers": texts(0..n)}), json!({"finalizers": texts(n / 2..n * 3 / 2)}))),
        ("4 deletes of texts", |n| {
            (json!({"finalizers": texts(0..n)}), json!({"$deleteFromPrimitiveList/finalizers": texts(1..n)}))
        }),
        ("5 retained keys", |n| {
            let mut patch: Map<String, Value> = (0..n).map(|n| (format!("n{n}"), json!(1))).collect();
            patch.insert("$retainKeys".to_owned(), texts(0..n).into());
            (json!({}), Value::Object(patch))
        }),
    ];
    for (case, input) in cases {
        assert_linear(case, 3_000, input, |(live, patch)| merged(live, patch).unwrap());
    }
}

#[test]
fn item_that_is_named_too_often_with_long_lists_is_rejected() {
    let types = orlop_openapi::types();
    let pod = types.named("io.k8s.api.core.v1.Pod").unwrap();
    let env: Vec<Value> = (0..10_000).map(|n| json!({"name": format!("n{n}"), "value": "a"})).collect();
    let document = json!({"spec": {"containers": [{"name": "a", "env": env}]}});
    let item = json!({"name": "a", "env": [{"name": "n0", "value": "b"}]});
    let sorts = json!({"name": "a", "$setElementOrder/env": [{"name": "n0"}]});
    for (case, item) in [("merged", item), ("sorted", sorts)] {
        let patch = json!({"spec": {"containers": vec![item; 1_000]}}).to_string();
        let error = apply(document.clone(), patch.as_bytes(), types, pod).unwrap_err();
        assert_eq!(error.code, 413, "{case}: {}", error.message);
    }
}

#[track_caller]
fn check(name: &str, live: Value, patch: Value, expected: Value) {
    assert_eq!(merged(&live, &patch), Ok(expected), "{name}");
}

#[test]
fn maps_are_merged_member_by_member() {
    let live = json!({"a": 1, "l": [1, 2], "o": {"x": 1, "y": 2}});
    check("1-1 empty", live.clone(), json!({}), live.clone());
    check("1-2 scalar", json!({"a": 1}), json!({"a": 2, "b": 3}), json!({"a": 2, "b": 3}));
    check(
        "1-3 null",
        live.clone(),
        json!({"a": null, "zz": null, "l": null}),
        json!({"o": {"x": 1, "y": 2}}),
    );
    check(
        "1-4 recursion",
        live.clone(),
        json!({"o": {"x": 5, "z": 6}}),
        json!({"a": 1, "l": [1, 2], "o": {"x": 5, "y": 2, "z": 6}}),
    );
    check(
        "1-5 other kinds replace",
        json!({"o": {"x": 1}, "l": [1]}),
        json!({"o": [1], "l": {"y": null}}),
        json!({"o": [1], "l": {}}),
    );
    check("1-6 atomic list", json!({"l": [1, 2]}), json!({"l": [3]}), json!({"l": [3]}));
    check(
        "1-7 new object drops nulls",
        json!({}),
        json!({"o": {"x": null, "y": [{"z": null}]}}),
        json!({"o": {"y": [{}]}}),
    );
}

#[test]
fn directives_in_maps_replace_delete_or_merge() {
    let live = json!({"o": {"x": 1, "y": 2}});
    check("2-1 replace", live.clone(), json!({"o": {"$patch": "replace", "z": 3}}), json!({"o": {"z": 3}}));
    check("2-2 delete", live.clone(), json!({"o": {"$patch": "delete", "z": 3}}), json!({"o": {}}));
    check(
        "2-3 merge",
        live.clone(),
        json!({"o": {"$patch": "merge", "x": 3}}),
        json!({"o": {"x": 3, "y": 2}}),
    );
    check(
        "2-4 without a live map it is ignored",
        json!({}),
        json!({"o": {"$patch": "replace", "z": 3}}),
        json!({}),
    );
    check("2-5 at the top", live.clone(), json!({"$patch": "replace", "z": 3}), json!({"z": 3}));
    check(
        "2-6 retain keys",
        json!({"s": {"type": "A", "a": 1, "b": 2}}),
        json!({"s": {"$retainKeys": ["type", "b", "c"], "type": "B", "c": 3, "a": null}}),
        json!({"s": {"type": "B", "b": 2, "c": 3}}),
    );
}

#[test]
fn object_lists_are_merged_by_key() {
    let live = json!({"containers": [{"name": "a", "i": 1, "x": 1}, {"name": "b", "i": 2}]});
    check(
        "3-1 merged by key",
        live.clone(),
        json!({"containers": [{"name": "b", "i": 5, "j": 6}]}),
        json!({"containers": [{"name": "a", "i": 1, "x": 1}, {"name": "b", "i": 5, "j": 6}]}),
    );
    check(
        "3-2 new items come first",
        live.clone(),
        json!({"containers": [{"name": "c", "n": null}]}),
        json!({"containers": [{"name": "c"}, {"name": "a", "i": 1, "x": 1}, {"name": "b", "i": 2}]}),
    );
    check(
        "3-3 the patch's order wins",
        live.clone(),
        json!({"containers": [{"name": "b"}, {"name": "a", "x": null}]}),
        json!({"containers": [{"name": "b", "i": 2}, {"name": "a", "i": 1}]}),
    );
    check(
        "3-4 delete",
        live.clone(),
        json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "zz", "$patch": "delete"}]}),
        json!({"containers": [{"name": "b", "i": 2}]}),
    );
    check(
        "3-5 replace",
        live.clone(),
        json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
        json!({"containers": [{"name": "z"}]}),
    );
    check(
        "3-6 nested",
        json!({"containers": [{"name": "a", "ports": [{"port": 80, "p": 1}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"port": 80, "q": 2}, {"port": 443}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"port": 80, "p": 1, "q": 2}, {"port": 443}]}]}),
    );
    check(
        "3-7 new list drops directives",
        json!({}),
        json!({"containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}]}),
        json!({"containers": [{"name": "a"}]}),
    );
    check("3-8 both empty", json!({"containers": []}), json!({"containers": []}), json!({"containers": []}));
}

#[test]
fn scalar_lists_are_merged_as_sets() {
    for (name, live, patch, expected) in [
        ("4-1 new ones in front", vec!["b", "c"], vec!["a"], vec!["a", "b", "c"]),
        ("4-2 known ones stay", vec!["a", "b", "c"], vec!["d", "b"], vec!["d", "a", "b", "c"]),
        ("4-3 nothing new", vec!["a", "b"], vec!["b"], vec!["a", "b"]),
        ("4-4 the patch's order", vec!["a", "b"], vec!["b", "a"], vec!["b", "a"]),
    ] {
        check(
            name,
            json!({"finalizers": live}),
            json!({"finalizers": patch}),
            json!({"finalizers": expected}),
        );
    }
    let gone = json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]});
    check("4-5 deleted", json!({"finalizers": ["a", "b"]}), gone.clone(), json!({"finalizers": ["b"]}));
    check("4-6 nothing to delete from", json!({}), gone, json!({}));
    check(
        "4-7 deleted and added",
        json!({"finalizers": ["a", "b"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}),
        json!({"finalizers": ["c", "b"]}),
    );
}

#[test]
fn set_element_order_sorts_the_merged_list() {
    let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    let live = json!({"containers": named(&["a", "b", "c", "d"])});
    for (name, patch, expected) in [
        (
            "5-1 without a list",
            json!({"$setElementOrder/containers": named(&["d", "a"])}),
            named(&["b", "c", "d", "a"]),
        ),
        (
            "5-2 with a list",
            json!({"$setElementOrder/containers": named(&["c", "e", "b"]), "containers": named(&["e"])}),
            named(&["a", "c", "e", "b", "d"]),
        ),
        (
            "5-3 all of them",
            json!({"$setElementOrder/containers": named(&["d", "c", "b", "a"])}),
            named(&["d", "c", "b", "a"]),
        ),
        (
            "5-4 with a deletion",
            json!({
                "$setElementOrder/containers": named(&["d", "b"]),
                "containers": [{"name": "a", "$patch": "delete"}],
            }),
            named(&["c", "d", "b"]),
        ),
    ] {
        check(name, live.clone(), patch, json!({"containers": expected}));
    }
    check(
        "5-5 scalars",
        json!({"finalizers": ["a", "b", "c"]}),
        json!({"$setElementOrder/finalizers": ["c", "x", "a"], "finalizers": ["x"]}),
        json!({"finalizers": ["b", "c", "x", "a"]}),
    );
    check(
        "5-6 no list at all",
        json!({"k": 1}),
        json!({"$setElementOrder/containers": [{"name": "a"}]}),
        json!({"k": 1}),
    );
    check(
        "5-7 new list",
        json!({}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
    );
}

#[test]
fn invalid_patches_fail_with_upstream_code_and_text() {
    let live = json!({
        "containers": [{"name": "a"}, {"name": "b"}], "finalizers": ["a"], "o": {"x": 1}, "keyless": [{}],
        "bogus": {},
    });
    for (patch, code, text) in [
        (
            json!({"containers": [{"image": "x"}]}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "delete", "image": "x"}]}),
            500,
            "map: map[$patch:delete image:x] does not contain declared merge key: name",
        ),
        (
            json!({"o": {"$patch": "bogus", "y": 1}}),
            500,
            "unknown patch type: bogus in map: map[$patch:bogus y:1]",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "bogus"}]}),
            500,
            "unknown patch type: bogus in map: map[$patch:bogus name:a]",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "b"}, {"name": "a"}],
            }),
            500,
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}),
            500,
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (
            json!({"$setElementOrder/containers": "x"}),
            500,
            "expected a []interface {}, but received a string",
        ),
        (json!({"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list"),
        (
            json!({"$setElementOrder/bogus": []}),
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (json!({"bogus": {}}), 500, "unable to find api field in struct T for the json field \"bogus\""),
        (json!({"$deleteFromPrimitiveList": ["a"]}), 400, "invalid patch format of primitive list"),
        (json!({"o": {"$retainKeys": "x"}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"o": {"$retainKeys": ["x"], "y": 1}}),
            422,
            "the server rejected our request due to an error in our request",
        ),
        (json!({"finalizers": [["a"], "b"]}), 500, "list element types are not identical: [[a] [[a] b]]"),
        (json!({"keyless": [{}]}), 500, "cannot merge lists without merge key for type struct"),
    ] {
        let answer = merged(&live, &patch).unwrap_err().answer();
        assert_eq!((answer.code, answer.message.as_str()), (code, text), "{patch}");
    }
}

#[test]
fn malformed_patch_bodies_are_rejected_with_go_messages() {
    for (patch, text) in [
        ("", "unexpected end of JSON input"),
        (" ", "unexpected end of JSON input"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("\"x\"", "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ("{nope", "invalid character 'n' looking for beginning of object key string"),
    ] {
        assert_eq!(read(patch.as_bytes()), Err(text.to_owned()), "{patch}");
    }
    assert_eq!(read(b"null"), Ok(Map::new()));
}

/// Generates JSON objects from a few names, including directives.
fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "replace", "delete", "merge"]).prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "a",
        "name",
        "containers",
        "ports",
        "port",
        "finalizers",
        "$patch",
        "$retainKeys",
        "$setElementOrder",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList",
    ]);
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(keys.clone(), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    });
    value.prop_map(|value| if value.is_object() { value } else { json!({"containers": value}) })
}

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    let all = ["a", "b", "c", "d", "e"];
    prop::sample::subsequence(all.to_vec(), 0..=5).prop_shuffle()
}

proptest! {
    #[test]
    fn arbitrary_patches_never_panic(live in any_object(), patch in any_object()) {
        let _ = merged(&live, &patch);
    }

    #[test]
    fn applying_a_patch_twice_equals_applying_it_once(live in names(), patch in names()) {
        let patch = json!({"finalizers": patch});
        let once = merged(&json!({"finalizers": live}), &patch).unwrap();
        prop_assert_eq!(merged(&once, &patch), Ok(once));
    }

    #[test]
    fn patched_items_follow_the_patch_and_others_the_live_order(live in names(), patch in names()) {
        let result = merged(&json!({"finalizers": live}), &json!({"finalizers": patch})).unwrap();
        let result: Vec<&str> =
            result["finalizers"].as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect();
        // Items in the patch have the patch's order, and the others stay in the live order.
        let named: Vec<_> = result.iter().copied().filter(|item| patch.contains(item)).collect();
        prop_assert_eq!(&named, &patch);
        let rest: Vec<_> = result.iter().copied().filter(|item| !patch.contains(item)).collect();
        let expected: Vec<_> = live.iter().copied().filter(|item| !patch.contains(item)).collect();
        prop_assert_eq!(rest, expected);
    }
}
