//! Descriptions of resources for the documents.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// The extension with the kinds of a schema or an operation.
pub(crate) const GVK: &str = "x-kubernetes-group-version-kind";
/// The extension with the fields of a schema that field selectors may use.
pub(crate) const SELECTABLE: &str = "x-kubernetes-selectable-fields";

/// The description of a resource for the documents.
#[derive(Clone, Debug)]
pub struct ResourceDoc {
    /// API group, empty for core.
    pub group: &'static str,
    /// Version, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `Pod`.
    pub kind: &'static str,
    /// Kind of a list of its objects, such as `PodList`.
    pub list_kind: String,
    /// Plural resource name, such as `pods`.
    pub plural: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Schema name of the object, such as `io.k8s.api.core.v1.Pod`.
    pub schema: &'static str,
    /// The schema itself, if it is not in the arena: that of a custom kind, copied from its definition.
    pub own_schema: Option<OwnSchema>,
    /// Fields of a custom kind that field selectors may use, such as `spec.color`.
    pub selectable: Vec<&'static str>,
    /// Verbs, as in discovery.
    pub verbs: &'static [&'static str],
    /// Whether a delete returns the object; otherwise it returns a `Status`.
    pub delete_returns_object: bool,
    /// Subresources with their kind's schema name and verbs.
    pub subresources: Vec<SubresourceDoc>,
}

/// The schema of a custom kind. It is parsed when a document is written, because parsed schemas need many times the memory of
/// their text.
#[derive(Clone)]
pub struct OwnSchema(Arc<dyn Fn() -> Option<Value> + Send + Sync>);

impl OwnSchema {
    /// A schema that `read` parses.
    pub fn new(read: impl Fn() -> Option<Value> + Send + Sync + 'static) -> Self {
        OwnSchema(Arc::new(read))
    }

    /// Parses the schema.
    pub(crate) fn read(&self) -> Option<Value> {
        (self.0)()
    }
}

impl fmt::Debug for OwnSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnSchema").finish_non_exhaustive()
    }
}

/// The description of a subresource for the documents.
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
    /// Schema name of its kind; `""` for the log of a pod and for connections, whose kind is that of their options.
    pub schema: &'static str,
    /// Verbs, as in discovery.
    pub verbs: &'static [&'static str],
}

impl ResourceDoc {
    /// The path of its document, such as `api/v1` or `apis/storage.k8s.io/v1`.
    pub(crate) fn document_path(&self) -> String {
        version_path(self.group, self.version)
    }

    /// The path of the collection, such as `/api/v1/namespaces/{namespace}/pods`.
    pub(crate) fn collection_path(&self) -> String {
        let namespace = if self.namespaced { "namespaces/{namespace}/" } else { "" };
        format!("/{}/{namespace}{}", self.document_path(), self.plural)
    }

    /// Whether its objects can be listed.
    pub(crate) fn has_list(&self) -> bool {
        self.verbs.contains(&"list")
    }

    /// Schema name of a list of its objects.
    pub(crate) fn list_schema(&self) -> String {
        let prefix = self.schema.strip_suffix(self.kind).unwrap_or(self.schema);
        format!("{prefix}{}", self.list_kind)
    }

    /// The fields that field selectors may use, in the format of the extension; `None` without such fields.
    pub(crate) fn selectable_fields(&self) -> Option<Value> {
        let fields = self.selectable.iter().map(|path| json!({"fieldPath": path}));
        (!self.selectable.is_empty()).then(|| fields.collect())
    }

    /// The kind of its objects, in the format of the extension `x-kubernetes-group-version-kind`.
    pub(crate) fn gvk(&self) -> Value {
        gvk(self.group, self.version, self.kind)
    }
}

/// The path of the document of a group and version, such as `api/v1` or `apis/storage.k8s.io/v1`.
pub(crate) fn version_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// The groups of built-in kinds without the core group. Groups of custom kinds have no document of their own.
pub(crate) fn groups(resources: &[ResourceDoc]) -> BTreeSet<&'static str> {
    versions(resources).into_iter().map(|(group, _)| group).filter(|group| !group.is_empty()).collect()
}

/// The groups and versions of built-in kinds.
pub(crate) fn versions(resources: &[ResourceDoc]) -> BTreeSet<(&'static str, &'static str)> {
    let builtin = resources.iter().filter(|resource| resource.own_schema.is_none());
    builtin.map(|resource| (resource.group, resource.version)).collect()
}

/// A kind in the extension's format, such as `{"group": "", "version": "v1", "kind": "Pod"}`.
pub(crate) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}
