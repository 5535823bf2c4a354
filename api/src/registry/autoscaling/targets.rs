//! The table cell with the current and the desired values of metrics.

use serde_json::Value;

use super::items;
use crate::registry::workload::{given, text};

/// The number of metrics that the cell shows.
const SHOWN: usize = 2;

/// The first metrics with their current values, and the number of the others.
pub(super) fn shown(spec: &Value, status: &Value) -> String {
    let (metrics, current) = (items(spec, "metrics"), items(status, "currentMetrics"));
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let cells: Vec<String> =
        metrics.iter().take(SHOWN).enumerate().map(|(at, metric)| one(metric, current.get(at))).collect();
    let cells = cells.join(", ");
    match metrics.len().saturating_sub(SHOWN) {
        0 => cells,
        more => format!("{cells} + {more} more..."),
    }
}

fn one(metric: &Value, current: Option<&Value>) -> String {
    let field = match text(metric, "type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let source = metric.get(field).unwrap_or(&Value::Null);
    let target = source.get("target").unwrap_or(&Value::Null);
    let current = current.and_then(|current| given(current, field));
    let now = |of: &str| current.map(|current| given(current.get("current").unwrap_or(&Value::Null), of));
    let unknown = || "<unknown>".to_owned();
    // A missing quantity is printed as a nil pointer of Go.
    let quantity = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("<nil>").to_owned();
    let reported = |of: &str| now(of).map_or_else(unknown, quantity);
    let average = given(target, "averageValue");
    match field {
        "pods" => format!("{}/{}", reported("averageValue"), quantity(average)),
        "external" | "object" => match average {
            Some(_) => {
                let now = now("averageValue").flatten().map_or_else(unknown, |value| quantity(Some(value)));
                format!("{now}/{} (avg)", quantity(average))
            }
            None => format!("{}/{}", reported("value"), quantity(given(target, "value"))),
        },
        _ => {
            let name = text(source, "name");
            if average.is_some() {
                return format!("{name}: {}/{}", reported("averageValue"), quantity(average));
            }
            let percent = |value: &Value| format!("{value}%");
            let now = now("averageUtilization").flatten().map_or_else(unknown, percent);
            let want = given(target, "averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
            format!("{name}: {now}/{want}")
        }
    }
}
