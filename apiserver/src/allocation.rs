//! Exclusive allocations of objects: the writes that allocate and release them, for the commit that writes the
//! object.
//!
//! An allocation is a record at a key of its own that names its owner. The write expects the key to be absent, so
//! of two commits that allocate the same key, one fails as a whole.

use orlop_store::{Expect, Key, Op, Snapshot, Write};
use serde_json::{Value, json};

use crate::projection::Projection;
use crate::registry::{Kind, service};
use orlop_api::object::Object;

/// The prefixes of all allocations.
const RESERVATIONS: [&str; 2] = [service::ADDRESSES, service::NODE_PORTS];

/// Returns the writes that accompany the write of the object at `owner`, which changes from `old` to `new`.
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
    // Keys that an earlier version of the object allocated belong to it, whatever that version contains.
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

/// Returns the writes that release all allocations of an owner whose object cannot be read.
pub(crate) fn release_all(
    kind: &dyn Kind,
    owner: &str,
    head: &Snapshot<Projection>,
) -> Vec<Write<Projection>> {
    if !kind.reserves() {
        return Vec::new();
    }
    let all = RESERVATIONS.iter().flat_map(|prefix| head.range(prefix, None));
    let own = all.filter(|record| owner_of(&record.value).as_deref() == Some(owner));
    own.map(|record| Write {
        key: record.key.clone(),
        expect: Expect::Revision(record.mod_revision),
        op: Op::Delete,
    })
    .collect()
}

fn owner_of(value: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(value).ok()?;
    value.get("owner")?.as_str().map(str::to_owned)
}
