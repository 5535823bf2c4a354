//! The Go types of fields in error messages.
//!
//! The types that do not follow from a field's shape are in `go_types.txt`, with the prefixes of schema names as in the table of
//! facts (crate `openapi`): a line is a struct and its fields, `Type field=GO_TYPE...`.
//!
//! Source: `types.go` of every package of upstream's API types at 1.36.

use std::collections::HashMap;
use std::sync::LazyLock;

use orlop_openapi::{Field, Shape, StructType, types};

use crate::decode::scalar;

static TABLE: LazyLock<HashMap<(String, &'static str), &'static str>> =
    LazyLock::new(|| parse(include_str!("go_types.txt")));

fn parse(text: &'static str) -> HashMap<(String, &'static str), &'static str> {
    let mut prefix = "";
    let mut table = HashMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('@') {
            prefix = name;
            continue;
        }
        let (ty, fields) = line.split_once(' ').unwrap_or((line, ""));
        for (field, go_type) in fields.split(' ').filter_map(|word| word.split_once('=')) {
            table.insert((format!("{prefix}.{ty}"), field), go_type);
        }
    }
    table
}

/// The Go type of a field, or of the items of its lists and maps if `shape` is theirs.
pub(super) fn of_field(ty: &StructType, field: &Field, shape: &Shape) -> String {
    let Some(mut text) = TABLE.get(&(ty.name.clone(), field.name.as_str())).copied() else {
        return of_shape(shape);
    };
    let mut current = &field.shape;
    while !std::ptr::eq(current, shape) {
        let (Shape::List(inner) | Shape::Map(inner), Some(item)) = (current, item(text)) else {
            return of_shape(shape);
        };
        (current, text) = (inner, item);
    }
    text.to_owned()
}

/// The type of the items of a list or map type; `None` if a name hides it.
fn item(text: &'static str) -> Option<&'static str> {
    let list = text.strip_prefix("[]");
    list.or_else(|| text.strip_prefix("map[")?.split_once(']').map(|(_, item)| item))
}

/// The Go type that a shape has unless a table says otherwise.
pub(super) fn of_shape(shape: &Shape) -> String {
    match shape {
        Shape::Struct(id) | Shape::Either(id) => {
            let ty = types().get(*id);
            let package = ty.name.rsplit('.').nth(1).unwrap_or("v1");
            format!("{package}.{}", ty.short_name)
        }
        Shape::Map(inner) => format!("map[string]{}", of_shape(inner)),
        Shape::List(inner) => format!("[]{}", of_shape(inner)),
        Shape::Scalar(scalar) => scalar::type_name(*scalar).to_owned(),
        Shape::Json | Shape::Inline(_) | Shape::Deduced => "runtime.RawExtension".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_field() {
        assert!(TABLE.len() > 200);
        for ((ty, field), go_type) in TABLE.iter() {
            // Types of kinds that are not served are not in the arena.
            let Some(id) = types().named(ty) else { continue };
            assert!(types().get(id).field(field).is_some(), "{ty} {field}={go_type}");
        }
    }

    #[test]
    fn items_have_the_type_of_their_list_or_map() {
        let id = types().named("io.k8s.api.core.v1.PersistentVolumeClaimStatus").expect("a type");
        let ty = types().get(id);
        for (name, want, want_item) in [
            ("phase", "v1.PersistentVolumeClaimPhase", None),
            ("accessModes", "[]v1.PersistentVolumeAccessMode", Some("v1.PersistentVolumeAccessMode")),
            (
                "allocatedResourceStatuses",
                "map[v1.ResourceName]v1.ClaimResourceStatus",
                Some("v1.ClaimResourceStatus"),
            ),
            ("capacity", "v1.ResourceList", Some("resource.Quantity")),
            ("conditions", "[]v1.PersistentVolumeClaimCondition", Some("v1.PersistentVolumeClaimCondition")),
        ] {
            let field = ty.field(name).expect("a field");
            assert_eq!(of_field(ty, field, &field.shape), want, "{name}");
            if let (Shape::List(inner) | Shape::Map(inner), Some(want)) = (&field.shape, want_item) {
                assert_eq!(of_field(ty, field, inner), want, "{name}");
            }
        }
    }
}
