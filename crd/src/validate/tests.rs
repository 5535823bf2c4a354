use serde_json::json;

use super::*;

fn errors(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate(&Schema::of(schema), &Path::default(), value, old, &mut errors);
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

fn spec(schema: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": schema}}})
}

#[test]
fn schema_violations_are_reported() {
    let whole = |ty: &str| json!({"type": ty});
    let cases: Vec<(&str, Value, Value, Vec<&str>)> = vec![
        (
            "1 type",
            json!({"size": whole("integer")}),
            json!({"size": "x"}),
            vec![
                "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            ],
        ),
        ("2 whole numbers fit", json!({"size": whole("integer")}), json!({"size": 3.0}), vec![]),
        (
            "3 maximum",
            json!({"size": {"type": "integer", "maximum": 10}}),
            json!({"size": 99}),
            vec!["spec.size: Invalid value: 99: spec.size in body should be less than or equal to 10"],
        ),
        (
            "4 minimum, exclusive",
            json!({"size": {"type": "number", "minimum": 1, "exclusiveMinimum": true}}),
            json!({"size": 1}),
            vec!["spec.size: Invalid value: 1: spec.size in body should be greater than 1"],
        ),
        (
            "5 enum",
            json!({"color": {"type": "string", "enum": ["red", "blue"]}}),
            json!({"color": "green"}),
            vec!["spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""],
        ),
        (
            "6 pattern and length",
            json!({"n": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}}),
            json!({"n": "ABCD"}),
            vec![
                "spec.n: Invalid value: \"ABCD\": spec.n in body should match '^[a-z]+$'",
                "spec.n: Too long: may not be more than 3 bytes",
            ],
        ),
        (
            "7 required in a list",
            json!({"items": {"type": "array", "items": {"type": "object", "required": ["name"]}}}),
            json!({"items": [{"name": "a"}, {}]}),
            vec!["spec.items[1].name: Required value"],
        ),
        (
            "8 keys of a list stand there once",
            json!({"items": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object"}}}),
            json!({"items": [{"name": "x", "v": 1}, {"name": "x"}]}),
            vec!["spec.items[1]: Duplicate value: {\"name\":\"x\"}"],
        ),
        (
            "9 sets",
            json!({"items": {"type": "array", "x-kubernetes-list-type": "set", "items": whole("string")}}),
            json!({"items": ["a", "b", "a"]}),
            vec!["spec.items[2]: Duplicate value: \"a\""],
        ),
        (
            "10 int or string",
            json!({"port": {"x-kubernetes-int-or-string": true}}),
            json!({"port": true}),
            vec![
                "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \
                 \"boolean\"",
            ],
        ),
        (
            "11 null",
            json!({"a": whole("string"), "b": {"type": "string", "nullable": true}}),
            json!({"a": null, "b": null}),
            vec!["spec.a: Invalid value: \"null\": spec.a in body must be of type string: \"null\""],
        ),
        (
            "12 one of",
            json!({"a": {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}}),
            json!({"a": {"x": 1, "y": 1}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.a\" must validate one and only one schema (oneOf). Found 2 \
                 valid alternatives",
            ],
        ),
        (
            "13 any of, with the nearest miss",
            json!({"a": {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y", "z"]}]}}),
            json!({"a": {}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.a\" must validate at least one schema (anyOf)",
                "spec.a.x: Required value",
            ],
        ),
        (
            "14 not",
            json!({"a": {"type": "string", "not": {"enum": ["x"]}}}),
            json!({"a": "x"}),
            vec!["<nil>: Invalid value: \"\": \"spec.a\" must not validate the schema (not)"],
        ),
        (
            "15 counts",
            json!({"l": {"type": "array", "maxItems": 1}, "m": {"type": "object", "minProperties": 1}}),
            json!({"l": [1, 2], "m": {}}),
            vec![
                "spec.l: Too many: 2: must have at most 1 items",
                "spec.m: Invalid value: {}: spec.m in body should have at least 1 properties",
            ],
        ),
        (
            "16 embedded objects",
            json!({"o": {"type": "object", "x-kubernetes-embedded-resource": true}}),
            json!({"o": {"kind": "K"}}),
            vec!["spec.o.apiVersion: Required value: must not be empty"],
        ),
        (
            "17 format",
            json!({"at": {"type": "string", "format": "date-time"}}),
            json!({"at": "now"}),
            vec!["spec.at: Invalid value: \"now\": spec.at in body must be of type date-time: \"now\""],
        ),
    ];
    for (case, schema, given, want) in cases {
        assert_eq!(errors(&spec(schema), &json!({"spec": given}), None), want, "{case}");
    }
}

#[test]
fn unchanged_values_are_not_validated_again() {
    let schema = spec(json!({
        "size": {"type": "integer", "maximum": 10},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
              "items": {"type": "object", "properties": {"v": {"type": "integer", "maximum": 1}}}},
    }));
    let old = json!({"spec": {"size": 99, "l": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}});
    for (case, new, want) in [
        ("1 same", json!({"size": 99, "x": 1, "l": [{"k": "b", "v": 1}, {"k": "a", "v": 5}]}), 0),
        ("2 changed", json!({"size": 98}), 1),
        ("3 one item changed", json!({"l": [{"k": "a", "v": 5}, {"k": "b", "v": 6}]}), 1),
        ("4 a new item", json!({"l": [{"k": "c", "v": 5}]}), 1),
    ] {
        assert_eq!(errors(&schema, &json!({"spec": new}), Some(&old)).len(), want, "{case}");
    }
}

#[test]
fn items_of_long_lists_match_their_old_items_by_key() {
    let item = json!({"type": "object", "properties": {"k": {"type": "integer"}, "v": {"type": "integer", "maximum": 5}}});
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
    let schema = spec(json!({ "list": list }));
    let items = |order: &mut dyn Iterator<Item = i64>, odd: i64| -> Value {
        let list: Vec<Value> =
            order.map(|k| json!({"k": k, "v": if k % 2 == 1 { odd } else { 1 }})).collect();
        json!({"spec": {"list": list}})
    };
    let (old, new) = (items(&mut (0..9000), 9), items(&mut (0..9000).rev(), 9));
    let begun = orlop_apimachinery::thread_time::ThreadTime::start();
    assert_eq!(errors(&schema, &new, Some(&old)), Vec::<String>::new(), "what was bad may stay so");
    let bad = items(&mut (0..9000).rev(), 8);
    assert!(!errors(&schema, &bad, Some(&old)).is_empty(), "and not become bad in another way");
    let took = begun.spent();
    assert!(took.as_secs() < 8, "each item looked at all the others: {took:?}");
}
