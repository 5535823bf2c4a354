//! Parts shared by the v2 and v3 documents: the set of schemas and their extensions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::operations::discovery::{API_GROUP, API_GROUP_LIST, API_RESOURCE_LIST, API_VERSIONS};
use crate::resource::{GVK, ResourceDoc, SELECTABLE, gvk};
use crate::shape::{Field, ListType, Scalar, Shape, Strategic, TypeId};
use crate::types;

pub(crate) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(crate) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(crate) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(crate) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
pub(crate) const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
pub(crate) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The document to which upstream's descriptions refer.
pub(crate) const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
pub(crate) const ABOUT_API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an \
    object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized \
    values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
pub(crate) const ABOUT_KIND: &str = "Kind is a string value representing the REST resource this object represents. \
    Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More \
    info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const ABOUT_EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. \
    Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More \
    info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const ABOUT_EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. Servers may infer this \
    from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const ABOUT_METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The schema of a custom kind with the fields that every object has; `reference` creates a reference to
/// another schema, with a description.
pub(crate) fn own_schema(
    resource: &ResourceDoc,
    reference: impl Fn(&str, &str) -> Value,
    to_v2: Option<fn(&mut Value)>,
) -> Option<Value> {
    let mut schema = resource.own_schema.as_ref()?.read()?;
    if schema.is_object() {
        if let Some(to_v2) = to_v2 {
            to_v2(&mut schema);
        }
        add_implicit(&mut schema, &reference, to_v2.is_some());
        add_object_fields(&mut schema, &reference, ABOUT_API_VERSION, ABOUT_KIND);
    } else {
        // With any property, kubectl would reject all other fields.
        schema = json!({"type": "object"});
    }
    schema[GVK] = json!([resource.gvk()]);
    if let Some(fields) = resource.selectable_fields() {
        schema[SELECTABLE] = fields;
    }
    Some(schema)
}

/// Adds the properties that a schema declares by an extension: those of embedded objects, and the types of
/// integers or strings. Version 2 has neither the types nor, where unknown fields are preserved, the properties.
fn add_implicit(schema: &mut Value, reference: &impl Fn(&str, &str) -> Value, is_v2: bool) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|property| add_implicit(property, reference, is_v2));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name).filter(|inner| inner.is_object()) {
            add_implicit(inner, reference, is_v2);
        }
    }
    let has_types = !schema["anyOf"].is_null() || !schema["allOf"].is_null();
    if schema["x-kubernetes-int-or-string"] == true && !has_types && !is_v2 {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    let is_open = is_v2 && schema["x-kubernetes-preserve-unknown-fields"] == true;
    if schema["x-kubernetes-embedded-resource"] == true && !is_open {
        add_object_fields(schema, reference, ABOUT_EMBEDDED_API_VERSION, ABOUT_EMBEDDED_KIND);
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
        schema["required"] = required.into();
    }
}

fn add_object_fields(
    schema: &mut Value,
    reference: &impl Fn(&str, &str) -> Value,
    about_api_version: &str,
    about_kind: &str,
) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    properties["apiVersion"] = json!({"type": "string", "description": about_api_version});
    properties["kind"] = json!({"type": "string", "description": about_kind});
    properties["metadata"] = reference(OBJECT_META, ABOUT_METADATA);
}

/// The kinds of the schemas, by schema name: `[{"group": ..., "version": ..., "kind": ...}]`.
pub(crate) fn kinds_of_schemas<'a>(
    resources: impl Iterator<Item = &'a ResourceDoc>,
) -> BTreeMap<String, Vec<Value>> {
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut add = |schema: String, group: &str, version: &str, kind: &str| {
        let kinds = kinds.entry(schema).or_default();
        let kind = gvk(group, version, kind);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    };
    add(STATUS.to_owned(), "", "v1", "Status");
    for (schema, kind) in [
        (API_VERSIONS, "APIVersions"),
        (API_GROUP_LIST, "APIGroupList"),
        (API_GROUP, "APIGroup"),
        (API_RESOURCE_LIST, "APIResourceList"),
    ] {
        add(schema.to_owned(), "", "v1", kind);
    }
    for resource in resources {
        let ResourceDoc { group, version, kind, schema, .. } = resource;
        add((*schema).to_owned(), group, version, kind);
        add(resource.list_schema(), group, version, &resource.list_kind);
        add(DELETE_OPTIONS.to_owned(), group, version, "DeleteOptions");
        for sub in resource.subresources.iter().filter(|sub| !sub.schema.is_empty()) {
            add(sub.schema.to_owned(), sub.group, sub.version, sub.kind);
        }
    }
    kinds
}

/// The names of all struct types that are reachable from the resources, without list kinds.
pub(crate) fn reachable<'a>(resources: impl Iterator<Item = &'a ResourceDoc>) -> BTreeSet<&'static str> {
    let mut roots = vec![STATUS, DELETE_OPTIONS, LIST_META];
    for resource in resources {
        roots.push(if resource.own_schema.is_some() { OBJECT_META } else { API_RESOURCE_LIST });
        roots.push(resource.schema);
        roots.extend(resource.subresources.iter().map(|sub| sub.schema));
    }
    reachable_from(roots)
}

/// The names of all struct types that are reachable from these schemas.
pub(crate) fn reachable_from(roots: Vec<&str>) -> BTreeSet<&'static str> {
    let types = types();
    let mut todo: Vec<TypeId> = roots.into_iter().filter_map(|name| types.named(name)).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = todo.pop() {
        let ty = types.get(id);
        if seen.insert(ty.name.as_str()) {
            todo.extend(ty.fields.values().filter_map(|field| inner_type(&field.shape)));
        }
    }
    seen
}

fn inner_type(shape: &Shape) -> Option<TypeId> {
    match shape {
        Shape::Struct(id) | Shape::Either(id) => Some(*id),
        Shape::Map(inner) | Shape::List(inner) => inner_type(inner),
        Shape::Scalar(_) | Shape::Json | Shape::Inline(_) | Shape::Deduced => None,
    }
}

/// The extensions of a field: how patches merge it.
pub(crate) fn merge_extensions(field: &Field) -> Vec<(&'static str, Value)> {
    let mut extensions = Vec::new();
    let merge = &field.merge;
    let strategy = match (&merge.strategic, merge.retain_keys) {
        (Strategic::Replace, false) => None,
        (Strategic::Replace, true) => Some("retainKeys"),
        (Strategic::MergeBy(_) | Strategic::MergeSet, false) => Some("merge"),
        (Strategic::MergeBy(_) | Strategic::MergeSet, true) => Some("merge,retainKeys"),
    };
    if let Some(strategy) = strategy {
        extensions.push(("x-kubernetes-patch-strategy", strategy.into()));
    }
    if let Strategic::MergeBy(key) = &merge.strategic {
        extensions.push(("x-kubernetes-patch-merge-key", key.as_str().into()));
    }
    match &merge.list_type {
        None => {}
        Some(ListType::Atomic) => extensions.push(("x-kubernetes-list-type", "atomic".into())),
        Some(ListType::Set) => extensions.push(("x-kubernetes-list-type", "set".into())),
        Some(ListType::Map(keys)) => {
            extensions.push(("x-kubernetes-list-type", "map".into()));
            extensions.push(("x-kubernetes-list-map-keys", keys.clone().into()));
        }
    }
    if merge.atomic_map {
        extensions.push(("x-kubernetes-map-type", "atomic".into()));
    } else if merge.granular {
        extensions.push(("x-kubernetes-map-type", "granular".into()));
    }
    extensions
}

/// The schema name of a scalar that has its own schema.
pub(crate) fn scalar_schema(scalar: Scalar) -> Option<&'static str> {
    match scalar {
        Scalar::Quantity => Some("io.k8s.apimachinery.pkg.api.resource.Quantity"),
        Scalar::IntOrString => Some("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
        Scalar::Time => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
        Scalar::MicroTime => Some("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
        Scalar::String | Scalar::Bytes | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float => None,
    }
}

/// The scalars with their own schemas, and the descriptions in those.
pub(crate) const NAMED_SCALARS: &[(Scalar, &str)] = &[
    (Scalar::Quantity, "A fixed-point number with an optional suffix, such as 1500m or 5Gi."),
    (Scalar::IntOrString, "A 32 bit integer or a string."),
    (Scalar::Time, "A time as RFC 3339 has it, with whole seconds."),
    (Scalar::MicroTime, "A time as RFC 3339 has it, with six decimals."),
];

/// `type` and `format` of a scalar.
pub(crate) fn type_and_format(scalar: Scalar) -> (&'static str, Option<&'static str>) {
    match scalar {
        Scalar::String | Scalar::Quantity => ("string", None),
        Scalar::Bytes => ("string", Some("byte")),
        Scalar::Bool => ("boolean", None),
        Scalar::Int32 => ("integer", Some("int32")),
        Scalar::Int64 => ("integer", Some("int64")),
        Scalar::Float => ("number", Some("double")),
        Scalar::IntOrString => ("string", Some("int-or-string")),
        Scalar::Time | Scalar::MicroTime => ("string", Some("date-time")),
    }
}
