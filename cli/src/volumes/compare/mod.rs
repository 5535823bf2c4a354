//! What a driver has against what the API knows: pure.
//!
//! The API is looked at before and after the driver is. A volume that is made meanwhile is in the second look, or the claim
//! that it is made for is; one that is deleted meanwhile is in the first. Only what neither knows is unknown.

use std::collections::{BTreeMap, BTreeSet};

/// What the API knows of one driver, at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Volumes by handle.
    pub(super) volumes: BTreeMap<String, Held>,
    /// Identifiers of in-tree volumes that the driver took over, with the object that names them. The driver's handle holds the
    /// identifier, or is a part of it.
    pub(super) in_tree: Vec<(String, String)>,
    /// Names of all PersistentVolumes.
    pub(super) names: BTreeSet<String>,
    /// What is being made, by claim (`namespace/name`).
    pub(super) making: BTreeMap<String, Making>,
    /// Snapshots by handle; none when the API has no such kind.
    pub(super) snapshots: Option<BTreeMap<String, Held>>,
    /// Contents whose snapshot is being taken.
    pub(super) taking: BTreeSet<String>,
}

/// What is known under a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The object, for people.
    pub(super) object: String,
    /// It is being deleted, and the driver may have done its part.
    pub(super) going: bool,
    /// Bytes, as far as they are known.
    pub(super) bytes: i64,
}

/// A volume that a driver is being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Making {
    /// Of the PersistentVolume that comes of it.
    pub(super) name: String,
    /// At least so many.
    pub(super) bytes: i64,
}

/// A volume or snapshot in a driver's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) handle: String,
    /// 0: the driver does not say.
    pub(super) bytes: i64,
}

/// What a driver listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) volumes: Vec<Listed>,
    /// None when it does not list them.
    pub(super) snapshots: Option<Vec<Listed>>,
}

/// Of what kind a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    Volume,
    Snapshot,
}

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Both have it.
    Known,
    /// It is being made, or may be what is being made.
    BeingMade,
    /// The API has it and the driver has not.
    Missing,
    /// The driver has it and the API has not.
    Unknown,
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) driver: String,
    pub(super) thing: Thing,
    /// Empty when it has none yet.
    pub(super) handle: String,
    pub(super) bytes: i64,
    pub(super) what: What,
    /// The object of the API that it is about.
    pub(super) object: String,
}

/// The rows of a driver, sorted by handle.
pub(super) fn compare(driver: &str, before: &Known, lists: &Lists, after: &Known) -> Vec<Row> {
    let row = |thing, handle: &str, bytes, what, object: String| Row {
        driver: driver.to_owned(),
        thing,
        handle: handle.to_owned(),
        bytes,
        what,
        object,
    };
    let open = open(before, after);
    let mut rows = Vec::new();
    let listed: BTreeMap<&str, &Listed> = lists.volumes.iter().map(|it| (it.handle.as_str(), it)).collect();
    for (handle, it) in &listed {
        let known = after.owner(handle).or_else(|| before.owner(handle));
        let fits = |making: &Making| it.bytes == 0 || it.bytes >= making.bytes;
        let (what, object) = match (known, open.iter().find(|(_, making)| fits(making))) {
            (Some(owner), _) => (What::Known, owner),
            (None, Some((claim, _))) => (What::BeingMade, format!("perhaps for claim {claim}")),
            (None, None) => (What::Unknown, String::new()),
        };
        rows.push(row(Thing::Volume, handle, it.bytes, what, object));
    }
    rows.extend(
        missing(&before.volumes, &after.volumes, &listed)
            .map(|(handle, held)| row(Thing::Volume, handle, held.bytes, What::Missing, held.object.clone())),
    );
    rows.extend(open.iter().map(|(claim, making)| {
        row(Thing::Volume, "", making.bytes, What::BeingMade, format!("claim {claim}"))
    }));
    if let (Some(list), Some(first), Some(second)) = (&lists.snapshots, &before.snapshots, &after.snapshots) {
        let listed: BTreeMap<&str, &Listed> = list.iter().map(|it| (it.handle.as_str(), it)).collect();
        let taking = before.taking.union(&after.taking).next();
        for (handle, it) in &listed {
            let (what, object) = match (second.get(*handle).or_else(|| first.get(*handle)), taking) {
                (Some(held), _) => (What::Known, held.object.clone()),
                (None, Some(content)) => (What::BeingMade, format!("perhaps for {content}")),
                (None, None) => (What::Unknown, String::new()),
            };
            rows.push(row(Thing::Snapshot, handle, it.bytes, what, object));
        }
        rows.extend(missing(first, second, &listed).map(|(handle, held)| {
            row(Thing::Snapshot, handle, held.bytes, What::Missing, held.object.clone())
        }));
    }
    rows.sort_by(|a, b| (a.thing, &a.handle, &a.object).cmp(&(b.thing, &b.handle, &b.object)));
    rows
}

/// Whether the answer is that something is amiss. More volumes that may be in the making than claims that wait for one are
/// amiss too: which of them it is cannot be said.
pub(super) fn is_amiss(rows: &[Row]) -> bool {
    let making = |row: &&Row| row.what == What::BeingMade && row.thing == Thing::Volume;
    let (claims, candidates): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(making).partition(|row| row.handle.is_empty());
    rows.iter().any(|row| matches!(row.what, What::Unknown | What::Missing))
        || candidates.len() > claims.len()
}

/// What both looks know, which does not go, and the driver does not list.
fn missing<'a>(
    first: &'a BTreeMap<String, Held>,
    second: &'a BTreeMap<String, Held>,
    listed: &'a BTreeMap<&str, &Listed>,
) -> impl Iterator<Item = (&'a str, &'a Held)> {
    let both = second.iter().filter(|(handle, _)| first.contains_key(*handle));
    both.filter(|(handle, held)| !held.going && !listed.contains_key(handle.as_str()))
        .map(|(handle, held)| (handle.as_str(), held))
}

/// What one of the looks saw in the making, and the second does not know as a volume.
fn open<'a>(before: &'a Known, after: &'a Known) -> BTreeMap<&'a str, &'a Making> {
    let both = before.making.iter().chain(&after.making);
    both.filter(|(_, making)| !after.names.contains(&making.name))
        .map(|(claim, making)| (claim.as_str(), making))
        .collect()
}

impl Known {
    /// The object that a handle belongs to.
    fn owner(&self, handle: &str) -> Option<String> {
        if let Some(held) = self.volumes.get(handle) {
            return Some(held.object.clone());
        }
        // What is called by another name there may not be taken for nobody's.
        let same = |id: &str| id.contains(handle) || handle.contains(id);
        let in_tree = self.in_tree.iter().find(|(id, _)| same(id));
        in_tree.map(|(_, object)| object.clone()).or_else(|| of_a_pod(handle))
    }
}

/// Kubelets call a pod's inline volume `csi-` and a SHA-256; no object holds it.
fn of_a_pod(handle: &str) -> Option<String> {
    let hash = handle.strip_prefix("csi-")?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| "a pod's own volume".to_owned())
}

#[cfg(test)]
mod tests;
