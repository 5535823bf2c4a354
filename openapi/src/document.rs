//! The OpenAPI documents, assembled from the registry of kinds.

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
/// stub
#[derive(Debug)]
pub struct Documents;
#[allow(missing_docs)]
impl Documents {
    pub fn new(_r: &[ResourceDoc]) -> Self { Documents }
    pub fn v2_json(&self) -> &[u8] { b"{}" }
    pub fn v2_protobuf(&self) -> &[u8] { b"" }
    pub fn v3_index(&self) -> &[u8] { b"{}" }
    pub fn v3(&self, _p: &str) -> Option<(&[u8], &str)> { None }
}
