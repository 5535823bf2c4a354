use serde_json::json;

use super::*;

fn judged(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = FieldErrors::new();
    judge(&Schema::of(schema), value, old, &mut errors);
    let causes = errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message));
    causes.chain(errors.warnings().iter().map(|warning| format!("warning: {warning}"))).collect()
}

fn spec(rule: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object",
    "x-kubernetes-validations": [rule],
    "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }}}})
}

#[test]
fn broken_rules_are_reported_with_message_and_path() {
    for (case, rule, value, old, want) in [
        ("1 kept", json!({"rule": "self.min <= self.max"}), json!({"min": 1, "max": 2}), None, vec![]),
        (
            "2 broken",
            json!({"rule": "self.min <= self.max"}),
            json!({"min": 3, "max": 2}),
            None,
            vec!["spec: Invalid value: failed rule: self.min <= self.max"],
        ),
        (
            "3 with a message",
            json!({"rule": "self.min <= self.max", "message": "too large"}),
            json!({"min": 3, "max": 2}),
            None,
            vec!["spec: Invalid value: too large"],
        ),
        (
            "4 with a computed message and a place",
            json!({"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min)",
                   "fieldPath": ".min", "reason": "FieldValueForbidden"}),
            json!({"min": 3, "max": 2}),
            None,
            vec!["spec.min: Forbidden: min 3"],
        ),
        (
            "5 an error",
            json!({"rule": "self.min <= self.max"}),
            json!({"min": 3}),
            None,
            vec!["spec: Invalid value: \"object\": no such key: max evaluating rule: self.min <= self.max"],
        ),
        (
            "6 no value before, no rule",
            json!({"rule": "self.name == oldSelf.name"}),
            json!({"name": "a"}),
            None,
            vec![],
        ),
        (
            "7 a change",
            json!({"rule": "self.name == oldSelf.name", "message": "name is immutable"}),
            json!({"name": "a"}),
            Some(json!({"name": "b"})),
            vec!["spec: Invalid value: name is immutable"],
        ),
        (
            "8 an optional value before",
            json!({"rule": "oldSelf.hasValue() || self.min > 5", "optionalOldSelf": true}),
            json!({"min": 1}),
            None,
            vec!["spec: Invalid value: failed rule: oldSelf.hasValue() || self.min > 5"],
        ),
        (
            "9 an unchanged value",
            json!({"rule": "self.min <= self.max"}),
            json!({"min": 3, "max": 2}),
            Some(json!({"min": 3, "max": 2})),
            vec!["warning: spec: Invalid value: failed rule: self.min <= self.max"],
        ),
        (
            "10 an unchanged value and a transition rule",
            json!({"rule": "oldSelf.min > self.min"}),
            json!({"min": 3}),
            Some(json!({"min": 3})),
            vec!["spec: Invalid value: failed rule: oldSelf.min > self.min"],
        ),
        (
            "11 an optional old value and an unchanged value",
            json!({"rule": "!oldSelf.hasValue()", "optionalOldSelf": true}),
            json!({"min": 3}),
            Some(json!({"min": 3})),
            vec!["spec: Invalid value: failed rule: !oldSelf.hasValue()"],
        ),
        (
            "12 an error on an unchanged value",
            json!({"rule": "self.min <= self.max"}),
            json!({"min": 3}),
            Some(json!({"min": 3})),
            vec!["spec: Invalid value: \"object\": no such key: max evaluating rule: self.min <= self.max"],
        ),
        (
            "13 a duplicate",
            json!({"rule": "false", "reason": "FieldValueDuplicate"}),
            json!({}),
            None,
            vec!["spec: Duplicate value"],
        ),
    ] {
        let value = json!({"spec": value});
        let old = old.map(|old| json!({"spec": old}));
        assert_eq!(judged(&spec(rule), &value, old.as_ref()), want, "{case}");
    }
}

#[test]
fn items_are_unchanged_with_their_list_or_their_key() {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.v < 5", "message": "v"}]});
    let list = |ty: Value| {
        let mut list = json!({"type": "array", "items": item});
        list.as_object_mut()
            .into_iter()
            .for_each(|list| list.extend(ty.as_object().cloned().unwrap_or_default()));
        json!({"type": "object", "properties": {"l": list, "other": {"type": "integer"}}})
    };
    let keyed = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]});
    let (bad, good) = (json!({"k": "a", "v": 9}), json!({"k": "b", "v": 1}));
    let old = json!({"l": [bad], "other": 1});
    for (case, ty, new, want) in [
        (
            "1 atomic, unchanged",
            json!({}),
            json!({"l": [bad], "other": 2}),
            "warning: l[0]: Invalid value: v",
        ),
        ("2 atomic, with another item", json!({}), json!({"l": [bad, good]}), "l[0]: Invalid value: v"),
        (
            "3 keyed, with another item",
            keyed.clone(),
            json!({"l": [good, bad]}),
            "warning: l[1]: Invalid value: v",
        ),
        ("4 keyed, changed", keyed, json!({"l": [{"k": "a", "v": 8}]}), "l[0]: Invalid value: v"),
    ] {
        assert_eq!(judged(&list(ty), &new, Some(&old)), [want], "{case}");
    }
}

#[test]
fn values_of_maps_are_reported_by_key() {
    let schema = json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {
        "type": "integer", "x-kubernetes-validations": [{"rule": "self < 5", "message": "v"}]}}}});
    assert_eq!(judged(&schema, &json!({"m": {"x.y": 7}}), None), ["m[x.y]: Invalid value: 7: v"]);
}

#[test]
fn costly_rule_stops_at_its_cost_limit() {
    let rule = json!({"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))",
                      "message": "long"});
    let list: Vec<u32> = (0..2000).collect();
    let started = orlop_apimachinery::thread_time::ThreadTime::start();
    let found = judged(&spec(rule), &json!({"spec": {"list": list}}), None);
    assert_eq!(
        found,
        [
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will \
             be run due to call cost exceeds limit for rule: long"
        ]
    );
    assert!(started.spent().as_secs() < 20, "{:?}", started.spent());
}

/// The errors of a rule of the schema [`spec`].
fn declared(rule: &Value, untraceable: Option<&Path>) -> Vec<String> {
    let mut errors = FieldErrors::new();
    let schema = Schema::of(&spec(json!({"rule": "true"}))["properties"]["spec"]);
    let (once, mut costs) = (Occurrence::once().declared(&schema, true, false), RuleCosts::default());
    let path = Path::new("p");
    validate_fields(rule, &schema, &path, &mut errors);
    if errors.is_empty() {
        validate_expressions(rule, untraceable, &once, &path, &mut costs, &mut errors);
    }
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn invalid_rules_are_rejected() {
    let above = Path::new("list");
    for (case, rule, want) in [
        ("1 empty", json!({"rule": " "}), "p.rule: Required value: rule is not specified"),
        (
            "2 no expression",
            json!({"rule": "self.min <"}),
            "p.rule: Invalid value: {\"Rule\":\"self.min \\u003c\",\"Message\":\"\",\"MessageExpression\":\"\",\
             \"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:",
        ),
        ("3 an unknown function", json!({"rule": "self.name.frob()"}), "undeclared reference to 'frob'"),
        ("4 an unknown name", json!({"rule": "other.min > 1"}), "undeclared reference to 'other'"),
        (
            "5 an unknown field",
            json!({"rule": "self.nope > 1"}),
            "<input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^",
        ),
        ("6 a field of a number", json!({"rule": "self.min.x > 1"}), "does not support field selection"),
        ("7 lines", json!({"rule": "self.min > 1", "message": "a\nb"}), "must not contain line breaks"),
        (
            "8 a reason",
            json!({"rule": "self.min > 1", "reason": "Because"}),
            "p.reason: Unsupported value: \"Because\"",
        ),
        (
            "9 a place",
            json!({"rule": "self.min > 1", "fieldPath": ".nope"}),
            "p.fieldPath: Invalid value: \".nope\": must be a valid path",
        ),
        (
            "10 an optional without use",
            json!({"rule": "self.min > 1", "optionalOldSelf": true}),
            "may not be set if oldSelf",
        ),
        (
            "11 untraceable",
            json!({"rule": "self.min > oldSelf.min"}),
            "oldSelf cannot be used on the uncorrelatable portion of the schema within list",
        ),
        ("12 no truth", json!({"rule": "self.name"}), ": cel expression must evaluate to a bool"),
        (
            "13 another type",
            json!({"rule": "self.name == 1"}),
            "<input>:1:11: found no matching overload for '_==_' applied to '(string, int)'",
        ),
        (
            "14 a message that is no text",
            json!({"rule": "true", "messageExpression": "1"}),
            "p.messageExpression: Invalid value: {\"Rule\":\"true\",\"Message\":\"\",\"MessageExpression\":\"1\"",
        ),
        (
            "15 an item of another type",
            json!({"rule": "self.list.all(item, item == 'a')"}),
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "16 an optional",
            json!({"rule": "oldSelf.min == self.min + 'a'", "optionalOldSelf": true}),
            "found no matching overload for '_+_' applied to '(int, string)'",
        ),
    ] {
        let found = declared(&rule, Some(&above));
        assert!(found.len() == 1 && found[0].contains(want), "{case}: {found:?}");
    }
}

#[test]
fn valid_rules_are_accepted() {
    for rule in [
        "self.min <= self.max && self.name.startsWith('a')",
        "has(self.name) ? self.list.exists(item, item > self.min) : true",
        "self.map.all(key, key != 'a' && self.map[key].size() > 1)",
        "oldSelf.min == self.min",
        "self.list.map(item, item * 2).sum() < 10 || self.map['a'].matches('^[a-z]+$')",
    ] {
        // The schema has no limits, so that some of the rules are too expensive.
        let found = declared(&json!({"rule": rule}), None);
        assert!(found.iter().all(|error| error.contains("exceeds budget")), "{rule}: {found:?}");
    }
    let optional = json!({"rule": "oldSelf.hasValue() || self.min > 5", "optionalOldSelf": true});
    assert_eq!(declared(&optional, None), [""; 0]);
}
