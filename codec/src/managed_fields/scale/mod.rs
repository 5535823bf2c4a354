//! Converts the ownership of the replica count between `/scale` and the object.
//!
//! A Scale is written like a separate object, so its managed fields are derived from the object's: the owners of
//! the object's replicas own those of the Scale. After the write, the two lists are merged.
//! Upstream: apimachinery `pkg/util/managedfields/scalehandler.go`.

use std::collections::{HashMap, HashSet};

use orlop_api::object::Object;
use orlop_api::registry::{Kind, scale};

use super::entries::{Entries, Entry, EntryOwner};
use super::set::{Element, Set};
use super::update::{list, set_list};

/// Writes the owners of an object's replicas into the managed fields of its Scale.
pub fn to_scale(kind: &dyn Kind, object: &Object, replicas: &[&str], scale: &mut Object) {
    let path = elements(replicas);
    let of_scale = |entry: Entry| Entry {
        owner: EntryOwner { api_version: scale::NAMES.api_version(), ..entry.owner },
        fields: Set::of_fields(&[&scale::REPLICAS]),
        ..entry
    };
    let entries = decoded(object).0.into_iter();
    let entries = entries.filter(|entry| is_version_of(kind, entry) && entry.fields.has(&path)).map(of_scale);
    set_list(scale, Entries(entries.collect()).encode());
}

/// Merges the owners of a changed Scale into the object, which still has its old list. Replicas owned by the
/// Scale's writer are removed from the object's other owners. A plain write of a Scale records no time.
pub fn to_object(kind: &dyn Kind, object: &mut Object, replicas: &[&str], scale: &Object) {
    let path = elements(replicas);
    let own = Set::of_fields(&[replicas]);
    let of_scale = decoded(scale);
    let mut unseen: HashSet<EntryOwner> = of_scale.0.iter().map(|entry| entry.owner.key()).collect();
    let before = decoded(object);
    let mut after: Vec<Entry> = Vec::new();
    for mut entry in before.0.iter().filter(|entry| is_version_of(kind, entry)).cloned() {
        if entry.fields.has(&path) {
            // An applier is the same owner in every version; a plain writer is a different owner in each.
            if !unseen.remove(&entry.owner.key()) {
                entry.fields.subtract(&own);
                if entry.fields.is_empty() {
                    continue;
                }
            }
        }
        after.push(entry);
    }
    let has_replicas = |entry: &Entry| entry.fields.has(&elements(&scale::REPLICAS));
    let times: HashMap<EntryOwner, &Option<String>> =
        before.0.iter().map(|entry| (entry.owner.key(), &entry.time)).collect();
    let places: HashMap<EntryOwner, usize> =
        after.iter().enumerate().map(|(at, entry)| (entry.owner.key(), at)).collect();
    let changed = of_scale.0.into_iter().filter(|entry| unseen.contains(&entry.owner.key()));
    for entry in changed.filter(has_replicas) {
        let time = times.get(&entry.owner.key()).and_then(|time| (*time).clone());
        let at = places.get(&entry.owner.key()).copied();
        let owner = EntryOwner { api_version: kind.names().api_version(), ..entry.owner };
        let new = Entry { owner, time, fields: own.clone() };
        match at {
            Some(at) => after[at] = new,
            None => after.push(new),
        }
    }
    set_list(object, Entries(after).encode());
}

fn decoded(object: &Object) -> Entries {
    Entries::decode(list(object)).unwrap_or_default()
}

/// Whether an entry has a version in the kind's own group; paths of other groups cannot be interpreted.
fn is_version_of(kind: &dyn Kind, entry: &Entry) -> bool {
    entry.owner.api_version.rsplit_once('/').map_or("", |(group, _)| group) == kind.names().group
}

fn elements(path: &[&str]) -> Vec<Element> {
    path.iter().map(|name| Element::field(name)).collect()
}

#[cfg(test)]
mod tests;
