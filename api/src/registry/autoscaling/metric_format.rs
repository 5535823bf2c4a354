//! Metrics in the annotations of `autoscaling/v1`: its own types as JSON, in which the fields of a target are next to the name of
//! the metric.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::behavior_format::{number, quantity};
use crate::go_json;
use crate::registry::workload::{given, text};

/// How a field is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A string; missing is `""`.
    Text,
    /// A reference to an object.
    Reference,
    /// A selector, if there is one.
    Selector,
    /// A quantity; missing is `0`.
    Quantity,
    /// A quantity, if there is one.
    OptionalQuantity,
    /// A number, if there is one.
    OptionalNumber,
}

/// The name in `autoscaling/v1`, the path in `autoscaling/v2`, and the shape of each field.
pub(super) type Fields = &'static [(&'static str, &'static [&'static str], Field)];

/// The sources of a metric: the field in both versions, and the fields of the source.
pub(super) type Sources = [(&'static str, Fields); 5];

const NAME: (&str, &[&str], Field) = ("metricName", &["metric", "name"], Field::Text);
const SELECTOR: (&str, &[&str], Field) = ("selector", &["metric", "selector"], Field::Selector);
const OTHER_SELECTOR: (&str, &[&str], Field) = ("metricSelector", &["metric", "selector"], Field::Selector);
const DESCRIBED: (&str, &[&str], Field) = ("target", &["describedObject"], Field::Reference);
const RESOURCE: (&str, &[&str], Field) = ("name", &["name"], Field::Text);
const CONTAINER: (&str, &[&str], Field) = ("container", &["container"], Field::Text);
const UTILIZATION: (&str, &[&str], Field) =
    ("targetAverageUtilization", &["target", "averageUtilization"], Field::OptionalNumber);
const AVERAGE: (&str, &[&str], Field) =
    ("targetAverageValue", &["target", "averageValue"], Field::OptionalQuantity);
const NOW_UTILIZATION: (&str, &[&str], Field) =
    ("currentAverageUtilization", &["current", "averageUtilization"], Field::OptionalNumber);
const NOW_AVERAGE: (&str, &[&str], Field) =
    ("currentAverageValue", &["current", "averageValue"], Field::Quantity);
const NOW_VALUE: (&str, &[&str], Field) = ("currentValue", &["current", "value"], Field::Quantity);

/// The sources of a metric in a spec.
pub(super) const SPECS: &Sources = &[
    (
        "object",
        &[
            DESCRIBED,
            NAME,
            ("targetValue", &["target", "value"], Field::Quantity),
            SELECTOR,
            ("averageValue", &["target", "averageValue"], Field::OptionalQuantity),
        ],
    ),
    ("pods", &[NAME, ("targetAverageValue", &["target", "averageValue"], Field::Quantity), SELECTOR]),
    ("resource", &[RESOURCE, UTILIZATION, AVERAGE]),
    ("containerResource", &[RESOURCE, UTILIZATION, AVERAGE, CONTAINER]),
    (
        "external",
        &[NAME, OTHER_SELECTOR, ("targetValue", &["target", "value"], Field::OptionalQuantity), AVERAGE],
    ),
];

/// The sources of a metric in a status.
pub(super) const STATUSES: &Sources = &[
    (
        "object",
        &[
            DESCRIBED,
            NAME,
            NOW_VALUE,
            SELECTOR,
            ("averageValue", &["current", "averageValue"], Field::OptionalQuantity),
        ],
    ),
    ("pods", &[NAME, NOW_AVERAGE, SELECTOR]),
    ("resource", &[RESOURCE, NOW_UTILIZATION, NOW_AVERAGE]),
    ("containerResource", &[RESOURCE, NOW_UTILIZATION, NOW_AVERAGE, CONTAINER]),
    (
        "external",
        &[
            NAME,
            OTHER_SELECTOR,
            NOW_VALUE,
            ("currentAverageValue", &["current", "averageValue"], Field::OptionalQuantity),
        ],
    ),
];

/// The text of an annotation with metrics.
pub(super) fn write<'a>(sources: &Sources, metrics: impl Iterator<Item = &'a Value>) -> String {
    let metrics: Vec<String> = metrics.map(|metric| write_metric(sources, metric)).collect();
    format!("[{}]", metrics.join(","))
}

fn write_metric(sources: &Sources, metric: &Value) -> String {
    let mut members = vec![member("type", &go_json::encode(&text(metric, "type").into()))];
    for (name, fields) in sources {
        let Some(source) = given(metric, name) else { continue };
        let written = fields.iter().filter_map(|(name, path, field)| {
            let value = path.iter().try_fold(source, |value, name| given(value, name));
            write_field(*field, value).map(|text| member(name, &text))
        });
        members.push(member(name, &object(written)));
    }
    object(members.into_iter())
}

fn write_field(field: Field, value: Option<&Value>) -> Option<String> {
    match field {
        Field::Text => Some(value.map_or_else(|| "\"\"".to_owned(), go_json::encode)),
        Field::Quantity => Some(value.map_or_else(|| "\"0\"".to_owned(), go_json::encode)),
        Field::OptionalQuantity | Field::OptionalNumber => value.map(go_json::encode),
        Field::Reference => {
            let value = value.unwrap_or(&Value::Null);
            let required = ["kind", "name"].map(|name| (name, Value::from(text(value, name))));
            let version = given(value, "apiVersion").cloned().map(|version| ("apiVersion", version));
            let members = required.into_iter().chain(version);
            Some(object(members.map(|(name, value)| member(name, &go_json::encode(&value)))))
        }
        Field::Selector => {
            let value = value?;
            let labels = given(value, "matchLabels");
            let labels = labels.map(|labels| member("matchLabels", &go_json::encode(labels)));
            let expressions = value.get("matchExpressions").and_then(Value::as_array).map(|all| {
                let all: Vec<String> = all.iter().map(write_expression).collect();
                member("matchExpressions", &format!("[{}]", all.join(",")))
            });
            Some(object(labels.into_iter().chain(expressions)))
        }
    }
}

fn write_expression(expression: &Value) -> String {
    let fields = ["key", "operator", "values"].into_iter();
    let written = |name| given(expression, name).map(|value| member(name, &go_json::encode(value)));
    object(fields.filter_map(written))
}

fn member(name: &str, value: &str) -> String {
    format!("\"{name}\":{value}")
}

fn object(members: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", members.collect::<Vec<String>>().join(","))
}

/// The metrics in the text of an annotation. `None` if it does not describe any; upstream ignores such texts.
pub(super) fn read(sources: &Sources, text: &str) -> Option<Vec<Value>> {
    let document: Value = serde_json::from_str(text).ok()?;
    document.as_array()?.iter().map(|metric| read_metric(sources, metric)).collect()
}

fn read_metric(sources: &Sources, of: &Value) -> Option<Value> {
    let kind = of.as_object()?.get("type").map_or(Some(""), Value::as_str)?;
    let mut metric = Map::new();
    metric.insert("type".to_owned(), kind.into());
    for (name, fields) in sources {
        let Some(source) = given(of, name) else { continue };
        metric.insert((*name).to_owned(), read_source(name, fields, source.as_object()?)?);
    }
    Some(Value::Object(metric))
}

fn read_source(name: &str, fields: Fields, of: &Map<String, Value>) -> Option<Value> {
    let mut source = json!({});
    for (field, path, shape) in fields {
        let value = of.get(*field).filter(|value| !value.is_null());
        let value = read_field(*shape, value)?;
        let Some((last, parents)) = path.split_last() else { continue };
        let mut at = &mut source;
        for parent in parents {
            at = at.as_object_mut()?.entry(*parent).or_insert_with(|| json!({}));
        }
        if !value.is_null() {
            at[*last] = value;
        }
    }
    if let Some(target) = source.get_mut("target").and_then(Value::as_object_mut) {
        let kind = target_type(name, target);
        target.insert("type".to_owned(), kind.into());
    }
    Some(source)
}

/// The type of a target, which `autoscaling/v1` does not have.
fn target_type(source: &str, target: &Map<String, Value>) -> &'static str {
    match source {
        "object" if !target.contains_key("averageValue") => "Value",
        "external" if target.contains_key("value") => "Value",
        "resource" | "containerResource" if target.contains_key("averageUtilization") => "Utilization",
        _ => "AverageValue",
    }
}

/// The value of a field; `null` if it is optional and missing, and `None` if it has the wrong type.
fn read_field(field: Field, value: Option<&Value>) -> Option<Value> {
    match (field, value) {
        (Field::Text, value) => value.map_or(Some(""), Value::as_str).map(Value::from),
        (Field::Quantity, None) => Some("0".into()),
        (Field::Quantity | Field::OptionalQuantity, Some(value)) => quantity(value).map(Value::from),
        (Field::OptionalNumber, Some(value)) => number(value).map(Value::from),
        (Field::Reference, value) => read_reference(value),
        (Field::Selector, Some(value)) => {
            LabelSelector::deserialize(value).ok()?;
            Some(value.clone())
        }
        (Field::OptionalQuantity | Field::OptionalNumber | Field::Selector, None) => Some(Value::Null),
    }
}

fn read_reference(value: Option<&Value>) -> Option<Value> {
    let of = value.map_or(Some(None), |value| value.as_object().map(Some))?;
    let member = |name: &str| {
        let value = of.and_then(|of| of.get(name)).filter(|value| !value.is_null());
        value.map_or(Some(""), Value::as_str)
    };
    let mut reference = json!({"kind": member("kind")?, "name": member("name")?});
    let version = member("apiVersion")?;
    if !version.is_empty() {
        reference["apiVersion"] = version.into();
    }
    Some(reference)
}
