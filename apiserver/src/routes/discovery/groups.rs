//! The API groups in discovery documents, and their versions.

use orlop_apimachinery::version::version_order;

use crate::aggregation::{RemoteGroup, Remotes};
use crate::custom::Served;
use crate::insight;
use crate::registry::KINDS;
use crate::system_objects::api_services;

/// Groups in upstream's order, which decides between kinds with the same short name. Groups without a kind are
/// not listed.
const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
];
/// The version of the core group.
pub(super) const VERSION: &str = "v1";

/// The named groups with their versions, preferred version first. Groups of custom kinds follow those of built-in kinds, and groups of
/// other servers are where their priority places them.
pub(crate) fn groups<'a>(served: &Served, remotes: &'a Remotes) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&'a str, Vec<&'a str>)> = own_groups(served);
    for RemoteGroup { name, versions, priority } in remotes.groups() {
        if let Some((_, known)) = groups.iter_mut().find(|(known, _)| *known == name) {
            let new: Vec<&str> = versions.into_iter().filter(|version| !known.contains(version)).collect();
            known.extend(new);
            continue;
        }
        let rank = |group: &str| match remotes.priority(group) {
            Some(priority) => priority,
            None => api_services::group_priority(group).into(),
        };
        // The group of APIServices is always first.
        let place = groups.iter().skip(1).position(|(known, _)| rank(known) < priority);
        groups.insert(place.map_or(groups.len(), |place| place + 1), (name, versions));
    }
    groups
}

/// The groups of this server.
fn own_groups(served: &Served) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&'static str, Vec<&'static str>)> = GROUP_ORDER
        .iter()
        .copied()
        .map(|group| (group, builtin_versions(group)))
        .filter(|(_, versions)| !versions.is_empty())
        .collect();
    if served.lists_own {
        groups.push((insight::GROUP, vec![insight::VERSION]));
    }
    let given = groups.len();
    for (group, versions) in served.groups() {
        match groups[..given].iter_mut().find(|(known, _)| known == group) {
            None => groups.push((group, versions.clone())),
            Some((_, known)) => {
                let new: Vec<_> =
                    versions.iter().copied().filter(|version| !known.contains(version)).collect();
                known.extend(new);
                known.sort_by(|a, b| version_order(a, b));
            }
        }
    }
    groups
}

/// The versions of a group in which built-in kinds are served, the preferred version first.
fn builtin_versions(group: &str) -> Vec<&'static str> {
    let of_group = KINDS.iter().map(|kind| kind.names()).filter(|names| names.group == group);
    let mut versions: Vec<&'static str> = of_group.map(|names| names.version).collect();
    versions.sort_by(|a, b| version_order(a, b));
    versions.dedup();
    versions
}
