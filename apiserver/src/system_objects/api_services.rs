//! Creates and restores the APIServices of the groups that this server serves itself: those of built-in kinds when it starts, those
//! of custom kinds at all times.
//!
//! Upstream: kube-aggregator pkg/controllers/autoregister, pkg/controlplane/controller/crdregistration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_store::{Snapshot, Write};

use super::repair::{Checked, repair};
use super::{creation, readable, removal, replacement};
use crate::custom::Served;
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::api_service::{self, GROUP, Managed};
use crate::registry::{KINDS, Kind, by_resource};
use crate::state::Inner;
use orlop_api::object::Object;
use orlop_api::registry::custom_resource_definition as definition;

/// The priorities of the built-in groups, and of their versions where they are not [`PRIORITY`]. The API group of APIServices has none.
const GROUPS: [(&str, i32); 19] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
];
/// The priority of the group of devices.
const RESOURCE: (&str, i32) = ("resource.k8s.io", 15_900);
/// The priority of most versions.
const PRIORITY: i32 = 15;
/// The priorities of the groups of custom kinds and of their versions.
const CUSTOM: (i32, i32) = (1000, 100);

/// The priority of a group of this server in discovery.
pub(crate) fn group_priority(group: &str) -> i32 {
    GROUPS
        .iter()
        .chain([&RESOURCE])
        .find(|(known, _)| *known == group)
        .map_or(CUSTOM.0, |(_, priority)| *priority)
}

/// A group and a version.
type GroupVersion = (&'static str, &'static str);

/// The priority of a version of a built-in group.
fn version_priority(group: &str, version: &str) -> i32 {
    match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io", _) => 21,
        _ => PRIORITY,
    }
}

/// The groups and versions of built-in kinds with their priorities.
fn builtin() -> BTreeMap<GroupVersion, (i32, i32)> {
    let versions = KINDS.iter().map(|kind| (kind.names().group, kind.names().version));
    let priority = |(group, version): GroupVersion| {
        let known = GROUPS.iter().chain([&RESOURCE]).find(|(known, _)| *known == group)?;
        Some(((group, version), (known.1, version_priority(group, version))))
    };
    versions.filter_map(priority).collect()
}

/// The groups and versions that only custom kinds have.
pub(crate) fn custom(served: &Served) -> BTreeSet<GroupVersion> {
    let builtin = builtin();
    let all = served
        .groups()
        .iter()
        .flat_map(|(group, versions)| versions.iter().map(move |version| (*group, *version)));
    all.filter(|version| !builtin.contains_key(version) && version.0 != GROUP).collect()
}

fn kind() -> Option<&'static dyn Kind> {
    by_resource(GROUP, "v1", "apiservices")
}

/// The change of a stored object.
#[derive(Debug, PartialEq)]
enum Change {
    None,
    Restore(Object),
    Delete,
}

/// Compares a stored object with the wanted one.
fn compare(stored: &Object, wanted: Option<&Object>, at_start: bool) -> Change {
    let Some(managed) = Managed::of(stored) else { return Change::None };
    if managed == Managed::OnStart && !at_start {
        return Change::None;
    }
    let Some(wanted) = wanted else { return Change::Delete };
    let mut next = stored.clone();
    next.copy_member(wanted, "spec");
    let labels = wanted.labels().cloned().unwrap_or_default();
    next.object_at(&["metadata", "labels"]).extend(labels);
    if next == *stored { Change::None } else { Change::Restore(next) }
}

/// The groups of definitions that cannot be read. Their kinds are not served, but may be again.
fn unreadable_groups(head: &Snapshot<Projection>) -> BTreeSet<String> {
    let unreadable = head.range(definition::PREFIX, None).filter(|record| stored::readable(record).is_err());
    // The name of a definition ends with its group.
    let group = |key: &str| Some(key.strip_prefix(definition::PREFIX)?.split_once('.')?.1.to_owned());
    unreadable.filter_map(|record| group(record.key.as_str())).collect()
}

/// Creates missing objects, restores changed ones, and deletes those of groups that are no longer served.
///
/// # Errors
/// A message for the log if the objects cannot be written.
pub(super) async fn keep(server: &Arc<Inner>, at_start: bool) -> Result<(), String> {
    let Some(kind) = kind() else { return Ok(()) };
    let of = server.clone();
    let compute = move |head: &Snapshot<Projection>| changes(&of, head, kind, at_start);
    // Each round checks: the served groups do not depend on the objects alone.
    repair(&server.store, &mut Checked::default(), &[], Arc::new(compute)).await
}

fn changes(
    server: &Inner,
    head: &Snapshot<Projection>,
    kind: &dyn Kind,
    at_start: bool,
) -> Vec<Write<Projection>> {
    let mut wanted: BTreeMap<String, Object> = BTreeMap::new();
    let mut want = |object: Object| drop(wanted.insert(object.name().to_owned(), object));
    for ((group, version), priorities) in builtin() {
        want(api_service::local(group, version, priorities, Managed::OnStart));
    }
    for (group, version) in custom(&server.kinds.now()) {
        want(api_service::local(group, version, CUSTOM, Managed::Continuously));
    }
    let unreadable = unreadable_groups(head);
    let mut writes: Vec<Write<Projection>> = Vec::new();
    for (record, object) in readable(head, kind) {
        match compare(&object, wanted.get(object.name()), at_start) {
            Change::None => {}
            Change::Restore(next) => writes.push(replacement(kind, record, next)),
            Change::Delete if unreadable.contains(object.str_at(&["spec", "group"])) => {}
            Change::Delete => writes.push(removal(record)),
        }
    }
    let is_missing = |object: &Object| {
        let is_due = at_start || Managed::of(object) == Some(Managed::Continuously);
        is_due && head.get(&dispatch::key(kind, "", object.name())).is_none()
    };
    let missing = wanted.into_values().filter(is_missing);
    writes.extend(missing.map(|object| creation(server, kind, object)));
    writes
}

/// Creates and deletes the objects of custom kinds after a change of the served groups. `published` are the groups of the last call.
pub(crate) async fn follow(server: &Arc<Inner>, published: &mut BTreeSet<GroupVersion>) {
    let served = custom(&server.kinds.now());
    if served == *published {
        return;
    }
    let Some(kind) = kind() else { return };
    let changed: Vec<(GroupVersion, bool)> =
        served.symmetric_difference(published).map(|version| (*version, served.contains(version))).collect();
    let of = server.clone();
    let compute = move |head: &Snapshot<Projection>| {
        let unreadable = unreadable_groups(head);
        let write = |((group, version), is_served): &(GroupVersion, bool)| {
            let object = api_service::local(group, version, CUSTOM, Managed::Continuously);
            let record = head.get(&dispatch::key(kind, "", object.name()));
            match (record, is_served) {
                (None, true) => Some(creation(&of, kind, object)),
                (Some(record), false) if !unreadable.contains(*group) => {
                    let stored = stored::decode(record).ok()?;
                    (Managed::of(&stored) == Some(Managed::Continuously)).then(|| removal(record))
                }
                (None | Some(_), false) | (Some(_), true) => None,
            }
        };
        changed.iter().filter_map(write).collect()
    };
    match repair(&server.store, &mut Checked::default(), &[], Arc::new(compute)).await {
        Ok(()) => *published = served,
        Err(error) => tracing::warn!(error, "cannot write the APIServices of custom kinds"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_builtin_group_has_a_priority() {
        let listed: BTreeSet<&str> = builtin().keys().map(|(group, _)| *group).collect();
        let groups: BTreeSet<&str> =
            KINDS.iter().map(|kind| kind.names().group).filter(|group| *group != GROUP).collect();
        assert_eq!(listed, groups);
        for (version, want) in [
            (("", "v1"), (18_000, 1)),
            (("storage.k8s.io", "v1"), (16_800, 15)),
            (("autoscaling", "v1"), (17_500, 15)),
            (("autoscaling", "v2"), (17_500, 30)),
        ] {
            assert_eq!(builtin().get(&version), Some(&want), "{version:?}");
        }
    }

    #[test]
    fn managed_objects_are_restored_and_others_stay_unchanged() {
        let local = |managed| api_service::local("a.example", "v1", CUSTOM, managed);
        let (start, always) = (local(Managed::OnStart), local(Managed::Continuously));
        let changed = |object: &Object| {
            let mut object = object.clone();
            object.set(&["spec", "versionPriority"], 7);
            object
        };
        let mut own = changed(&always);
        own.meta().remove("labels");
        for (case, stored, wanted, at_start, want) in [
            ("1 unchanged", &always, Some(&always), false, Change::None),
            ("2 changed", &changed(&always), Some(&always), false, Change::Restore(always.clone())),
            ("3 changed, at start only", &changed(&start), Some(&start), false, Change::None),
            ("4 changed, at start", &changed(&start), Some(&start), true, Change::Restore(start.clone())),
            ("5 no longer served", &always, None, false, Change::Delete),
            ("6 no longer built in", &start, None, false, Change::None),
            ("7 no longer built in, at start", &start, None, true, Change::Delete),
            ("8 of a user", &own, None, true, Change::None),
            ("9 of a user, served", &own, Some(&always), true, Change::None),
        ] {
            assert_eq!(compare(stored, wanted, at_start), want, "{case}");
        }
        assert_eq!(start.at(&["metadata", "name"]), Some(&json!("v1.a.example")));
    }
}
