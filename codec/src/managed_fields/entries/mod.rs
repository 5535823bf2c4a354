//! Reads and writes the list `metadata.managedFields`, which records the owner of each field and the time of
//! the change.

use serde_json::{Map, Value};

use super::fields_v1;
use super::set::Set;

/// Maximum number of separate Update entries; older ones are merged into one.
const MAX_UPDATERS: usize = 10;
/// The manager of merged old updates.
const ANCIENT: &str = "ancient-changes";

/// The operation of an entry, in the sort order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryOwner {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
}

impl EntryOwner {
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
        for item in list {
            let entry = decode_entry(item)?;
            match entries.find(&entry.owner) {
                Some(at) => entries.0[at] = entry,
                None => entries.0.push(entry),
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
    /// share a bucket, and the first entry of a version is merged only together with a second one.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<(String, EntryOwner)> = self
            .0
            .iter()
            .filter(|entry| entry.owner.operation == Operation::Update)
            .map(|entry| (entry.time.clone().unwrap_or_default(), entry.owner.clone()))
            .collect();
        let mut count = updaters.len();
        updaters.sort_by(|a, b| (&a.0, identity(&a.1)).cmp(&(&b.0, identity(&b.1))));
        let mut first: Vec<EntryOwner> = Vec::new();
        for (_, owner) in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let bucket =
                EntryOwner { manager: ANCIENT.to_owned(), subresource: String::new(), ..owner.clone() };
            let Some(oldest) = first.iter().find(|oldest| oldest.api_version == owner.api_version) else {
                first.push(owner);
                continue;
            };
            if self.find(&bucket).is_none()
                && let Some(at) = self.find(oldest)
            {
                self.0[at].owner = bucket.clone();
            }
            if bucket.is(&owner) {
                continue;
            }
            let Some(joined) = self.take(&owner) else { continue };
            if let Some(at) = self.find(&bucket) {
                self.0[at].fields.unite(joined.fields);
                // Entries are processed by time, so this is the later of the two.
                self.0[at].time = joined.time;
            }
            count -= 1;
        }
    }
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
