//! What an object has for itself alone: the writes that take it and give it back, for the commit that
//! writes the object.
//!
//! A reservation is a record at a key of its own that names its owner. Taking one expects the key to be
//! absent, so of two commits that want it one fails as a whole.

use orlop_store::{Expect, Key, Op, Snapshot, Write};
use serde_json::{Value, json};

use crate::projection::Projection;
use crate::registry::Kind;
use orlop_api::object::Object;

/// The writes beside that of the object at `owner`, which was `old` and becomes `new`.
pub(crate) fn writes(
    kind: &dyn Kind,
    owner: &str,
    old: Option<&Object>,
    new: Option<&Object>,
    head: &Snapshot<Projection>,
) -> Vec<Write<Projection>> {
    if !kind.reserves() {
        return Vec::new();
    }
    let keys = |object: Option<&Object>| object.map(|object| kind.reserved(object)).unwrap_or_default();
    let (before, after) = (keys(old), keys(new));
    let mine = |key: &str| head.get(key).filter(|record| owner_of(&record.value) == Some(owner.to_owned()));
    // What an earlier version of the object has taken is its own, whatever that version says.
    let taken = after.iter().filter(|key| mine(key).is_none()).map(|key| Write {
        key: Key::from(key.as_str()),
        expect: Expect::Absent,
        op: Op::Put {
            value: json!({ "owner": owner }).to_string().into_bytes().into(),
            view: Projection::default(),
        },
    });
    let given_back = before.iter().filter(|key| !after.contains(key)).filter_map(|key| {
        let record = mine(key)?;
        Some(Write { key: record.key.clone(), expect: Expect::Revision(record.mod_revision), op: Op::Delete })
    });
    taken.chain(given_back).collect()
}

fn owner_of(value: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(value).ok()?;
    value.get("owner")?.as_str().map(str::to_owned)
}
