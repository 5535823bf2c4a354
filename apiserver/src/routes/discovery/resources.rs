//! The resources of a group version: its kinds and their subresources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::custom::Served;
use crate::insight;
use crate::registry::{KINDS, Kind, KindRef, Scope, StatusSubresource};

/// A subresource in a discovery document.
pub(super) struct Sub {
    pub(super) name: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) verbs: &'static [&'static str],
}

pub(super) fn subresources(kind: &dyn Kind) -> Vec<Sub> {
    let names = kind.names();
    let mut subs: Vec<Sub> = kind
        .subresources()
        .iter()
        .map(|sub| Sub {
            name: sub.name,
            group: sub.group,
            version: sub.version,
            kind: sub.kind,
            verbs: sub.verbs,
        })
        .collect();
    if kind.policy().status != StatusSubresource::None {
        subs.push(Sub {
            name: "status",
            group: names.group,
            version: names.version,
            kind: names.kind,
            verbs: &["get", "patch", "update"],
        });
    }
    if kind.definition().is_some() {
        // Upstream lists the status of a custom kind before its scale.
        subs.reverse();
    } else {
        subs.sort_by_key(|sub| sub.name);
    }
    subs
}

/// The verbs of a kind. Objects of a deleted custom kind can only be read and deleted.
pub(super) fn verbs(kind: &dyn Kind) -> &'static [&'static str] {
    match kind.is_terminating() {
        true => &["delete", "deletecollection", "get", "list", "watch"],
        false => kind.verbs(),
    }
}

pub(super) fn kinds_of(served: &Served, group: &str, version: &str) -> Vec<KindRef> {
    let is_there = |kind: &KindRef| kind.names().group == group && kind.names().version == version;
    let given = KINDS.iter().map(|kind| KindRef::Builtin(*kind)).filter(is_there);
    let mut kinds: Vec<KindRef> = given.collect();
    kinds.extend(served.kinds_of(group, version));
    kinds.sort_by_key(|kind| kind.names().plural);
    kinds
}

pub(super) fn resources(served: &Served, group: &str, version: &str) -> Vec<Value> {
    let mut list = Vec::new();
    if group.is_empty() {
        list.push(json!({
            "name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding",
            "verbs": ["create"],
        }));
    }
    for kind in kinds_of(served, group, version) {
        let names = kind.names();
        let namespaced = kind.scope() == Scope::Namespaced;
        let mut entry = json!({
            "name": names.plural, "singularName": names.singular, "namespaced": namespaced,
            "kind": names.kind, "verbs": verbs(&*kind),
        });
        if let Some(version) = kind.storage_version() {
            entry["storageVersionHash"] = storage_version_hash(names.group, version, names.kind).into();
        }
        if !names.short.is_empty() {
            entry["shortNames"] = json!(names.short);
        }
        if !names.categories.is_empty() {
            entry["categories"] = json!(names.categories);
        }
        list.push(entry);
        for sub in subresources(&*kind) {
            let mut entry = json!({
                "name": format!("{}/{}", names.plural, sub.name), "singularName": "", "namespaced": namespaced,
                "kind": sub.kind, "verbs": sub.verbs,
            });
            if (sub.group, sub.version) != (names.group, names.version) {
                entry["group"] = sub.group.into();
                entry["version"] = sub.version.into();
            }
            list.push(entry);
        }
    }
    if served.lists_own && (group, version) == (insight::GROUP, insight::VERSION) {
        list.extend(insight::document::resources());
    }
    // The subresources follow their resource.
    let resource = |entry: &Value| {
        let name = entry["name"].as_str().unwrap_or_default();
        name.split('/').next().unwrap_or_default().to_owned()
    };
    list.sort_by_cached_key(resource);
    list
}

/// Identifies the version in which the objects of a kind are stored: a client compares it with an earlier one.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_version_hash_is_upstreams() {
        assert_eq!(storage_version_hash("apps", "v1", "Deployment"), "8aSe+NMegvE=");
    }
}
