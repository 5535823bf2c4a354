//! Reads and writes the list `metadata.managedFields`, which records the owner of each field and the time of
//! the change.

use std::collections::{HashMap, hash_map};

use serde_json::{Map, Value};

use super::fields_v1;
use super::set::Set;

/// Maximum number of separate Update entries; older ones are merged into one.
const MAX_UPDATERS: usize = 10;
/// The manager of merged old updates.
const ANCIENT: &str = "ancient-changes";

/// The operation of an entry, in the sort order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    /// Server-side apply: the entry lists the fields that the manager last applied.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// The owner of an entry. An applier has one entry regardless of the version it applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntryOwner {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
}

impl EntryOwner {
    /// The owner in the form in which owners of one entry are equal.
    pub(crate) fn key(&self) -> EntryOwner {
        match self.operation {
            Operation::Apply => EntryOwner { api_version: String::new(), ..self.clone() },
            Operation::Update => self.clone(),
        }
    }

    fn is(&self, other: &EntryOwner) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
            && self.subresource == other.subresource
    }

    /// The owner as it appears in conflict messages.
    pub(crate) fn shown(&self) -> String {
        let mut text = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", Value::from(self.subresource.as_str())));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// The fields of one owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub owner: EntryOwner,
    /// The time of the owner's last change, in the format of the API. An apply that changes nothing sets no time.
    pub time: Option<String>,
    pub fields: Set,
}

/// The entries of an object, unordered, with at most one per owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entries(pub(crate) Vec<Entry>);

impl Entries {
    /// Reads the list. One invalid entry invalidates the whole list, and the result is `None`.
    pub(crate) fn decode(list: &[Value]) -> Option<Self> {
        let mut entries = Entries(Vec::with_capacity(list.len() + 1));
        let mut places = HashMap::with_capacity(list.len());
        for item in list {
            let entry = decode_entry(item)?;
            match places.entry(entry.owner.key()) {
                hash_map::Entry::Occupied(at) => entries.0[*at.get()] = entry,
                hash_map::Entry::Vacant(place) => {
                    place.insert(entries.0.len());
                    entries.0.push(entry);
                }
            }
        }
        Some(entries)
    }

    /// Returns the sorted list, or `None` if it is empty.
    pub(crate) fn encode(mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        Some(Value::Array(self.0.into_iter().map(encode_entry).collect()))
    }

    /// The position of an owner's entry.
    pub(crate) fn find(&self, owner: &EntryOwner) -> Option<usize> {
        self.0.iter().position(|entry| entry.owner.is(owner))
    }

    /// Removes and returns an owner's entry.
    pub(crate) fn take(&mut self, owner: &EntryOwner) -> Option<Entry> {
        self.find(owner).map(|at| self.0.remove(at))
    }

    /// Merges the oldest Update entries until at most `MAX_UPDATERS` remain. As in upstream, entries of one version
    /// share a bucket, and the first entry of a version is merged only together with a second one. A client may send
    /// thousands of entries, so each is visited once.
    pub(crate) fn cap(&mut self) {
        let is_updater = |entry: &Entry| entry.owner.operation == Operation::Update;
        let mut count = self.0.iter().filter(|entry| is_updater(entry)).count();
        if count <= MAX_UPDATERS {
            return;
        }
        let (mut updaters, others): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.0).into_iter().partition(is_updater);
        let age = |entry: &Entry| entry.time.clone().unwrap_or_default();
        updaters.sort_by_cached_key(|entry| (age(entry), entry.owner.clone()));
        let mut buckets: HashMap<String, Bucket> = HashMap::new();
        for (at, entry) in updaters.iter().enumerate() {
            let bucket = buckets.entry(entry.owner.api_version.clone()).or_default();
            if entry.owner.manager == ANCIENT && entry.owner.subresource.is_empty() {
                bucket.at = Some(at);
            }
        }
        let mut merged: Vec<Option<Entry>> = updaters.into_iter().map(Some).collect();
        for (at, place) in merged.iter_mut().enumerate() {
            if count <= MAX_UPDATERS {
                break;
            }
            let Some(bucket) = place.as_ref().and_then(|entry| buckets.get_mut(&entry.owner.api_version))
            else {
                continue;
            };
            let Some(oldest) = bucket.oldest else {
                bucket.oldest = Some(at);
                continue;
            };
            let into = *bucket.at.get_or_insert(oldest);
            if into == at {
                continue;
            }
            let Some(joined) = place.take() else { continue };
            bucket.fields.push(joined.fields);
            // Entries are processed by time, so this is the latest of the bucket.
            bucket.time = joined.time;
            count -= 1;
        }
        for bucket in buckets.into_values().filter(|bucket| !bucket.fields.is_empty()) {
            let Some(entry) = bucket.at.and_then(|at| merged[at].as_mut()) else { continue };
            entry.owner.manager = ANCIENT.to_owned();
            entry.owner.subresource = String::new();
            entry.time = bucket.time;
            entry.fields.unite(Set::union(bucket.fields));
        }
        self.0 = others;
        self.0.extend(merged.into_iter().flatten());
    }
}

/// The merged Update entries of one API version.
#[derive(Default)]
struct Bucket {
    /// The oldest entry of the version.
    oldest: Option<usize>,
    /// The entry that the others are merged into: the one of [`ANCIENT`], else the oldest.
    at: Option<usize>,
    fields: Vec<Set>,
    time: Option<String>,
}

/// The sort key of owners where upstream sorts by manager identifier.
pub(crate) fn identity(owner: &EntryOwner) -> (&str, Operation, &str, &str) {
    let version = match owner.operation {
        Operation::Apply => "",
        Operation::Update => owner.api_version.as_str(),
    };
    (&owner.manager, owner.operation, version, &owner.subresource)
}

fn sort_key(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
    let owner = &entry.owner;
    let time = entry.time.as_deref().unwrap_or_default();
    (owner.operation, time, &owner.manager, &owner.api_version, &owner.subresource)
}

fn decode_entry(item: &Value) -> Option<Entry> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
        return None;
    }
    let owner = EntryOwner {
        manager: text("manager").to_owned(),
        operation,
        api_version: text("apiVersion").to_owned(),
        subresource: text("subresource").to_owned(),
    };
    let time = item.get("time").and_then(Value::as_str).map(str::to_owned);
    let fields = fields_v1::parse(item.get("fieldsV1").unwrap_or(&Value::Null))?;
    Some(Entry { owner, time, fields })
}

fn encode_entry(entry: Entry) -> Value {
    let mut map = Map::new();
    let EntryOwner { manager, operation, api_version, subresource } = entry.owner;
    for (name, text) in [("manager", manager), ("apiVersion", api_version), ("subresource", subresource)] {
        if !text.is_empty() {
            map.insert(name.to_owned(), text.into());
        }
    }
    map.insert("operation".to_owned(), operation.name().into());
    if let Some(time) = entry.time {
        map.insert("time".to_owned(), time.into());
    }
    map.insert("fieldsType".to_owned(), "FieldsV1".into());
    map.insert("fieldsV1".to_owned(), fields_v1::print(&entry.fields));
    Value::Object(map)
}

#[cfg(test)]
mod tests;
