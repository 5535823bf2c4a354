//! Where the objects of all compiled-in kinds are stored, for code that needs no more of a kind, such as the encryption of records.
//!
//! The kinds whose validation is in other crates have their lines here; a test of the API server compares the table with the kinds that
//! it serves.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{BUILTIN_KINDS, admission_registration, custom_resource_definition, dynamic_resources};

/// A compiled-in kind with stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredKind {
    /// The API group; `""` for the core group.
    pub group: &'static str,
    /// The plural name.
    pub plural: &'static str,
    /// The start of the keys of its objects: `/registry/pods/`.
    pub prefix: &'static str,
}

const fn stored(group: &'static str, plural: &'static str, prefix: &'static str) -> StoredKind {
    StoredKind { group, plural, prefix }
}

/// The kinds that [`BUILTIN_KINDS`] does not contain.
const COMPLETED_ELSEWHERE: [StoredKind; 10] = {
    let admission = admission_registration::GROUP;
    let definitions = custom_resource_definition::NAMES;
    let resource = dynamic_resources::GROUP;
    [
        stored(admission, "mutatingadmissionpolicies", "/registry/mutatingadmissionpolicies/"),
        stored(admission, "mutatingadmissionpolicybindings", "/registry/mutatingadmissionpolicybindings/"),
        stored(admission, "mutatingwebhookconfigurations", "/registry/mutatingwebhookconfigurations/"),
        stored(admission, "validatingadmissionpolicies", "/registry/validatingadmissionpolicies/"),
        stored(
            admission,
            "validatingadmissionpolicybindings",
            "/registry/validatingadmissionpolicybindings/",
        ),
        stored(admission, "validatingwebhookconfigurations", "/registry/validatingwebhookconfigurations/"),
        stored(definitions.group, definitions.plural, custom_resource_definition::PREFIX),
        stored(resource, "deviceclasses", "/registry/deviceclasses/"),
        stored(resource, "resourceclaims", "/registry/resourceclaims/"),
        stored(resource, "resourceclaimtemplates", "/registry/resourceclaimtemplates/"),
    ]
};

/// All compiled-in kinds with stored objects, in their stored form.
pub fn stored_kinds() -> impl Iterator<Item = StoredKind> {
    let builtin = BUILTIN_KINDS.iter().filter(|kind| kind.is_stored() && !kind.is_view());
    let builtin = builtin.map(|kind| stored(kind.names().group, kind.names().plural, kind.storage_prefix()));
    builtin.chain(COMPLETED_ELSEWHERE)
}

/// The compiled-in kind whose objects are stored under a prefix.
pub fn stored_kind(prefix: &str) -> Option<StoredKind> {
    static BY_PREFIX: LazyLock<HashMap<&str, StoredKind>> =
        LazyLock::new(|| stored_kinds().map(|kind| (kind.prefix, kind)).collect());
    BY_PREFIX.get(prefix).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_belongs_to_one_kind() {
        for kind in stored_kinds() {
            assert_eq!(stored_kind(kind.prefix), Some(kind));
        }
        assert_eq!(stored_kind("/registry/unknown/"), None);
    }
}
