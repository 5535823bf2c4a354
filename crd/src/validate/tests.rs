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
            "8 int or string",
            json!({"port": {"x-kubernetes-int-or-string": true}}),
            json!({"port": true}),
            vec![
                "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \
                 \"boolean\"",
            ],
        ),
        (
            "9 null",
            json!({"a": whole("string"), "b": {"type": "string", "nullable": true}}),
            json!({"a": null, "b": null}),
            vec!["spec.a: Invalid value: \"null\": spec.a in body must be of type string: \"null\""],
        ),
        (
            "10 one of",
            json!({"a": {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}}),
            json!({"a": {"x": 1, "y": 1}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.a\" must validate one and only one schema (oneOf). Found 2 \
                 valid alternatives",
            ],
        ),
        (
            "11 any of, with the nearest miss",
            json!({"a": {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y", "z"]}]}}),
            json!({"a": {}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.a\" must validate at least one schema (anyOf)",
                "spec.a.x: Required value",
            ],
        ),
        (
            "12 not",
            json!({"a": {"type": "string", "not": {"enum": ["x"]}}}),
            json!({"a": "x"}),
            vec!["<nil>: Invalid value: \"\": \"spec.a\" must not validate the schema (not)"],
        ),
        (
            "13 counts",
            json!({"l": {"type": "array", "maxItems": 1}, "m": {"type": "object", "minProperties": 1}}),
            json!({"l": [1, 2], "m": {}}),
            vec![
                "spec.l: Too many: 2: must have at most 1 items",
                "spec.m: Invalid value: {}: spec.m in body should have at least 1 properties",
            ],
        ),
        (
            "14 format",
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

/// Validates a value that would take hours if each part of the schema were applied to each part of the value.
fn assert_bounded(case: &str, schema: Value, value: Value, want: Option<&str>) {
    let schema = Schema::of(&spec(schema));
    let begun = orlop_apimachinery::thread_time::ThreadTime::start();
    let mut errors = FieldErrors::new();
    // Fewer steps than usual, because this is a debug build.
    let steps = Steps::new(STEPS / 20);
    validate_within(&steps, &schema, &Path::default(), &json!({"spec": value}), None, &mut errors);
    let found = errors.causes().first().map(|cause| format!("{}: {}", cause.field, cause.message));
    assert_eq!(found.as_deref(), want, "{case}");
    let spent = begun.spent().as_secs_f64();
    assert!(spent < 2.0, "{case}: {spent} s");
}

const TOO_MANY_STEPS: Option<&str> = Some("<nil>: Invalid value: the validation takes too many steps");

#[test]
fn long_keys_are_not_copied_for_each_item() {
    let schema = |items: Value| json!({"m": {"type": "object", "additionalProperties": {"type": "array", "items": items}}});
    let value = |item: Value| json!({"m": {"k".repeat(1 << 20): vec![item; 100_000]}});
    assert_bounded("1 valid", schema(json!({"type": "integer"})), value(json!(0)), None);
    let begun = orlop_apimachinery::thread_time::ThreadTime::start();
    assert_eq!(
        errors(&spec(schema(json!({"type": "integer"}))), &json!({"spec": value(json!("x"))}), None).len(),
        1
    );
    assert!(begun.spent().as_secs() < 2, "{:?}", begun.spent());
    let any = json!({"type": "integer", "anyOf": [{"minimum": 1}, {"maximum": 1}]});
    assert_bounded("2 a part does not fit", schema(any), value(json!(0)), TOO_MANY_STEPS);
}

#[test]
fn products_of_schema_and_value_are_bounded() {
    let list = |items: Value| json!({"l": {"type": "array", "items": items}});
    let allowed: Vec<usize> = (0..20_000).collect();
    let schema = list(json!({"type": "integer", "enum": allowed}));
    assert_bounded("1 enum", schema, json!({"l": vec![19_999; 20_000]}), None);
    let names: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    let schema = list(json!({"type": "object", "required": names}));
    assert_bounded(
        "2 required",
        schema,
        json!({"l": vec![json!({}); 20_000]}),
        Some("spec.l[0].0: Required value"),
    );
    let part = json!({"required": ["x"], "properties": {"l": {"items": {"maxLength": 9}}}});
    let parts = vec![part; 2_000];
    for name in ["anyOf", "oneOf", "allOf"] {
        let schema = json!({"o": {"type": "object", name: parts, "properties": {
            "l": {"type": "array", "items": {"type": "string"}}}}});
        let value = json!({"o": {"l": vec!["x"; 50_000]}});
        assert_bounded(name, schema, value, TOO_MANY_STEPS);
    }
    let schema = json!({"t": {"type": "string", "pattern": "[ab]*a[ab]{900}c"}});
    assert_bounded("3 pattern", schema, json!({"t": "ab".repeat(1_000_000)}), TOO_MANY_STEPS);
}

#[test]
fn errors_of_parts_cost_more_steps_than_fitting_parts() {
    let schema = |parts: Vec<Value>| Schema::of(&json!({"type": "string", "not": {"anyOf": parts}}));
    let failing = schema((0..30).map(|n| json!({"enum": [format!("z{n}")]})).collect());
    let fitting = schema((0..30).map(|n| json!({"minLength": n})).collect());
    for (schema, want) in [(failing, "the validation takes too many steps"), (fitting, "must not validate")] {
        let mut errors = FieldErrors::new();
        validate_within(&Steps::new(500), &schema, &Path::default(), &json!("x"), None, &mut errors);
        let found: Vec<&str> = errors.causes().iter().map(|cause| cause.message.as_str()).collect();
        assert!(found.iter().any(|found| found.contains(want)), "{want}: {found:?}");
    }
}

#[test]
fn first_fitting_part_of_any_of_ends_the_search() {
    let parts: Vec<Value> = (0..100).map(|n| json!({"minLength": n})).collect();
    let schema = Schema::of(&json!({"type": "string", "anyOf": parts}));
    let (steps, mut errors) = (Steps::new(10), FieldErrors::new());
    validate_within(&steps, &schema, &Path::default(), &json!("x"), None, &mut errors);
    assert_eq!(errors.len(), 0);
    assert!(steps.take(7).is_ok());
}
