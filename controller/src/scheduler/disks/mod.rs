//! Tracks the disks of CSI drivers on each node, and each driver's limit there. Updated incrementally: a change of a pod, claim,
//! volume, attachment or CSINode costs as much as the entries that depend on it, and a query about a node as much as the disks in
//! the query.
//!
//! A disk is on a node because a pod there uses a claim, or because it is attached there; both together count once. The volume
//! determines the disk of a claim or an attachment, or the class if the volume is not provisioned yet. To avoid drift, each
//! claim and attachment stores the disk that was counted for it, and only that one is subtracted again; it also stores the object
//! that determined its disk, and when that object changes, the entry is *stale* until [`Disks::settle`] resolves it again. The
//! number of a driver's disks is the size of a set, never a separate counter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};

use super::disk::{ClaimDisk, CsiDisk, volume_limits};
use super::volumes::Volumes;

/// The disks of one driver on one node.
#[derive(Debug, Default, PartialEq)]
pub struct OfDriver {
    /// The limit of the node; none for unlimited.
    limit: Option<usize>,
    /// The disks, each with its reference count.
    disks: HashMap<Arc<CsiDisk>, usize>,
}

impl OfDriver {
    /// The limit of the node; none for unlimited.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The number of disks.
    pub fn count(&self) -> usize {
        self.disks.len()
    }

    /// Whether this disk is present.
    pub fn has(&self, disk: &CsiDisk) -> bool {
        self.disks.contains_key(disk)
    }

    fn is_empty(&self) -> bool {
        self.limit.is_none() && self.disks.is_empty()
    }
}

/// The disks of one node.
#[derive(Debug, Default, PartialEq)]
pub struct NodeDisks {
    drivers: HashMap<String, OfDriver>,
}

impl NodeDisks {
    /// The disks of one driver.
    pub fn of(&self, driver: &str) -> Option<&OfDriver> {
        self.drivers.get(driver)
    }
}

/// The reason that a disk is on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    /// A claim, by key, used by pods on nodes.
    Claim(String),
    /// An attachment, by name.
    Attachment(String),
}

/// A claim used by pods on nodes.
#[derive(Debug, Default)]
struct Used {
    claim_disk: ClaimDisk,
    /// The number of pods that use it, by node.
    nodes: BTreeMap<String, usize>,
}

/// An attachment.
#[derive(Debug)]
struct Attached {
    node: String,
    /// None if the attachment has an inline source.
    volume: Option<String>,
    disk: Option<Arc<CsiDisk>>,
}

/// The disks of all nodes.
#[derive(Debug, Default)]
pub struct Disks {
    nodes: HashMap<String, NodeDisks>,
    claims: HashMap<String, Used>,
    attachments: HashMap<String, Attached>,
    /// Entries by the volume that determines their disk; the volume may be missing.
    by_volume: HashMap<String, BTreeSet<Holder>>,
    /// Claims by the class that determines their disk.
    by_class: HashMap<String, BTreeSet<String>>,
    /// Entries whose disk may have changed.
    stale: BTreeSet<Holder>,
}

impl Disks {
    /// A pod on this node uses these claims.
    pub fn pod_came(&mut self, claims: &[String], node: &str) {
        for claim in claims {
            if !self.claims.contains_key(claim) {
                self.stale.insert(Holder::Claim(claim.clone()));
            }
            let used = self.claims.entry(claim.clone()).or_default();
            let pods = used.nodes.entry(node.to_owned()).or_default();
            *pods += 1;
            if *pods == 1 {
                hold(&mut self.nodes, node, used.claim_disk.disk.as_ref());
            }
        }
    }

    /// The pod of an earlier [`pod_came`](Self::pod_came) is no longer counted.
    pub fn pod_left(&mut self, claims: &[String], node: &str) {
        for claim in claims {
            let Some(used) = self.claims.get_mut(claim) else { continue };
            let Some(pods) = used.nodes.get_mut(node) else { continue };
            *pods -= 1;
            if *pods > 0 {
                continue;
            }
            used.nodes.remove(node);
            release(&mut self.nodes, node, used.claim_disk.disk.as_ref());
            if used.nodes.is_empty() {
                self.tell(claim, ClaimDisk::default());
                self.claims.remove(claim);
            }
        }
    }

    /// An attachment was added or changed; none when it was deleted.
    pub fn put_attachment(&mut self, name: &str, attachment: Option<&VolumeAttachment>) {
        let source = attachment.map(|attachment| &attachment.spec.source);
        let volume = source.and_then(|source| source.persistent_volume_name.clone());
        let node = attachment.map(|attachment| attachment.spec.node_name.clone());
        if let Some(known) = self.attachments.get(name)
            && volume.is_some()
            && (Some(&known.node), &known.volume) == (node.as_ref(), &volume)
        {
            return;
        }
        let holder = Holder::Attachment(name.to_owned());
        if let Some(old) = self.attachments.remove(name) {
            release(&mut self.nodes, &old.node, old.disk.as_ref());
            depend(&mut self.by_volume, old.volume.as_ref(), None, &holder);
        }
        let Some(node) = node else { return };
        let inline = source.and_then(|source| source.inline_volume_spec.as_ref()?.csi.as_ref());
        let inline = inline.filter(|_| volume.is_none());
        let disk = inline.map(|csi| Arc::new((csi.driver.clone(), csi.volume_handle.clone())));
        hold(&mut self.nodes, &node, disk.as_ref());
        if volume.is_some() {
            depend(&mut self.by_volume, None, volume.as_ref(), &holder);
            self.stale.insert(holder);
        }
        self.attachments.insert(name.to_owned(), Attached { node, volume, disk });
    }

    /// A CSINode was added or changed; none when it was deleted. True if the node's limits changed.
    pub fn put_csi_node(&mut self, name: &str, node: Option<&CSINode>) -> bool {
        let limits = volume_limits(node);
        let known = self.nodes.entry(name.to_owned()).or_default();
        let mut changed = false;
        for (driver, of) in &mut known.drivers {
            let limit = limits.get(driver).copied();
            changed |= of.limit != limit;
            of.limit = limit;
        }
        for (driver, limit) in limits {
            let of = known.drivers.entry(driver).or_default();
            changed |= of.limit != Some(limit);
            of.limit = Some(limit);
        }
        known.drivers.retain(|_, of| !of.is_empty());
        if known.drivers.is_empty() {
            self.nodes.remove(name);
        }
        changed
    }

    /// Resolves all stale entries. Costs nothing when there are none.
    pub fn settle(&mut self, volumes: &mut Volumes) {
        let touched = volumes.take_touched();
        let used = touched.claims.into_iter().filter(|claim| self.claims.contains_key(claim));
        self.stale.extend(used.map(Holder::Claim));
        let holders = touched.volumes.iter().filter_map(|volume| self.by_volume.get(volume));
        self.stale.extend(holders.flatten().cloned());
        let claims = touched.classes.iter().filter_map(|class| self.by_class.get(class));
        self.stale.extend(claims.flatten().cloned().map(Holder::Claim));
        while let Some(holder) = self.stale.pop_first() {
            match &holder {
                Holder::Claim(claim) => {
                    if self.claims.contains_key(claim) {
                        self.tell(claim, volumes.disk_of(claim));
                    }
                }
                Holder::Attachment(name) => {
                    if let Some(attached) = self.attachments.get_mut(name)
                        && let Some(volume) = &attached.volume
                    {
                        let old = std::mem::replace(&mut attached.disk, volumes.disk_of_volume(volume));
                        hold(&mut self.nodes, &attached.node, attached.disk.as_ref());
                        release(&mut self.nodes, &attached.node, old.as_ref());
                    }
                }
            }
        }
    }

    /// The disks of a node; none if it has neither disks nor limits.
    pub fn on(&self, node: &str) -> Option<&NodeDisks> {
        self.nodes.get(node)
    }

    /// Sets the disk of a claim.
    fn tell(&mut self, claim: &str, claim_disk: ClaimDisk) {
        let Some(used) = self.claims.get_mut(claim).filter(|used| used.claim_disk != claim_disk) else {
            return;
        };
        let old = std::mem::replace(&mut used.claim_disk, claim_disk);
        for node in used.nodes.keys() {
            hold(&mut self.nodes, node, used.claim_disk.disk.as_ref());
            release(&mut self.nodes, node, old.disk.as_ref());
        }
        let holder = Holder::Claim(claim.to_owned());
        depend(&mut self.by_volume, old.volume.as_ref(), used.claim_disk.volume.as_ref(), &holder);
        depend(&mut self.by_class, old.class.as_ref(), used.claim_disk.class.as_ref(), &claim.to_owned());
    }
}

/// Adds a reference to a disk.
fn hold(nodes: &mut HashMap<String, NodeDisks>, node: &str, disk: Option<&Arc<CsiDisk>>) {
    let Some(disk) = disk else { return };
    let of = nodes.entry(node.to_owned()).or_default().drivers.entry(disk.0.clone()).or_default();
    *of.disks.entry(Arc::clone(disk)).or_default() += 1;
}

/// Removes a reference to a disk.
fn release(nodes: &mut HashMap<String, NodeDisks>, node: &str, disk: Option<&Arc<CsiDisk>>) {
    let Some(disk) = disk else { return };
    let Some(known) = nodes.get_mut(node) else { return };
    let Some(of) = known.drivers.get_mut(&disk.0) else { return };
    if let Some(holders) = of.disks.get_mut(disk) {
        *holders -= 1;
        if *holders == 0 {
            of.disks.remove(disk);
        }
    }
    if of.is_empty() {
        known.drivers.remove(&disk.0);
    }
    if known.drivers.is_empty() {
        nodes.remove(node);
    }
}

/// Moves an entry from one dependency to another.
fn depend<T: Ord + Clone>(
    map: &mut HashMap<String, BTreeSet<T>>,
    from: Option<&String>,
    to: Option<&String>,
    dependent: &T,
) {
    if from == to {
        return;
    }
    if let Some(from) = from
        && let Some(all) = map.get_mut(from)
    {
        all.remove(dependent);
        if all.is_empty() {
            map.remove(from);
        }
    }
    if let Some(to) = to {
        map.entry(to.clone()).or_default().insert(dependent.clone());
    }
}

#[cfg(test)]
mod tests;
