//! Tracks plain writes: a create, update, patch or subresource write makes its manager the owner of the changed
//! fields and removes them from all other owners.
//!
//! A client can replace the stored list with its own, or clear it with an empty list or one empty entry. An
//! omitted or invalid list leaves the stored one unchanged. An object without a list is not tracked again until
//! its next apply.

use std::collections::HashMap;
use std::sync::LazyLock;

use orlop_api::object::Object;
use orlop_api::registry::{self, Kind, StatusSubresource};
use orlop_openapi::StructType;
use serde_json::{Map, Value};

use super::compare::{Changes, compare};
use super::entries::{Entries, Entry, EntryOwner, Operation, identity};
use super::fields_v1::path_text;
use super::set::{Element, Set};
use crate::decode::zero_object;

/// The context of a write: the kind, the manager, and the time.
pub struct Writer<'a> {
    /// The kind of the object.
    pub kind: &'a dyn Kind,
    /// `""` for the main resource.
    pub subresource: &'a str,
    /// The name of the manager.
    pub manager: &'a str,
    /// The time in the format of the API.
    pub now: &'a str,
}

impl Writer<'_> {
    pub(super) fn owner(&self, operation: Operation) -> EntryOwner {
        EntryOwner {
            manager: self.manager.to_owned(),
            operation,
            api_version: self.kind.names().api_version(),
            subresource: self.subresource.to_owned(),
        }
    }

    /// The fields that a write to this subresource cannot change and therefore does not own.
    pub(super) fn reset(&self) -> &'static Set {
        static NOTHING: Set = Set::new();
        static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["status"]]));
        static SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["spec"]]));
        static ALL_BUT_STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata"]]));
        static POD: LazyLock<Set> = LazyLock::new(|| {
            Set::of_fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
        });
        static DEPLOYMENT: LazyLock<Set> =
            LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata", "labels"]]));
        // Upstream: GetResetFields in pkg/registry/certificates/certificates/strategy.go.
        static CERTIFICATE: LazyLock<Set> =
            LazyLock::new(|| Set::of_fields(&[&["spec"], &["status", "conditions"]]));
        static APPROVAL: LazyLock<Set> =
            LazyLock::new(|| Set::of_fields(&[&["spec"], &["status", "certificate"]]));
        let names = self.kind.names();
        match (self.kind.policy().status, self.subresource, names.plural) {
            (StatusSubresource::None, _, _) => &NOTHING,
            (StatusSubresource::StatusOnly, "status", _) => &ALL_BUT_STATUS,
            (StatusSubresource::WithMetadata, "status", "pods") => &POD,
            (StatusSubresource::WithMetadata, "status", "deployments") => &DEPLOYMENT,
            (StatusSubresource::WithMetadata, "status", "certificatesigningrequests") => &CERTIFICATE,
            (StatusSubresource::WithMetadata, "approval", "certificatesigningrequests") => &APPROVAL,
            (StatusSubresource::WithMetadata, "status", _) => &SPEC,
            (StatusSubresource::WithMetadata | StatusSubresource::StatusOnly, _, _) => &STATUS,
        }
    }
}

/// Fields that are never owned: server-managed metadata.
fn never_owned() -> &'static Set {
    static NEVER: LazyLock<Set> = LazyLock::new(|| {
        let metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let paths = metadata.map(|name| ["metadata", name]);
        let mut all: Vec<&[&str]> = vec![&["apiVersion"], &["kind"], &["metadata"]];
        all.extend(paths.iter().map(<[&str; 2]>::as_slice));
        Set::of_fields(&all)
    });
    &NEVER
}

/// Removes the fields that are never owned from a set.
pub(super) fn strip(set: &mut Set) {
    set.subtract(never_owned());
}

/// Writes the managed fields of a changed object (or, without `live`, of a new one). The object must be decoded,
/// patched and defaulted; admission runs later.
pub fn track(writer: &Writer<'_>, live: Option<&Object>, object: &mut Object) {
    let given = object.0.get_mut("metadata").and_then(|meta| meta.as_object_mut()?.remove("managedFields"));
    let stored = live.map(list).unwrap_or_default();
    let given = match &given {
        Some(Value::Array(given)) if writer.subresource.is_empty() => Some(given.as_slice()),
        _ => None,
    };
    if given.is_some_and(is_reset) && live.is_some() {
        return;
    }
    let own = given.filter(|given| *given != stored).and_then(Entries::decode);
    let own = own.filter(|entries| !entries.0.is_empty());
    if live.is_some() && own.is_none() && stored.is_empty() {
        return;
    }
    let Some(ty) = writer.kind.struct_type() else { return };
    let ty = &*ty;
    let empty;
    let old = match live {
        Some(live) => &live.0,
        None => {
            empty = empty_object(ty);
            &empty
        }
    };
    let mut changes = compare(ty, old, &object.0);
    changes.subtract(never_owned());
    changes.subtract_deep(writer.reset());
    let entries = match own {
        None if changes.is_empty() => {
            set_list(object, (!stored.is_empty()).then(|| Value::Array(stored.to_vec())));
            return;
        }
        None => Entries::decode(stored).unwrap_or_default(),
        Some(own) => own,
    };
    if live.is_some() && entries.0.is_empty() {
        return;
    }
    let entries = update(writer, old, &object.0, changes, entries);
    set_list(object, entries.encode());
}

/// Returns the entries after a plain write with these changes.
pub(super) fn update(
    writer: &Writer<'_>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    changes: Changes,
    mut entries: Entries,
) -> Entries {
    let owner = writer.owner(Operation::Update);
    if !entries.0.is_empty() {
        // Removes the fields from all owners, including the writer; the union below adds them back to the writer.
        let _ = disown(writer, old, new, &changes, &mut entries, None, true);
    }
    let mut fields = changes.written;
    strip(&mut fields);
    if !fields.is_empty() {
        let time = Some(writer.now.to_owned());
        let entry = match entries.take(&owner) {
            Some(mut entry) => {
                entry.fields.unite(fields);
                Entry { time, ..entry }
            }
            None => Entry { owner, time, fields },
        };
        entries.0.push(entry);
    }
    entries.cap();
    entries
}

/// Total length of the conflicts that one response lists, bytes. The others are left out: a path with a long key may
/// lead to thousands of fields.
const MAX_CONFLICTS_TEXT: usize = 1 << 20;

/// Maximum number of other API versions that the owners of an object may name. The object is converted and compared in
/// each of them; owners in more versions lose their fields, like those in versions that are not served.
pub(super) const MAX_VERSIONS: usize = 20;

/// A path that has another owner and would change its value.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub owner: EntryOwner,
    /// The path as shown in messages.
    pub path: String,
    /// The path itself.
    pub elements: Vec<Element>,
}

/// Removes changed fields from the entries of all owners except `keep`. Without `force`, a new value in a
/// field of another owner is a conflict: the entries stay unchanged and the conflicts are returned.
pub(super) fn disown(
    writer: &Writer<'_>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    changes: &Changes,
    entries: &mut Entries,
    keep: Option<&EntryOwner>,
    force: bool,
) -> Result<(), Vec<Conflict>> {
    let version = writer.kind.names().api_version();
    let mut others: HashMap<String, Option<Changes>> = HashMap::new();
    let kept = |entry: &Entry| keep.is_some_and(|keep| entry.owner == *keep);
    let mut known = 0;
    for entry in &entries.0 {
        let theirs = &entry.owner.api_version;
        if *theirs != version && !kept(entry) && !others.contains_key(theirs) {
            let sibling = registry::sibling(writer.kind, theirs).filter(|_| known < MAX_VERSIONS);
            known += usize::from(sibling.is_some());
            let changes = sibling.and_then(|kind| changes_in(writer.kind, &*kind, old, new));
            others.insert(theirs.clone(), changes);
        }
    }
    let changes_for = |theirs: &str| match theirs == version {
        true => Some(changes),
        false => others.get(theirs).and_then(Option::as_ref),
    };
    if !force {
        let (mut conflicts, mut text, mut is_cut) = (Vec::new(), 0, false);
        for entry in entries.0.iter().filter(|entry| !kept(entry)) {
            let Some(changes) = changes_for(&entry.owner.api_version) else { continue };
            let common = entry.fields.intersection(&changes.written);
            common.each_path(&mut |path| {
                if text > MAX_CONFLICTS_TEXT {
                    is_cut = true;
                    return;
                }
                let elements = path.iter().map(|element| (*element).clone()).collect();
                let path = path_text(path);
                text += path.len() + entry.owner.manager.len();
                conflicts.push(Conflict { owner: entry.owner.clone(), path, elements });
            });
        }
        if is_cut && let Some(last) = conflicts.last() {
            // Its empty path is in no set of fields, so a list that was cut is never forgiven.
            let rest =
                Conflict { path: "(and more fields)".to_owned(), elements: Vec::new(), ..last.clone() };
            conflicts.push(rest);
        }
        if !conflicts.is_empty() {
            conflicts.sort_by(|a, b| identity(&a.owner).cmp(&identity(&b.owner)));
            return Err(conflicts);
        }
    }
    entries.0.retain_mut(|entry| {
        if kept(entry) {
            return !entry.fields.is_empty();
        }
        // The version is not served (any more), so the entry cannot be interpreted.
        let Some(changes) = changes_for(&entry.owner.api_version) else { return false };
        entry.fields.subtract(&changes.written);
        entry.fields.subtract(&changes.removed);
        !entry.fields.is_empty()
    });
    Ok(())
}

/// Converts the changes to another version of the kind.
fn changes_in(
    kind: &dyn Kind,
    other: &dyn Kind,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Option<Changes> {
    let shown = |map: &Map<String, Value>| other.to_shown(kind.to_stored(Object(map.clone())));
    let ty = other.struct_type()?;
    Some(compare(&ty, &shown(old).0, &shown(new).0))
}

/// Restores the stored times if a write would change only times, so that it counts as no change. Runs after
/// admission.
pub fn keep_times(object: &mut Object, old: &Object) {
    let (new_list, old_list) = (list(object), list(old));
    if new_list.is_empty() || new_list.len() != old_list.len() || new_list == old_list {
        return;
    }
    // The list is sorted by time, so its order is irrelevant here.
    // An owner has one entry, so an entry of the new list equals that of its owner in the old one, or none.
    let owner = |entry: &'_ Value| {
        ["manager", "operation", "apiVersion", "subresource"].map(|name| entry[name].clone())
    };
    let old_by_owner: HashMap<[Value; 4], &Value> =
        old_list.iter().map(|entry| (owner(entry), entry)).collect();
    let is_known =
        |new: &Value| old_by_owner.get(&owner(new)).is_some_and(|old| timeless(new).eq(timeless(old)));
    if !new_list.iter().all(is_known) || !same_besides_list(object, old) {
        return;
    }
    let old_list = Value::Array(old_list.to_vec());
    set_list(object, Some(old_list));
}

/// The members of an entry without its time.
fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    entry.as_object().into_iter().flatten().filter(|(name, _)| *name != "time")
}

/// Whether two objects are equal apart from their managed fields.
fn same_besides_list(a: &Object, b: &Object) -> bool {
    let members = |object: &Object| object.0.len();
    members(a) == members(b)
        && a.0.iter().all(|(name, value)| match (name.as_str(), b.0.get(name)) {
            ("metadata", Some(Value::Object(other))) => value.as_object().is_some_and(|meta| {
                let same = |name: &String| name == "managedFields" || meta.get(name) == other.get(name);
                meta.keys().chain(other.keys()).all(same)
            }),
            (_, other) => other == Some(value),
        })
}

/// `[]` or `[{}]`.
fn is_reset(given: &[Value]) -> bool {
    match given {
        [] => true,
        [one] => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// The stored list.
pub(super) fn list(object: &Object) -> &[Value] {
    object.at(&["metadata", "managedFields"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets the list on an object, or removes it.
pub(super) fn set_list(object: &mut Object, list: Option<Value>) {
    match list {
        Some(list) => object.set(&["metadata", "managedFields"], list),
        None => drop(object.meta().remove("managedFields")),
    }
}

/// An object before its creation: only the structs that are always present.
pub(super) fn empty_object(ty: &StructType) -> Map<String, Value> {
    let named = orlop_openapi::types().named(&ty.name);
    match named.map(zero_object) {
        Some(Value::Object(map)) => map,
        // Custom kinds have no structs that are always present.
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
