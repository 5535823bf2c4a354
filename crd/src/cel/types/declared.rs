//! The types with fields that expressions of admission use.
//!
//! Upstream: apiserver `pkg/admission/plugin/cel/compile.go` (`BuildRequestType`, `BuildNamespaceType`),
//! `pkg/cel/mutation`, `pkg/authorization/cel/compile.go`; dynamic-resource-allocation `cel/compile.go`.

use super::ty::Ty;

/// The type of `request`.
pub(super) const REQUEST: &str = "kubernetes.AdmissionRequest";
/// The type of `request` in the expressions of an authorization webhook.
pub(super) const REVIEW: &str = "kubernetes.SubjectAccessReviewSpec";
/// The type of `namespaceObject`.
pub(super) const NAMESPACE: &str = "kubernetes.Namespace";
/// The type of `variables`.
pub(super) const VARIABLES: &str = "kubernetes.variables";
/// The type of `authorizer`.
pub(super) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
/// The type of `authorizer.requestResource`.
pub(super) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
/// The type of `device`.
pub(super) const DEVICE: &str = "kubernetes.DRADevice";
/// The type of an operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";
/// The type of an apply configuration.
pub(crate) const OBJECT: &str = "Object";

/// The fields of the types, with their types in the notation of `functions.txt`.
const TYPES: [(&str, &[(&str, &str)]); 16] = [
    (
        REQUEST,
        &[
            ("kind", "kubernetes.GroupVersionKind"),
            ("resource", "kubernetes.GroupVersionResource"),
            ("subResource", "string"),
            ("requestKind", "kubernetes.GroupVersionKind"),
            ("requestResource", "kubernetes.GroupVersionResource"),
            ("requestSubResource", "string"),
            ("name", "string"),
            ("namespace", "string"),
            ("operation", "string"),
            ("userInfo", "kubernetes.UserInfo"),
            ("dryRun", "bool"),
            ("options", "dyn"),
        ],
    ),
    ("kubernetes.GroupVersionKind", &[("group", "string"), ("version", "string"), ("kind", "string")]),
    (
        "kubernetes.GroupVersionResource",
        &[("group", "string"), ("version", "string"), ("resource", "string")],
    ),
    (
        "kubernetes.UserInfo",
        &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list<string>"),
            ("extra", "map<string|list<string>>"),
        ],
    ),
    (
        NAMESPACE,
        &[
            ("metadata", "kubernetes.NamespaceMetadata"),
            ("spec", "kubernetes.NamespaceSpec"),
            ("status", "kubernetes.NamespaceStatus"),
        ],
    ),
    (
        "kubernetes.NamespaceMetadata",
        &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map<string|string>"),
            ("annotations", "map<string|string>"),
            ("UID", "string"),
            ("creationTimestamp", "timestamp"),
            ("deletionGracePeriodSeconds", "int"),
            ("deletionTimestamp", "timestamp"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list<string>"),
        ],
    ),
    ("kubernetes.NamespaceSpec", &[("finalizers", "list<string>")]),
    (
        "kubernetes.NamespaceStatus",
        &[("conditions", "list<kubernetes.NamespaceCondition>"), ("phase", "string")],
    ),
    (
        "kubernetes.NamespaceCondition",
        &[
            ("status", "string"),
            ("type", "string"),
            ("lastTransitionTime", "timestamp"),
            ("message", "string"),
            ("reason", "string"),
        ],
    ),
    (
        REVIEW,
        &[
            ("resourceAttributes", "kubernetes.ResourceAttributes"),
            ("nonResourceAttributes", "kubernetes.NonResourceAttributes"),
            ("user", "string"),
            ("groups", "list<string>"),
            ("extra", "map<string|list<string>>"),
            ("uid", "string"),
        ],
    ),
    (
        "kubernetes.ResourceAttributes",
        &[
            ("namespace", "string"),
            ("verb", "string"),
            ("group", "string"),
            ("version", "string"),
            ("resource", "string"),
            ("subresource", "string"),
            ("name", "string"),
            ("fieldSelector", "kubernetes.SelectorAttributes"),
            ("labelSelector", "kubernetes.SelectorAttributes"),
        ],
    ),
    ("kubernetes.NonResourceAttributes", &[("path", "string"), ("verb", "string")]),
    (
        "kubernetes.SelectorAttributes",
        &[("rawSelector", "string"), ("requirements", "list<kubernetes.SelectorRequirement>")],
    ),
    (
        "kubernetes.SelectorRequirement",
        &[("key", "string"), ("operator", "string"), ("values", "list<string>")],
    ),
    (
        DEVICE,
        &[
            ("driver", "string"),
            ("attributes", "map<string|map<string|dyn>>"),
            ("capacity", "map<string|map<string|kubernetes.Quantity>>"),
            ("allowMultipleAllocations", "bool"),
        ],
    ),
    (JSON_PATCH, &[("op", "string"), ("path", "string"), ("from", "string"), ("value", "dyn")]),
];

/// Whether a name is that of a type which mutations make: `Object`, `Object.spec`, `JSONPatch`.
pub(super) fn is_made_by_mutations(name: &str) -> bool {
    name == JSON_PATCH || name == OBJECT || name.starts_with("Object.")
}

/// Returns the type of a field. Objects of apply configurations have every field.
pub(super) fn field(ty: &str, name: &str) -> Option<Ty> {
    if ty != JSON_PATCH && is_made_by_mutations(ty) {
        return Some(Ty::Dyn);
    }
    let (_, fields) = TYPES.iter().find(|(known, _)| *known == ty)?;
    let (_, notation) = fields.iter().find(|(known, _)| *known == name)?;
    Ty::parse(notation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_type() {
        for (ty, fields) in TYPES {
            for (name, _) in fields {
                assert!(field(ty, name).is_some(), "{ty}.{name}");
            }
        }
        assert_eq!(field("Object.spec", "anything"), Some(Ty::Dyn));
        assert_eq!(field(REQUEST, "object"), None);
    }
}
