//! Inline disks of the kinds that pods cannot always share, of a pod or of all pods on a node: a conflict is a lookup for
//! each disk of the smaller side. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, RBDVolumeSource, Volume};

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Disk {
    /// A GCE persistent disk by its name: shared only by readers.
    Gce(Arc<str>),
    /// An EBS volume by its id: for one pod per node.
    Aws(Arc<str>),
    /// An iSCSI target by its name: shared only by readers.
    Iscsi(Arc<str>),
    /// A Ceph image by its pool and name: shared only by readers of the same cluster.
    Rbd(Arc<str>, Arc<str>),
}

/// How often a disk is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Users {
    readers: usize,
    writers: usize,
}

impl Users {
    fn add(&mut self, other: Self) {
        self.readers += other.readers;
        self.writers += other.writers;
    }

    fn take(&mut self, other: Self) {
        self.readers = self.readers.saturating_sub(other.readers);
        self.writers = self.writers.saturating_sub(other.writers);
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }

    fn conflicts(self, other: Self) -> bool {
        self.writers + other.writers > 0
    }
}

/// Users by monitor; one in common means the same Ceph cluster. Other disks have one entry with an empty name.
type Places = BTreeMap<Arc<str>, Users>;

/// The users of each disk; no entry is without users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlineDisks(BTreeMap<Disk, Places>);

impl InlineDisks {
    /// The disks of a pod.
    pub fn of(pod: &Pod) -> Self {
        let mut disks = Self::default();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            disks.insert(volume);
        }
        disks
    }

    fn insert(&mut self, volume: &Volume) {
        if let Some(gce) = &volume.gce_persistent_disk {
            self.put(Disk::Gce(gce.pd_name.as_str().into()), gce.read_only == Some(true));
        } else if let Some(aws) = &volume.aws_elastic_block_store {
            self.put(Disk::Aws(aws.volume_id.as_str().into()), false);
        } else if let Some(iscsi) = &volume.iscsi {
            self.put(Disk::Iscsi(iscsi.iqn.as_str().into()), iscsi.read_only == Some(true));
        } else if let Some(rbd) = &volume.rbd {
            self.put_rbd(rbd);
        }
    }

    fn put(&mut self, disk: Disk, read_only: bool) {
        self.0.entry(disk).or_default().entry("".into()).or_default().add(user(read_only));
    }

    fn put_rbd(&mut self, rbd: &RBDVolumeSource) {
        if rbd.monitors.is_empty() {
            return;
        }
        let disk = Disk::Rbd(rbd.pool.as_deref().unwrap_or("rbd").into(), rbd.image.as_str().into());
        let places = self.0.entry(disk).or_default();
        for monitor in &rbd.monitors {
            places.entry(monitor.as_str().into()).or_default().add(user(rbd.read_only == Some(true)));
        }
    }

    /// Adds all disks of `other`.
    pub fn add(&mut self, other: &Self) {
        for (disk, places) in &other.0 {
            let known = self.0.entry(disk.clone()).or_default();
            for (place, users) in places {
                known.entry(Arc::clone(place)).or_default().add(*users);
            }
        }
    }

    /// Removes all disks of `other`, which were added before.
    pub fn take(&mut self, other: &Self) {
        for (disk, places) in &other.0 {
            let Some(known) = self.0.get_mut(disk) else { continue };
            for (place, users) in places {
                if let Some(left) = known.get_mut(place) {
                    left.take(*users);
                    if left.is_none() {
                        known.remove(place);
                    }
                }
            }
            if known.is_empty() {
                self.0.remove(disk);
            }
        }
    }

    /// Whether the disks cannot be used together.
    pub fn conflicts(&self, other: &Self) -> bool {
        let (few, many) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        few.0.iter().any(|(disk, places)| many.0.get(disk).is_some_and(|others| meet(places, others)))
    }
}

fn user(read_only: bool) -> Users {
    if read_only { Users { readers: 1, writers: 0 } } else { Users { readers: 0, writers: 1 } }
}

fn meet(a: &Places, b: &Places) -> bool {
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    few.iter().any(|(place, users)| many.get(place).is_some_and(|others| users.conflicts(*others)))
}
