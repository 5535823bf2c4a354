//! Groups and plurals that no definition can use: the objects of a definition are stored below a prefix that consists of both, so a
//! definition with the names of a built-in kind would own the objects of that kind, and its deletion would delete them.

use orlop_api::object::Object;
use orlop_api::registry::{BUILTIN_KINDS, stored_kinds};
use orlop_api::validate::{FieldErrors, Path};

use super::is_subdomain;
use crate::format::is_label_1035;

/// The groups of the server itself: that of its API, and that of the records of its keys.
const OWN_GROUPS: [&str; 2] = ["orlop.dev", "orlop.serviceaccountkeys"];

/// The store prefix of the objects of a definition.
pub(crate) fn prefix(group: &str, plural: &str) -> String {
    format!("/registry/{group}/{plural}/")
}

/// Rejects the names of a new definition that belong to the server.
pub(super) fn validate(group: &str, plural: &str, spec: &Path, errors: &mut FieldErrors) {
    if OWN_GROUPS.contains(&group) {
        errors.invalid(&spec.child("group"), group, "is reserved for the API of this server");
    } else if is_built_in(group, plural) {
        let why = format!(
            "the server has this resource in the group {group:?}, and a definition cannot replace it"
        );
        errors.invalid(&spec.child("names").child("plural"), plural, &why);
    }
}

/// Whether the kind of a stored definition can be served. A definition can get into the store without validation, for example with a
/// capture or a restored snapshot.
pub(crate) fn can_be_served(definition: &Object, group: &str, plural: &str) -> bool {
    let has_form = group.contains('.') && is_subdomain(group) && is_label_1035(plural);
    let is_own = OWN_GROUPS.contains(&group) || is_built_in(group, plural);
    // The prefix of another definition contains the names of that definition.
    has_form && !is_own && definition.name() == format!("{plural}.{group}")
}

/// Whether a compiled-in kind has these names in any version, or is stored at the same place.
fn is_built_in(group: &str, plural: &str) -> bool {
    let own = prefix(group, plural);
    let overlaps = |other: &str| other.starts_with(&own) || own.starts_with(other);
    BUILTIN_KINDS.iter().any(|kind| (kind.names().group, kind.names().plural) == (group, plural))
        || stored_kinds().any(|kind| (kind.group, kind.plural) == (group, plural) || overlaps(kind.prefix))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_the_server_are_reserved() {
        for (group, plural, want) in [
            ("example.com", "widgets", None),
            ("example.com", "secrets", None),
            ("rbac.authorization.k8s.io", "widgets", None),
            ("snapshot.storage.k8s.io", "volumesnapshots", None),
            ("apiextensions.k8s.io", "customresourcedefinitions", Some("spec.names.plural")),
            ("rbac.authorization.k8s.io", "clusterroles", Some("spec.names.plural")),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies", Some("spec.names.plural")),
            ("authentication.k8s.io", "tokenreviews", Some("spec.names.plural")),
            ("events.k8s.io", "events", Some("spec.names.plural")),
            ("secrets", "team-b", Some("spec.names.plural")),
            ("services", "specs", Some("spec.names.plural")),
            ("orlop.dev", "widgets", Some("spec.group")),
            ("orlop.serviceaccountkeys", "current", Some("spec.group")),
        ] {
            let mut errors = FieldErrors::new();
            validate(group, plural, &Path::new("spec"), &mut errors);
            let fields: Vec<_> = errors.causes().iter().map(|cause| cause.field.clone()).collect();
            assert_eq!(fields, want.into_iter().collect::<Vec<_>>(), "{plural}.{group}");
            let name = format!("{plural}.{group}");
            let stored = Object::from_value(json!({"metadata": {"name": name}}));
            assert_eq!(can_be_served(&stored, group, plural), want.is_none(), "{plural}.{group}");
        }
    }

    #[test]
    fn stored_definitions_with_other_names_are_not_served() {
        for (name, group, plural) in [
            ("widgets.example.com", "example.com", "gadgets"),
            ("widgets.example", "example", "widgets"),
            ("a/b.example.com", "example.com", "a/b"),
            ("..example.com", "example.com", "."),
            ("widgets.a/b.c", "a/b.c", "widgets"),
        ] {
            let stored = Object::from_value(json!({"metadata": {"name": name}}));
            assert!(!can_be_served(&stored, group, plural), "{name}");
        }
    }
}
