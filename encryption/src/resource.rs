//! The resource that a key belongs to, and the rules' patterns of resources.

use std::fmt;

use orlop_api::registry::{stored_kind, stored_kinds};
use orlop_store::Key;

/// A group and a resource; `*` in a pattern matches all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
}

impl GroupResource {
    /// Parses `secrets` or `deployments.apps`.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource { group: group.to_owned(), resource: resource.to_owned() }
    }

    /// Whether this is a resource that can exist: of a compiled-in kind, of a custom kind, or a pattern that matches some of these.
    pub(crate) fn can_exist(&self) -> bool {
        let mut of_group = stored_kinds().filter(|kind| kind.group == self.group).peekable();
        if of_group.peek().is_none() {
            // Only the groups of custom kinds have a dot and no compiled-in kind.
            return self.group == "*" || self.group.contains('.');
        }
        self.resource == "*" || of_group.any(|kind| kind.plural == self.resource)
    }

    /// The pattern for all resources of the group.
    pub(crate) fn whole_group(&self) -> Self {
        GroupResource { group: self.group.clone(), resource: "*".to_owned() }
    }

    /// The pattern for all resources.
    pub(crate) fn all() -> Self {
        GroupResource { group: "*".to_owned(), resource: "*".to_owned() }
    }
}

impl fmt::Display for GroupResource {
    /// As in the file: `*.` for the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.group.as_str(), self.resource.as_str()) {
            ("", "*") => f.write_str("*."),
            ("", resource) => f.write_str(resource),
            (group, resource) => write!(f, "{resource}.{group}"),
        }
    }
}

/// The resource of a key. `None` for records that are no objects.
pub fn of_key(key: &Key) -> Option<GroupResource> {
    let topic = key.topic();
    if let Some(kind) = stored_kind(topic) {
        return Some(GroupResource { group: kind.group.to_owned(), resource: kind.plural.to_owned() });
    }
    // Custom kinds: /registry/GROUP/PLURAL/.
    let (group, resource) = topic.strip_prefix("/registry/")?.strip_suffix('/')?.split_once('/')?;
    Some(GroupResource { group: group.to_owned(), resource: resource.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn key_belongs_to_the_resource_of_its_kind() {
        for (key, want) in [
            ("/registry/secrets/default/a", Some("secrets")),
            ("/registry/configmaps/default/a", Some("configmaps")),
            ("/registry/persistentvolumes/a", Some("persistentvolumes")),
            ("/registry/storageclasses/a", Some("storageclasses.storage.k8s.io")),
            ("/registry/example.com/widgets/default/a", Some("widgets.example.com")),
            ("/registry/unknown/a", None),
            ("/other", None),
        ] {
            let found = of_key(&Key::from(key)).map(|found| found.to_string());
            assert_eq!(found.as_deref(), want, "{key}");
        }
    }

    #[test]
    fn every_stored_kind_has_a_resource() {
        for kind in stored_kinds() {
            let found = of_key(&Key::from(format!("{}a/b", kind.prefix))).unwrap();
            assert_eq!((found.group.as_str(), found.resource.as_str()), (kind.group, kind.plural));
            assert!(found.can_exist() && found.whole_group().can_exist(), "{found}");
        }
    }

    #[test]
    fn rules_that_match_nothing_are_recognized() {
        for (text, want) in [
            ("*.*", true),
            ("*.", true),
            ("*.apps", true),
            ("widgets.example.com", true),
            ("validatingadmissionpolicies.admissionregistration.k8s.io", true),
            ("secret", false),
            ("deployments", false),
            ("secrets.apps", false),
            ("horizontalpodautoscalers.autoscaling", true),
            ("scales.autoscaling", false),
        ] {
            assert_eq!(GroupResource::parse(text).can_exist(), want, "{text}");
        }
    }

    #[test]
    fn patterns_are_parsed_and_printed_as_in_the_file() {
        for text in ["secrets", "deployments.apps", "*.", "*.apps", "*.*", "pandas.awesome.bears.example"] {
            assert_eq!(GroupResource::parse(text).to_string(), text);
        }
    }
}
