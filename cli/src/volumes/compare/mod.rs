//! Compares the volumes of a driver with the objects of the API. Pure.
//!
//! The API is read before and after the driver. A volume that is created meanwhile is in the second read, or its
//! claim is; a volume that is deleted meanwhile is in the first read. Only a volume in neither is unknown.

use std::collections::{BTreeMap, BTreeSet};

/// The objects of one driver in the API at one point in time.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiObjects {
    /// Volumes by handle.
    pub(super) volumes: BTreeMap<String, HandleObject>,
    /// Identifiers of in-tree volumes that were migrated to the driver, with the object that names them. The driver's
    /// handle contains the identifier, or is a part of it.
    pub(super) in_tree: Vec<(String, String)>,
    /// Names of all PersistentVolumes.
    pub(super) names: BTreeSet<String>,
    /// Volumes being provisioned, by claim (`namespace/name`).
    pub(super) making: BTreeMap<String, Making>,
    /// Snapshots by handle; `None` if the API does not serve snapshots.
    pub(super) snapshots: Option<BTreeMap<String, HandleObject>>,
    /// VolumeSnapshotContents whose snapshot is being created.
    pub(super) taking: BTreeSet<String>,
}

/// The object of a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HandleObject {
    /// The object, as shown in reports.
    pub(super) object: String,
    /// The object is being deleted, and the driver may have deleted its volume already.
    pub(super) going: bool,
    /// The size in bytes, if known.
    pub(super) bytes: i64,
}

/// A volume that a driver is provisioning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Making {
    /// Name of the future PersistentVolume.
    pub(super) name: String,
    /// Minimum size in bytes.
    pub(super) bytes: i64,
}

/// A volume or snapshot in a driver's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) handle: String,
    /// The size in bytes; 0 if the driver does not report it.
    pub(super) bytes: i64,
}

/// The lists of a driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) volumes: Vec<Listed>,
    /// `None` if the driver cannot list snapshots.
    pub(super) snapshots: Option<Vec<Listed>>,
}

/// The type of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKind {
    Volume,
    Snapshot,
}

/// The result for a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The volume is in the driver and in the API.
    Known,
    /// It is being provisioned, or may be.
    BeingMade,
    /// The volume is only in the API.
    Missing,
    /// The volume is only in the driver.
    Unknown,
}

/// One row of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) driver: String,
    pub(super) thing: RowKind,
    /// Empty if there is no handle yet.
    pub(super) handle: String,
    pub(super) bytes: i64,
    pub(super) what: What,
    /// The related object of the API.
    pub(super) object: String,
}

/// Compares the lists of a driver; the rows are sorted by handle.
pub(super) fn compare(driver: &str, before: &ApiObjects, lists: &Lists, after: &ApiObjects) -> Vec<Row> {
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
        rows.push(row(RowKind::Volume, handle, it.bytes, what, object));
    }
    rows.extend(
        missing(&before.volumes, &after.volumes, &listed).map(|(handle, held)| {
            row(RowKind::Volume, handle, held.bytes, What::Missing, held.object.clone())
        }),
    );
    rows.extend(open.iter().map(|(claim, making)| {
        row(RowKind::Volume, "", making.bytes, What::BeingMade, format!("claim {claim}"))
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
            rows.push(row(RowKind::Snapshot, handle, it.bytes, what, object));
        }
        rows.extend(missing(first, second, &listed).map(|(handle, held)| {
            row(RowKind::Snapshot, handle, held.bytes, What::Missing, held.object.clone())
        }));
    }
    rows.sort_by(|a, b| (a.thing, &a.handle, &a.object).cmp(&(b.thing, &b.handle, &b.object)));
    rows
}

/// Whether any row is a problem. If more volumes may be in provisioning than claims wait for one, the surplus is
/// a problem too, although the volume cannot be identified.
pub(super) fn is_amiss(rows: &[Row]) -> bool {
    let making = |row: &&Row| row.what == What::BeingMade && row.thing == RowKind::Volume;
    let (claims, candidates): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(making).partition(|row| row.handle.is_empty());
    rows.iter().any(|row| matches!(row.what, What::Unknown | What::Missing))
        || candidates.len() > claims.len()
}

/// Objects in both reads that are not being deleted and that the driver does not list.
fn missing<'a>(
    first: &'a BTreeMap<String, HandleObject>,
    second: &'a BTreeMap<String, HandleObject>,
    listed: &'a BTreeMap<&str, &Listed>,
) -> impl Iterator<Item = (&'a str, &'a HandleObject)> {
    let both = second.iter().filter(|(handle, _)| first.contains_key(*handle));
    both.filter(|(handle, held)| !held.going && !listed.contains_key(handle.as_str()))
        .map(|(handle, held)| (handle.as_str(), held))
}

/// Provisioning seen in one of the reads, without a volume in the second read.
fn open<'a>(before: &'a ApiObjects, after: &'a ApiObjects) -> BTreeMap<&'a str, &'a Making> {
    let both = before.making.iter().chain(&after.making);
    both.filter(|(_, making)| !after.names.contains(&making.name))
        .map(|(claim, making)| (claim.as_str(), making))
        .collect()
}

impl ApiObjects {
    /// The object of a handle.
    fn owner(&self, handle: &str) -> Option<String> {
        if let Some(held) = self.volumes.get(handle) {
            return Some(held.object.clone());
        }
        // A volume with another name in the API must not be reported as unknown.
        let same = |id: &str| id.contains(handle) || handle.contains(id);
        let in_tree = self.in_tree.iter().find(|(id, _)| same(id));
        in_tree.map(|(_, object)| object.clone()).or_else(|| of_a_pod(handle))
    }
}

/// The kubelet names a pod's inline volume `csi-` and a SHA-256; no object stores that name.
fn of_a_pod(handle: &str) -> Option<String> {
    let hash = handle.strip_prefix("csi-")?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| "a pod's own volume".to_owned())
}

#[cfg(test)]
mod tests;
