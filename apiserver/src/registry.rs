//! The kinds that the server serves without a CustomResourceDefinition: the built-in kinds, those that contain CEL
//! expressions, and `CustomResourceDefinition` itself.

use std::sync::LazyLock;

use orlop_api::registry::admission_registration::{
    MUTATING_POLICY_BINDING, MutatingAdmissionPolicy, VALIDATING_POLICY_BINDING, ValidatingAdmissionPolicy,
    WebhookConfiguration,
};
use orlop_api::registry::dynamic_resources::{DeviceClass, ResourceClaim, ResourceClaimTemplate};
use orlop_crd::CustomResourceDefinition;
use orlop_crd::expression::CelCompiler;

pub use orlop_api::registry::networking::{ingress_class, ip_address, service_cidr};
pub use orlop_api::registry::{
    ALL_VERBS, Column, DefinitionId, DeleteAnswer, Generation, Kind, KindRef, KindsByPath, NameRule, Names,
    Permission, Policy, Review, ScalePaths, ScaleSelector, Scope, StatusSubresource, Subresource, TypeRef,
    UnknownField, WriteContext, ago, sibling,
};
pub use orlop_api::registry::{
    BUILTIN_KINDS, api_service, flow_control, priority_class, scale, service, storage_class,
};

/// All compiled-in kinds. The kinds of CustomResourceDefinitions are in [`crate::custom::Kinds`].
pub const KINDS: &[&dyn Kind] = &all();

/// The kinds whose validation is in `orlop-crd`, and the other kinds of their groups.
const WITH_EXPRESSIONS: [&dyn Kind; 10] = [
    &MutatingAdmissionPolicy { compiler: &CelCompiler },
    &MUTATING_POLICY_BINDING,
    &WebhookConfiguration::mutating(&CelCompiler),
    &ValidatingAdmissionPolicy { compiler: &CelCompiler },
    &VALIDATING_POLICY_BINDING,
    &WebhookConfiguration::validating(&CelCompiler),
    &CustomResourceDefinition,
    &DeviceClass { compiler: &CelCompiler },
    &ResourceClaim { compiler: &CelCompiler },
    &ResourceClaimTemplate { compiler: &CelCompiler },
];

const LENGTH: usize = BUILTIN_KINDS.len() + WITH_EXPRESSIONS.len();

/// The position of these kinds: after VolumeAttachment.
const AT: usize = 34;

const fn all() -> [&'static dyn Kind; LENGTH] {
    let mut all: [&'static dyn Kind; LENGTH] = [&CustomResourceDefinition; LENGTH];
    let mut from = 0;
    while from < BUILTIN_KINDS.len() {
        let to = if from < AT { from } else { from + WITH_EXPRESSIONS.len() };
        all[to] = BUILTIN_KINDS[from];
        from += 1;
    }
    let mut from = 0;
    while from < WITH_EXPRESSIONS.len() {
        all[AT + from] = WITH_EXPRESSIONS[from];
        from += 1;
    }
    all
}

/// The kinds PriorityLevelConfiguration and FlowSchema; `None` if they are not served.
pub(crate) fn flow_control_kinds() -> Option<(&'static dyn Kind, &'static dyn Kind)> {
    let of = |plural: &str| by_resource(flow_control::GROUP, "v1", plural);
    of("prioritylevelconfigurations").zip(of("flowschemas"))
}

/// The kind at a path: `("", "v1", "pods")`.
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static dyn Kind> {
    static BY_PATH: LazyLock<KindsByPath> = LazyLock::new(|| KindsByPath::new(KINDS));
    BY_PATH.get(group, version, plural)
}

/// The kind whose objects are stored under a prefix such as `/registry/pods/`, in its stored form.
pub fn by_storage_prefix(prefix: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| kind.storage_prefix() == prefix && kind.is_stored() && !kind.is_view())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orlop_api::registry::stored_kinds;

    use super::*;

    /// Encryption rules apply to the kinds of this table only.
    #[test]
    fn table_of_stored_kinds_contains_every_compiled_in_kind() {
        let stored = KINDS.iter().filter(|kind| kind.is_stored() && !kind.is_view());
        let stored: BTreeSet<_> =
            stored.map(|kind| (kind.names().group, kind.names().plural, kind.storage_prefix())).collect();
        let table: BTreeSet<_> = stored_kinds().map(|kind| (kind.group, kind.plural, kind.prefix)).collect();
        assert_eq!(stored, table);
    }

    #[test]
    fn every_kind_is_listed_once_and_definitions_follow_attachments() {
        let plurals: Vec<&str> = KINDS.iter().map(|kind| kind.names().plural).collect();
        assert_eq!(plurals[AT - 1..=AT], ["volumeattachments", "mutatingadmissionpolicies"]);
        assert_eq!(plurals[AT + WITH_EXPRESSIONS.len() - 1], "resourceclaimtemplates");
        let resource = |kind: &&'static dyn Kind| {
            let names = kind.names();
            (names.group, names.version, names.plural)
        };
        let mut resources: Vec<_> = KINDS.iter().map(resource).collect();
        resources.sort_unstable();
        resources.dedup();
        assert_eq!(resources.len(), KINDS.len());
    }
}
