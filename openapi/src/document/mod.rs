//! The OpenAPI documents, assembled from the registry of kinds.
//!
//! [`Documents`] builds and keeps them; `v3` and `v2` say what is in them, `gnostic` writes the
//! second form of the old one. What both share is here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

use crate::shape::{Field, ListType, Scalar, Shape, Strategic, TypeId};
use crate::{gnostic, own, types, v2, v3};

/// A resource as the documents need to know it.
#[derive(Clone, Debug)]
pub struct ResourceDoc {
    /// API group, empty for core.
    pub group: &'static str,
    /// Version, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `Pod`.
    pub kind: &'static str,
    /// Plural resource name, such as `pods`.
    pub plural: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Schema name of the object, such as `io.k8s.api.core.v1.Pod`.
    pub schema: &'static str,
    /// The schema itself, where it is in no arena: that of a custom kind, as its definition has it.
    pub own_schema: Option<Value>,
    /// Verbs, as in discovery.
    pub verbs: &'static [&'static str],
    /// Subresources with their kind's schema name and verbs.
    pub subresources: Vec<SubresourceDoc>,
}

/// A subresource as the documents need to know it.
#[derive(Clone, Copy, Debug)]
pub struct SubresourceDoc {
    /// Name, such as `status`.
    pub name: &'static str,
    /// API group of its kind.
    pub group: &'static str,
    /// Version of its kind.
    pub version: &'static str,
    /// Its kind, such as `Scale`.
    pub kind: &'static str,
    /// Schema name of its kind.
    pub schema: &'static str,
    /// Verbs, as in discovery.
    pub verbs: &'static [&'static str],
}

/// A document as it is served.
#[derive(Debug)]
pub struct Document {
    /// JSON.
    pub body: Vec<u8>,
    /// SHA-512 of the body in upper-case hexadecimal: the `hash` parameter and the `ETag`.
    pub hash: String,
}

impl Document {
    /// A document with its hash.
    pub fn new(body: Vec<u8>) -> Self {
        let hash = Sha512::digest(&body).iter().map(|byte| format!("{byte:02X}")).collect();
        Document { body, hash }
    }
}

/// All documents of a server. Each is built when it is first asked for, and kept.
#[derive(Debug)]
pub struct Documents {
    resources: Vec<ResourceDoc>,
    v3: OnceLock<BTreeMap<String, Document>>,
    v2_json: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

impl Documents {
    /// The documents of a server with these resources.
    pub fn new(resources: &[ResourceDoc]) -> Self {
        Documents {
            resources: resources.to_vec(),
            v3: OnceLock::new(),
            v2_json: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
        }
    }

    /// The document of a group and version, by its path: `api/v1`, `apis/storage.k8s.io/v1`.
    pub fn v3(&self, path: &str) -> Option<&Document> {
        self.v3_all().get(path)
    }

    /// `/openapi/v2` as JSON.
    pub fn v2_json(&self) -> &Document {
        self.v2_json.get_or_init(|| Document::new(v2::document(&self.resources).to_string().into_bytes()))
    }

    /// `/openapi/v2` as gnostic's `openapi.v2.Document` in protobuf.
    pub fn v2_protobuf(&self) -> &Document {
        self.v2_protobuf.get_or_init(|| Document::new(gnostic::encode(&v2::document(&self.resources))))
    }

    /// The paths of the documents with their hashes, for an index that covers several sets.
    pub fn v3_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.v3_all().iter().map(|(path, document)| (path.as_str(), document.hash.as_str()))
    }

    fn v3_all(&self) -> &BTreeMap<String, Document> {
        self.v3.get_or_init(|| {
            let mut by_path: BTreeMap<String, Vec<&ResourceDoc>> = BTreeMap::new();
            for resource in &self.resources {
                by_path.entry(resource.document_path()).or_default().push(resource);
            }
            let document = |(path, resources): (String, Vec<&ResourceDoc>)| {
                (path, Document::new(v3::document(&resources)))
            };
            let own = own::documents();
            let own = own
                .into_iter()
                .map(|(path, document)| (path.to_owned(), Document::new(document.to_string().into_bytes())));
            by_path.into_iter().map(document).chain(own).collect()
        })
    }
}

/// The index at `/openapi/v3`: where documents are, with their hashes.
pub fn index<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Document {
    let entry = |(path, hash): (&str, &str)| {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path.to_owned(), json!({ "serverRelativeURL": url }))
    };
    let paths: Map<String, Value> = entries.map(entry).collect();
    Document::new(json!({ "paths": paths }).to_string().into_bytes())
}

/// The schema of a custom kind with what every object has; `reference` says where other schemas are.
pub(crate) fn own_schema(resource: &ResourceDoc, reference: impl Fn(&str) -> Value) -> Option<Value> {
    let mut schema = resource.own_schema.clone()?;
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] = text("The group and version of this representation.");
    schema["properties"]["kind"] = text("The kind of this object.");
    schema["properties"]["metadata"] = reference(OBJECT_META);
    schema["x-kubernetes-group-version-kind"] = json!([resource.gvk()]);
    Some(schema)
}

impl ResourceDoc {
    /// `api/v1`, `apis/storage.k8s.io/v1`
    pub(crate) fn document_path(&self) -> String {
        match self.group {
            "" => format!("api/{}", self.version),
            group => format!("apis/{group}/{}", self.version),
        }
    }

    /// The path of the collection, such as `/api/v1/namespaces/{namespace}/pods`.
    pub(crate) fn collection_path(&self) -> String {
        let namespace = if self.namespaced { "namespaces/{namespace}/" } else { "" };
        format!("/{}/{namespace}{}", self.document_path(), self.plural)
    }

    /// The kind of its objects, as the extension `x-kubernetes-group-version-kind` has it.
    pub(crate) fn gvk(&self) -> Value {
        gvk(self.group, self.version, self.kind)
    }
}

/// `{"group": "", "version": "v1", "kind": "Pod"}`
pub(crate) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

/// The kinds that schemas stand for, by schema name: `[{"group": ..., "version": ..., "kind": ...}]`.
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
    for resource in resources {
        let ResourceDoc { group, version, kind, schema, .. } = resource;
        add((*schema).to_owned(), group, version, kind);
        add(format!("{schema}List"), group, version, &format!("{kind}List"));
        add(DELETE_OPTIONS.to_owned(), group, version, "DeleteOptions");
        for sub in &resource.subresources {
            add(sub.schema.to_owned(), sub.group, sub.version, sub.kind);
        }
    }
    kinds
}

/// Names of every struct type that is reachable from the resources, list kinds left out.
pub(crate) fn reachable<'a>(resources: impl Iterator<Item = &'a ResourceDoc>) -> BTreeSet<&'static str> {
    let types = types();
    let mut roots = vec![STATUS, DELETE_OPTIONS, LIST_META];
    for resource in resources {
        if resource.own_schema.is_some() {
            roots.push(OBJECT_META);
        }
        roots.push(resource.schema);
        roots.extend(resource.subresources.iter().map(|sub| sub.schema));
    }
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

/// The extensions of a field: how patches treat it.
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

pub(crate) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(crate) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(crate) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The scalars that have a schema of their own.
pub(crate) fn scalar_schema(scalar: Scalar) -> Option<&'static str> {
    match scalar {
        Scalar::Quantity => Some("io.k8s.apimachinery.pkg.api.resource.Quantity"),
        Scalar::IntOrString => Some("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
        Scalar::Time => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
        Scalar::MicroTime => Some("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
        Scalar::String | Scalar::Bytes | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float => None,
    }
}

/// The scalars with schemas of their own, and what those say about them.
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

#[cfg(test)]
mod tests;
