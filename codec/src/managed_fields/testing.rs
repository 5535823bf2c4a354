//! Test helpers for managed fields.
#![allow(clippy::unwrap_used)]

use orlop_api::object::Object;
use orlop_api::registry::{Kind, by_resource};
use orlop_openapi::StructType;
use serde_json::{Map, Value};

use super::Writer;
use crate::decode::conform;

pub(super) const NOW: &str = "2026-01-02T03:04:05Z";
pub(super) const LATER: &str = "2026-01-02T04:00:00Z";

pub(super) fn kind(group: &str, plural: &str) -> &'static dyn Kind {
    by_resource(group, "v1", plural).unwrap()
}

pub(super) fn struct_type(schema: &str) -> &'static StructType {
    let types = orlop_openapi::types();
    types.get(types.named(schema).unwrap())
}

pub(super) fn writer<'a>(kind: &'static dyn Kind, manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { kind, subresource: "", manager, now }
}

/// An object as decoding returns it.
pub(super) fn object(kind: &dyn Kind, value: Value) -> Object {
    let id = orlop_openapi::types().named(kind.names().schema).unwrap();
    Object(conform(value, id).unwrap().object)
}

pub(super) fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// `manager operation[/subresource][@time]` and the fields of each entry.
pub(super) fn entries(object: &Object) -> Vec<(String, Value)> {
    let list = super::update::list(object).iter().map(|entry| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut shown = format!("{} {}", text("manager"), text("operation"));
        for (sign, name) in [("/", "subresource"), ("@", "time")] {
            if !text(name).is_empty() {
                shown.push_str(&format!("{sign}{}", text(name)));
            }
        }
        (shown, entry["fieldsV1"].clone())
    });
    list.collect()
}
