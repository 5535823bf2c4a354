#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn patched(patch: &Value) -> Result<Value, ApiError> {
    let document = json!({"data": {"k": "v"}, "list": [1, 2], "nothing": null});
    apply(document, patch.to_string().as_bytes()).map(|patched| patched.document)
}

#[test]
fn operations_are_applied_like_upstream() {
    for (patch, pointer, expected) in [
        (json!(null), "/data", json!({"k": "v"})),
        (json!([]), "/data", json!({"k": "v"})),
        (json!([{"op": "add", "path": "/data/z", "value": 1}]), "/data/z", json!(1)),
        (json!([{"op": "add", "path": "/data/z"}]), "/data", json!({"k": "v", "z": null})),
        (json!([{"op": "add", "path": "/data/a~1b~0c", "value": 1}]), "/data", json!({"k": "v", "a/b~c": 1})),
        (json!([{"op": "add", "path": "odd/z", "value": 1}]), "/z", json!(1)),
        (json!([{"op": "add", "path": "/", "value": 1}]), "/", json!(1)),
        (json!([{"op": "add", "path": "/list/1", "value": 9}]), "/list", json!([1, 9, 2])),
        (json!([{"op": "add", "path": "/list/2", "value": 9}]), "/list", json!([1, 2, 9])),
        (json!([{"op": "add", "path": "/list/-", "value": 9}]), "/list", json!([1, 2, 9])),
        (json!([{"op": "add", "path": "/list/-1", "value": 9}]), "/list", json!([1, 2, 9])),
        (json!([{"op": "replace", "path": "/data/nope", "value": 1}]), "/data/nope", json!(1)),
        (json!([{"op": "replace", "path": "/list/-1", "value": 9}]), "/list", json!([1, 9])),
        (json!([{"op": "remove", "path": "/data/k"}]), "/data", json!({})),
        (json!([{"op": "remove", "path": "/list/0"}]), "/list", json!([2])),
        (json!([{"op": "move", "from": "/data/k", "path": "/list/0"}]), "/list", json!(["v", 1, 2])),
        (json!([{"op": "copy", "from": "/data", "path": "/data/c"}]), "/data/c", json!({"k": "v"})),
        (json!([{"op": "test", "path": "/data/k", "value": "v"}]), "/data/k", json!("v")),
        (json!([{"op": "test", "path": "/data/nope", "value": null}]), "/data/k", json!("v")),
        (json!([{"op": "test", "path": "/nothing"}]), "/data/k", json!("v")),
        (
            json!([{"op": "add", "path": "/n", "value": {}}, {"op": "add", "path": "/n/m", "value": [0]},
                {"op": "replace", "path": "/n/m/0", "value": 5}]),
            "/n",
            json!({"m": [5]}),
        ),
    ] {
        let document = patched(&patch).unwrap_or_else(|error| panic!("{patch}: {error}"));
        assert_eq!(document.pointer(pointer), Some(&expected), "{patch}");
    }
}

/// 23 KB of a patch would become 400 MB: an object with one member is 7 bytes of JSON, and about 600 in memory.
#[test]
fn weight_of_copied_values_is_limited() {
    let small = json!([{"": 0}]);
    let list = |count: usize| Value::Array(vec![small[0].clone(); count]);
    for (case, items, copies, is_accepted) in [
        ("1 a few values", 10, 3, true),
        ("2 up to the limit", 1000, 5, true),
        ("3 many copies", 1000, 6, false),
        ("4 one long list", 6000, 1, false),
    ] {
        let mut patch = vec![json!({"op": "add", "path": "/x", "value": list(items)})];
        patch.extend((0..copies).map(|i| json!({"op": "copy", "from": "/x", "path": format!("/y{i}")})));
        match patched(&Value::Array(patch)) {
            Ok(document) => {
                assert!(is_accepted, "{case}");
                assert_eq!(document[format!("y{}", copies - 1)], list(items), "{case}");
            }
            Err(error) => assert_eq!((is_accepted, error.code), (false, 413), "{case}: {error}"),
        }
    }
}

#[test]
fn inapplicable_operations_are_unprocessable() {
    for operation in [
        json!(null),
        json!({}),
        json!({"op": "frob", "path": "/data/k"}),
        json!({"op": "add", "value": 1}),
        json!({"op": "add", "path": "", "value": 1}),
        json!({"op": "add", "path": "/data/x/y", "value": 1}),
        json!({"op": "add", "path": "/data/k/y", "value": 1}),
        json!({"op": "add", "path": "/nothing/y", "value": 1}),
        json!({"op": "add", "path": "/list/4", "value": 1}),
        json!({"op": "add", "path": "/list/x", "value": 1}),
        json!({"op": "add", "path": "/list/-4", "value": 1}),
        json!({"op": "replace", "path": "/list/2", "value": 1}),
        json!({"op": "replace", "path": "/list/-", "value": 1}),
        json!({"op": "replace", "path": "/x/y", "value": 1}),
        json!({"op": "remove", "path": ""}),
        json!({"op": "remove", "path": "/data/nope"}),
        json!({"op": "remove", "path": "/list/2"}),
        json!({"op": "move", "from": "/data/nope", "path": "/z"}),
        json!({"op": "copy", "from": "/list/7", "path": "/z"}),
        json!({"op": "test", "path": "/data/k", "value": "w"}),
        json!({"op": "test", "path": "/data/nope", "value": "w"}),
        json!({"op": "test", "path": "", "value": {}}),
    ] {
        let error = patched(&json!([operation])).unwrap_err();
        assert_eq!((error.code, error.reason), (422, "Invalid"), "{operation}");
    }
}

#[test]
fn malformed_patches_are_bad_requests() {
    for (patch, expected) in [
        ("", "unexpected end of JSON input"),
        ("{}", "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("[\"x\"]", "json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        ("[{\"op\":5}]", "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ] {
        let error = apply(json!({}), patch.as_bytes()).unwrap_err();
        assert_eq!(error.message, format!("error decoding patch: {expected}"), "{patch}");
        assert_eq!(error.code, 400, "{patch}");
    }
}

#[test]
fn unknown_members_are_reported_as_warnings() {
    let patch = json!([{"op": "test", "path": "/a"}, {"op": "test", "path": "/a", "bogus": 1}]);
    let patched = apply(json!({}), patch.to_string().as_bytes()).unwrap();
    assert_eq!(patched.warnings, ["json patch unknown field \"[1].bogus\""]);
}

#[test]
fn more_than_10000_operations_are_rejected() {
    let patch = Value::from(vec![json!({"op": "test", "path": "/a"}); 10_001]);
    let error = apply(json!({}), patch.to_string().as_bytes()).unwrap_err();
    let text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!((error.code, error.message.as_str()), (413, text));
}

/// Small patches must not produce huge documents through repeated copies or ever longer paths.
#[test]
fn document_growth_is_limited() {
    let repeat = |operation: Value, times: usize| Value::from(vec![operation; times]);
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let long = |levels: usize| format!("/a{}", "/0".repeat(levels));
    let nested = |levels: usize| {
        serde_json::from_str::<Value>(&format!("{}0{}", "[".repeat(levels), "]".repeat(levels)))
    };
    let deeper: Vec<Value> = (0..100)
        .map(|step| json!({"op": "add", "path": long(1 + step * 100), "value": nested(100).unwrap()}))
        .collect();
    let mut around = Vec::new();
    for _ in 0..3000 {
        around.push(json!({"op": "add", "path": "/b", "value": {}}));
        around.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        around.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    let mut swaps = vec![json!({"op": "add", "path": "/a/0", "value": nested(100).unwrap()})];
    for _ in 0..2000 {
        swaps.push(json!({"op": "move", "from": "/a", "path": "/o/a"}));
        swaps.push(json!({"op": "move", "from": "/o/a", "path": "/a"}));
    }
    for (case, patch, want) in [
        ("1 a few copies", repeat(double.clone(), 10), Ok(())),
        ("2 many copies", repeat(double, 100), Err(413)),
        ("3 paths that grow", Value::from(deeper), Err(422)),
        ("4 moves that grow", Value::from(around), Err(422)),
        ("5 moves here and there", Value::from(swaps), Ok(())),
    ] {
        let document = json!({"a": [1, 2, 3], "o": {}});
        let got = apply(document, patch.to_string().as_bytes());
        let got = got.map(|patched| assert!(patched.document.to_string().len() < 10 << 20));
        assert_eq!(got.map_err(|error| error.code), want, "{case}");
    }
}

proptest! {
    /// Where the RFC and upstream agree, results are compared with those of the crate that implements the RFC.
    /// Patches that the crate rejects are skipped, because its rollback can panic.
    #[test]
    fn patches_within_the_rfc_match_the_reference_crate(
        operations in prop::collection::vec((0..6usize, 0..5usize, 0..5usize, 0..4i64), 0..8),
    ) {
        let pointers = ["/a", "/b", "/l/0", "/l/1", "/o/x"];
        let names = ["add", "remove", "replace", "move", "copy", "test"];
        let operations: Vec<Value> = operations.into_iter().map(|(op, path, from, value)| json!({
            "op": names[op], "path": pointers[path], "from": pointers[from], "value": value,
        })).collect();
        let document = json!({"a": 1, "b": 2, "l": [1, 2, 3], "o": {"x": 1}});
        let patch = Value::from(operations);
        let mut expected = document.clone();
        let standard: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
        if json_patch::patch_unsafe(&mut expected, &standard).is_ok() {
            let patched = apply(document, patch.to_string().as_bytes()).unwrap();
            prop_assert_eq!(patched.document, expected, "{}", patch);
        }
    }

    #[test]
    fn arbitrary_paths_never_panic(path in "[/ab0-9~-]{0,6}", from in "[/ab0-9~-]{0,6}", op in 0..6usize) {
        let name = ["add", "remove", "replace", "move", "copy", "test"][op];
        let patch = json!([{"op": name, "path": path, "from": from, "value": [0]}]);
        let _ = apply(json!({"a": [1, {"b": 2}], "b": 1}), patch.to_string().as_bytes());
    }
}

#[test]
fn patch_that_moves_too_many_items_is_rejected() {
    let list = vec![0; 200_000];
    let front: Vec<Value> = vec![json!({"op": "add", "path": "/a/0", "value": 1}); 1_000];
    let back: Vec<Value> = vec![json!({"op": "add", "path": "/a/-", "value": 1}); 1_000];
    let removals: Vec<Value> = vec![json!({"op": "remove", "path": "/a/0"}); 1_000];
    let codes = [front, removals, back].map(|operations| {
        let patch = Value::Array(operations).to_string();
        apply(json!({"a": list}), patch.as_bytes()).map_or_else(|error| error.code, |_| 200)
    });
    assert_eq!(codes, [413, 413, 200]);
}

#[test]
fn patch_whose_depth_is_measured_too_often_is_rejected() {
    // Each move may have deepened the document by 90 levels, so its depth is measured after every second one.
    let mut deep = json!({});
    for _ in 0..90 {
        deep = json!({"a": deep});
    }
    let document = json!({"a": deep, "x": 1, "long": vec![0; 200_000]});
    let down = "/a".repeat(91);
    let there = json!({"op": "move", "from": "/x", "path": format!("{down}/x")});
    let back = json!({"op": "move", "from": format!("{down}/x"), "path": "/x"});
    let patch = Value::Array([there, back].iter().cycle().take(4_000).cloned().collect()).to_string();
    assert_eq!(apply(document, patch.as_bytes()).map_or_else(|error| error.code, |_| 200), 413);
}

#[test]
fn copies_are_measured_before_they_are_made() {
    let long = "x".repeat(COPIED_MAX / 2);
    let copy = |n: usize| json!({"op": "copy", "from": "/a", "path": format!("/b{n}")});
    for (copies, want) in [(1, 200), (2, 422)] {
        let patch: Value = (0..copies).map(copy).collect();
        let patched = apply(json!({"a": long}), patch.to_string().as_bytes());
        assert_eq!(patched.map_or_else(|error| error.code, |_| 200), want, "{copies}");
    }
}

#[test]
fn patch_of_too_many_operations_gets_no_warnings() {
    let patch: Value = (0..=OPERATIONS_MAX).map(|_| json!({"bogus": [], "op": 1})).collect();
    let error = apply(json!({}), patch.to_string().as_bytes()).map(|patched| patched.warnings).unwrap_err();
    assert_eq!(error.code, 413);
}
