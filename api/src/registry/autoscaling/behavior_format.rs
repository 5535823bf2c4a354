//! The behavior of an autoscaler in the annotation of `autoscaling/v1`: upstream's internal struct as JSON, with Go's field names.

use orlop_apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::registry::go_format::{Fields, Shape};

const POLICY: Shape = Shape::Struct(&[
    ("Type", "type", Shape::Text),
    ("Value", "value", Shape::Count),
    ("PeriodSeconds", "periodSeconds", Shape::Count),
]);
const RULES: Fields = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds", Shape::Plain),
    ("SelectPolicy", "selectPolicy", Shape::Plain),
    ("Policies", "policies", Shape::List(&POLICY)),
    ("Tolerance", "tolerance", Shape::Plain),
];
const BEHAVIOR: Shape = Shape::Struct(&[
    ("ScaleUp", "scaleUp", Shape::Pointer(RULES)),
    ("ScaleDown", "scaleDown", Shape::Pointer(RULES)),
]);

/// The text of the annotation.
pub(super) fn write(behavior: &Value) -> String {
    BEHAVIOR.show(Some(behavior))
}

/// The behavior in the text of an annotation. `None` if the text does not describe any; upstream ignores such texts.
pub(super) fn read(text: &str) -> Option<Value> {
    let document: Value = serde_json::from_str(text).ok()?;
    let mut behavior = Map::new();
    for (go, ours) in [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")] {
        if let Some(rules) = member(document.as_object()?, go) {
            behavior.insert(ours.to_owned(), read_rules(rules.as_object()?)?);
        }
    }
    (!behavior.is_empty()).then_some(Value::Object(behavior))
}

fn read_rules(of: &Map<String, Value>) -> Option<Value> {
    let mut rules = Map::new();
    if let Some(window) = member(of, "StabilizationWindowSeconds") {
        rules.insert("stabilizationWindowSeconds".to_owned(), number(window)?.into());
    }
    if let Some(select) = member(of, "SelectPolicy") {
        rules.insert("selectPolicy".to_owned(), select.as_str()?.into());
    }
    if let Some(policies) = member(of, "Policies") {
        let policies: Option<Vec<Value>> = policies.as_array()?.iter().map(read_policy).collect();
        rules.insert("policies".to_owned(), policies?.into());
    }
    if let Some(tolerance) = member(of, "Tolerance") {
        rules.insert("tolerance".to_owned(), quantity(tolerance)?.into());
    }
    Some(Value::Object(rules))
}

fn read_policy(of: &Value) -> Option<Value> {
    let of = of.as_object()?;
    let count = |name: &str| member(of, name).map_or(Some(0), number);
    let kind = member(of, "Type").map_or(Some(""), Value::as_str)?;
    Some(json!({"type": kind, "value": count("Value")?, "periodSeconds": count("PeriodSeconds")?}))
}

/// A member; `None` if absent or `null`. Go ignores the case of names.
fn member<'a>(of: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let same = of.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
    same.map(|(_, value)| value).filter(|value| !value.is_null())
}

/// A number of 32 bits.
pub(super) fn number(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

/// A quantity, which may be a number in JSON, in its canonical form.
pub(super) fn quantity(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    Quantity::parse(&text).ok().map(|quantity| quantity.to_string())
}
