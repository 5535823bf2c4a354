use serde_json::json;

use super::*;

fn texts(schema: &Value) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate(schema, &Path::new("s"), &mut Work::new(), &mut errors);
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

fn of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn structural_schemas_are_accepted() {
    for (case, schema) in [
        ("1 nothing", json!({"type": "object"})),
        ("2 open", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        (
            "3 either",
            of(json!({"port": {"x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}]}})),
        ),
        ("11 closed", of(json!({"a": {"type": "object", "additionalProperties": false}}))),
        ("4 untyped and kept", of(json!({"any": {"x-kubernetes-preserve-unknown-fields": true}}))),
        (
            "5 judged, not formed",
            of(json!({"a": {"type": "object", "properties": {"b": {"type": "string"}},
            "oneOf": [{"required": ["b"]}, {"properties": {"b": {"enum": ["x"]}}}]}})),
        ),
        (
            "6 keys",
            of(json!({"l": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k", "p"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}}}}})),
        ),
        (
            "7 names",
            of(
                json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}}}),
            ),
        ),
        (
            "8 rules",
            of(json!({"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}})),
        ),
        (
            "10 either, with a type",
            of(json!({"size": {"type": "string", "x-kubernetes-int-or-string": true, "pattern": "^[0-9]+$",
                "anyOf": [{"type": "integer"}, {"type": "string"}]}})),
        ),
        (
            "9 defaults",
            of(
                json!({"a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}}),
            ),
        ),
    ] {
        assert_eq!(texts(&schema), Vec::<String>::new(), "{case}");
    }
}

#[test]
fn invalid_schemas_are_rejected() {
    for (case, schema, want) in [
        ("1 no type", json!({}), "s.type: Required value: must not be empty at the root"),
        (
            "2 another type",
            json!({"type": "array", "items": {"type": "string"}}),
            "s.type: Invalid value: \"array\": must be object at the root",
        ),
        (
            "3 a field without",
            of(json!({"a": {}})),
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            "4 an item without",
            of(json!({"a": {"type": "array", "items": {}}})),
            "s.properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            "5 a list of nothing",
            of(json!({"a": {"type": "array"}})),
            "s.properties[a].items: Required value: must be specified",
        ),
        (
            "6 both",
            of(
                json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}),
            ),
            "s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            "8 unique",
            of(json!({"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}})),
            "uniqueItems cannot be set to true",
        ),
        (
            "9 reference",
            of(json!({"a": {"type": "object", "$ref": "#/x"}})),
            "s.properties[a].$ref: Forbidden: $ref is not supported",
        ),
        (
            "10 pattern",
            of(json!({"a": {"type": "string", "pattern": "("}})),
            "must be a valid regular expression, but isn't",
        ),
        (
            "11 a type within",
            of(json!({"a": {"type": "object", "oneOf": [{"type": "object"}]}})),
            "s.properties[a].oneOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            "12 a property within",
            of(json!({"a": {"type": "object", "allOf": [{"properties": {"x": {"minLength": 1}}}]}})),
            "s.properties[a].properties[x]: Required value: because it is defined in s.properties[a].allOf[0].properties[x]",
        ),
        (
            "13 keys of nothing",
            of(json!({"l": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}})),
            "x-kubernetes-list-map-keys: Required value",
        ),
        (
            "14 a key that may miss",
            of(
                json!({"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}),
            ),
            "must have a default or be a required property",
        ),
        (
            "15 list type of no list",
            of(json!({"a": {"type": "string", "x-kubernetes-list-type": "set"}})),
            "must be array if x-kubernetes-list-type is specified",
        ),
        (
            "16 a set of objects",
            of(json!({"a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}})),
            "must be atomic as item of a list",
        ),
        (
            "17 metadata",
            of(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
            "must not specify anything other than name and generateName",
        ),
        (
            "18 a default that does not fit",
            of(json!({"a": {"type": "integer", "default": "x"}})),
            "s.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            "19 a default with more",
            of(json!({"a": {"type": "object", "default": {"z": 1}}})),
            "s.properties[a].default: Invalid value: {\"z\":1}: must not have unknown fields",
        ),
        (
            "21 an unknown type",
            of(json!({"a": {"type": "text"}})),
            "s.properties[a].type: Unsupported value: \"text\"",
        ),
        (
            "22 untraceable",
            of(
                json!({"l": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}),
            ),
            "uncorrelatable",
        ),
        (
            "24 nullable",
            json!({"type": "object", "nullable": true}),
            "s.nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            "25 a set of maps",
            of(json!({"a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}})),
            "s.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list",
        ),
        (
            "26 a default of the name",
            of(json!({"metadata": {"type": "object", "default": {}}})),
            "s.properties[metadata].default: Forbidden: must not be set in top-level metadata",
        ),
        (
            "23 an embedded nothing",
            of(json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true}})),
            "s.properties[a].properties: Required value",
        ),
    ] {
        let found = texts(&schema);
        assert!(found.len() == 1 && found[0].contains(want), "{case}: {found:#?}");
    }
}

#[test]
fn schemas_that_are_too_deep_or_too_large_are_rejected() {
    let mut deep = json!({"type": "object"});
    for _ in 0..100 {
        deep = of(json!({"a": deep}));
    }
    assert!(texts(&deep)[0].contains("nested more than"), "{:?}", texts(&deep));
    let many: serde_json::Map<String, Value> =
        (0..MAX_NODES).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    assert!(texts(&of(many.into()))[0].contains("may not have more than"));
}

#[test]
fn all_versions_share_the_number_of_parts() {
    let many = |n: usize| -> serde_json::Map<String, Value> {
        (0..n).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect()
    };
    let schema = of(many(MAX_NODES - 1).into());
    let (mut work, mut errors) = (Work::new(), FieldErrors::new());
    for (version, want) in [0, 0, 1].into_iter().enumerate() {
        validate(&schema, &Path::new("s"), &mut work, &mut errors);
        assert_eq!(errors.len(), want, "{version}");
    }
    let pattern = json!({"type": "string", "pattern": r"(?i)\w\w\w\w\w\w\w\w\w\w"});
    let patterns: serde_json::Map<String, Value> =
        (0..200).map(|at| (format!("p{at}"), pattern.clone())).collect();
    assert!(texts(&of(patterns.into()))[0].contains("may not have more than"));
}

#[test]
fn keys_of_lists_are_checked_in_linear_time() {
    let schema = |n: usize| {
        let keys: Vec<String> = (0..n).map(|n| format!("k{n}")).collect();
        let properties: serde_json::Map<String, Value> =
            keys.iter().map(|key| (key.clone(), json!({"type": "string"}))).collect();
        of(json!({"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "required": keys, "properties": properties}}}))
    };
    orlop_apimachinery::thread_time::assert_linear("list keys", 500, schema, |schema| {
        assert_eq!(texts(schema), Vec::<String>::new());
    });
}

#[test]
fn nested_levels_with_defaults_do_not_compile_patterns_again() {
    let schema = |levels: usize| {
        let patterns: serde_json::Map<String, Value> = (0..100)
            .map(|at| (format!("p{at}"), json!({"type": "string", "pattern": format!("^[a-z]{at}$")})))
            .collect();
        let mut schema = of(patterns.into());
        for _ in 0..levels {
            schema["default"] = json!({});
            schema = of(json!({"a": schema}));
        }
        schema
    };
    let spent = |levels: usize| {
        let schema = schema(levels);
        let started = orlop_apimachinery::thread_time::ThreadTime::start();
        assert_eq!(texts(&schema), Vec::<String>::new());
        started.spent().as_secs_f64()
    };
    let (one, many) = (spent(1), spent(40));
    assert!(many < 5.0 * one, "1 level {one} s, 40 levels {many} s");
}

#[test]
fn nested_defaults_do_not_multiply() {
    let mut schema = json!({"type": "object"});
    for _ in 0..12 {
        let list = json!({"type": "array", "default": vec![json!({}); 10], "items": schema});
        schema = of(json!({"p": list}));
    }
    let started = orlop_apimachinery::thread_time::ThreadTime::start();
    let found = texts(&schema);
    assert!(found[0].contains("Forbidden: the defaults are too large"), "{found:?}");
    assert!(started.spent().as_secs() < 3, "{:?}", started.spent());
}

const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
const CONTRIBUTED: &str =
    "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";

/// Tags whose items have a rule, in an object of the given name.
fn tags(rule: &str, limits: Value) -> Value {
    let mut tags =
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": rule}]});
    for (name, limit) in members(&limits) {
        match name.as_str() {
            "maxItems" => tags[name] = limit.clone(),
            _ => tags["items"][name] = limit.clone(),
        }
    }
    tags
}

#[test]
fn rule_whose_estimated_cost_exceeds_the_limit_is_rejected() {
    let rule = "self.all(x, x.contains('gpu'))";
    assert_eq!(
        texts(&of(json!({"tags": tags(rule, json!({}))}))),
        [
            format!(
                "s.properties[tags].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}"
            ),
            format!("s.properties[tags].x-kubernetes-validations[0].rule: {CONTRIBUTED}"),
            format!(
                "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {ADVICE}"
            ),
        ]
    );
    assert_eq!(texts(&of(json!({"tags": tags(rule, json!({"maxItems": 100, "maxLength": 100}))}))), [""; 0]);
    // An item costs 4, and a tenth of the bytes of its text: 4 for each character.
    let close = tags(rule, json!({"maxItems": 10_000, "maxLength": 3_000}));
    assert_eq!(
        texts(&of(json!({"tags": close}))),
        [format!(
            "s.properties[tags].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 1.204000x {ADVICE}"
        )]
    );
}

/// The bounds were measured with the validation of Kubernetes 1.36.
#[test]
fn longest_accepted_lists_are_those_of_upstream() {
    for (length, items) in [(16, 909_090), (63, 333_333), (253, 94_339), (1_024, 24_154)] {
        let limited = |items: u64| {
            tags("self.all(x, x.contains('gpu'))", json!({"maxItems": items, "maxLength": length}))
        };
        assert_eq!(texts(&of(json!({"tags": limited(items)}))), [""; 0], "{length}");
        assert_eq!(texts(&of(json!({"tags": limited(items + 1)}))).len(), 1, "{length}");
    }
}

#[test]
fn estimated_cost_counts_the_values_that_have_a_rule() {
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}]});
    // 3 MiB hold 1,048,576 strings, each costs 2.
    assert_eq!(texts(&of(json!({"l": {"type": "array", "items": item}}))), [""; 0]);
    let long = json!({"type": "string", "maxLength": 100,
        "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}]});
    let found = texts(&of(json!({"l": {"type": "array", "items": long}})));
    assert!(found[0].contains("l].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 8.7x"), "{found:?}");
    assert_eq!(texts(&of(json!({"l": {"type": "array", "maxItems": 1_000, "items": long}}))), [""; 0]);
    let twice = json!({"type": "object", "maxProperties": 1_000, "additionalProperties": {"type": "array", "maxItems": 1_000, "items": long}});
    let found = texts(&of(json!({"m": twice})));
    assert!(found[0].contains("by factor of 8.3x"), "{found:?}");
}

#[test]
fn rules_for_values_without_a_type_are_rejected() {
    let rules = json!([{"rule": "true"}]);
    for schema in [
        json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": rules}),
        json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}, "x-kubernetes-validations": rules}),
    ] {
        let found = texts(&of(json!({"v": schema})));
        assert!(found.len() == 1 && found[0].contains("unable to convert structural schema"), "{found:?}");
    }
}

#[test]
fn rules_of_a_root_may_use_its_name() {
    let mut schema = of(json!({"metadata": {"type": "object"}}));
    schema["x-kubernetes-validations"] = json!([{"rule": "self.metadata.name == 'cluster'"}]);
    assert_eq!(texts(&schema), [""; 0]);
}

#[test]
fn costs_of_all_rules_are_added() {
    let rule = "self.all(x, x.contains('gpu'))";
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let close = tags(rule, json!({"maxItems": 10_000, "maxLength": 2_450}));
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), close.clone())).collect();
    let found = texts(&of(Value::Object(properties)));
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[..4].iter().all(|text| text.ends_with(CONTRIBUTED)), "{found:?}");
    assert!(
        found[4].starts_with("s: Forbidden: x-kubernetes-validations estimated rule cost total"),
        "{found:?}"
    );
}

#[test]
fn message_whose_estimated_cost_exceeds_the_limit_is_rejected() {
    let schema = of(json!({"spec": {"type": "object", "properties": {"min": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.min > 1", "messageExpression": "'min ' + string(self.min)"}]}}));
    let found = texts(&schema);
    assert!(found[0].starts_with("s.properties[spec].x-kubernetes-validations[0].messageExpression: Forbidden: estimated messageExpression cost exceeds budget"), "{found:?}");
}
