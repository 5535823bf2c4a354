//! The kinds that the server serves without a CustomResourceDefinition: the built-in kinds and
//! `CustomResourceDefinition` itself.

use orlop_crd::CustomResourceDefinition;

pub use orlop_api::registry::{
    ALL_VERBS, Column, DefinitionId, DeleteAnswer, Generation, Kind, KindRef, NameRule, Names, Policy,
    Review, ScalePaths, ScaleSelector, Scope, StatusSubresource, Subresource, TypeRef, UnknownField, ago,
    sibling,
};
pub use orlop_api::registry::{BUILTIN_KINDS, priority_class, scale, service, storage_class};

/// All compiled-in kinds. The kinds of CustomResourceDefinitions are in [`crate::custom::Kinds`].
pub const KINDS: &[&dyn Kind] = &all();

const LENGTH: usize = BUILTIN_KINDS.len() + 1;

/// The position of `CustomResourceDefinition`: after VolumeAttachment.
const AT: usize = 33;

const fn all() -> [&'static dyn Kind; LENGTH] {
    let mut all: [&'static dyn Kind; LENGTH] = [&CustomResourceDefinition; LENGTH];
    let mut from = 0;
    while from < BUILTIN_KINDS.len() {
        let to = if from < AT { from } else { from + 1 };
        all[to] = BUILTIN_KINDS[from];
        from += 1;
    }
    all
}

/// The kind at a path: `("", "v1", "pods")`.
pub fn by_resource(group: &str, version: &str, plural: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| {
        let names = kind.names();
        names.group == group && names.version == version && names.plural == plural
    })
}

/// The kind whose objects are stored under a prefix such as `/registry/pods/`, in its stored form.
pub fn by_storage_prefix(prefix: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| kind.storage_prefix() == prefix && kind.is_stored() && !kind.is_view())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_once_and_definitions_follow_attachments() {
        let plurals: Vec<&str> = KINDS.iter().map(|kind| kind.names().plural).collect();
        assert_eq!(plurals[AT - 1..=AT], ["volumeattachments", "customresourcedefinitions"]);
        let mut resources: Vec<_> =
            KINDS.iter().map(|kind| (kind.names().group, kind.names().plural)).collect();
        resources.sort_unstable();
        resources.dedup();
        assert_eq!(resources.len(), KINDS.len());
    }
}
