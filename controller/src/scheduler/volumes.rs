//! The scheduler's state of storage: the informers' caches, overlaid with decisions that the server does not show yet. A volume
//! or claim that was changed only here is *assumed*; every newer version from the server replaces it, and the old version returns
//! when the change fails.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use kube::Resource;

use super::capacity::Capacities;
use super::disk::{ClaimDisk, CsiDisk};
use crate::pv::index::VolumeIndex;
use orlop_client::api::Object;
use orlop_client::informer::Informer;
use orlop_client::informers::Informers;
use orlop_client::names;
use orlop_client::packed_object::PackedObject;
use orlop_volume::modes::ModeSet;
use orlop_volume::object::claim_key;
use orlop_volume::{class, object};

/// The caches that the scheduler reads.
#[derive(Clone)]
pub struct Caches {
    /// PersistentVolumeClaims.
    pub claims: Informer<PersistentVolumeClaim>,
    /// PersistentVolumes.
    pub volumes: Informer<PersistentVolume>,
    /// StorageClasses.
    pub classes: Informer<StorageClass>,
    /// CSIDrivers.
    pub drivers: Informer<CSIDriver>,
    /// CSINodes.
    pub csi_nodes: Informer<CSINode>,
    /// CSIStorageCapacities.
    pub capacities: Informer<CSIStorageCapacity>,
    /// VolumeAttachments.
    pub attachments: Informer<VolumeAttachment>,
}

impl Caches {
    /// The caches of this process.
    pub fn new(informers: &Informers) -> Self {
        Self::with(
            informers.claims(),
            informers.volumes(),
            informers.classes(),
            informers.of(),
            informers.of(),
            informers.of(),
            informers.of(),
        )
    }

    fn with(
        claims: Informer<PersistentVolumeClaim>,
        volumes: Informer<PersistentVolume>,
        classes: Informer<StorageClass>,
        drivers: Informer<CSIDriver>,
        csi_nodes: Informer<CSINode>,
        capacities: Informer<CSIStorageCapacity>,
        attachments: Informer<VolumeAttachment>,
    ) -> Self {
        Self { claims, volumes, classes, drivers, csi_nodes, capacities, attachments }
    }

    /// Empty caches, filled only by the test.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        let (claims, volumes, classes) = (Informer::new(), Informer::new(), Informer::new());
        Self::with(
            claims,
            volumes,
            classes,
            Informer::new(),
            Informer::new(),
            Informer::new(),
            Informer::new(),
        )
    }
}

/// A claim that differs from the server's.
struct AssumedClaim {
    claim: Arc<PersistentVolumeClaim>,
    version: Option<u64>,
    /// The server has returned it; the informer is behind.
    written: bool,
}

/// The objects that changed, by assumption or on the server, since the last query.
#[derive(Debug, Default)]
pub struct Touched {
    /// Claims by key.
    pub claims: BTreeSet<String>,
    /// Volumes.
    pub volumes: BTreeSet<String>,
    /// Classes.
    pub classes: BTreeSet<String>,
}

/// Storage with the scheduler's assumptions.
pub struct Volumes {
    caches: Caches,
    index: VolumeIndex,
    assumed_volumes: HashSet<String>,
    assumed_claims: HashMap<String, AssumedClaim>,
    touched: Touched,
    capacities: Capacities,
}

fn version_of<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

fn is_older<K: Object>(known: &PackedObject<K>, than: &PackedObject<K>) -> bool {
    known.uid() != than.uid() || known.version() < than.version()
}

impl Volumes {
    /// Creates it on these caches; volumes are added one by one.
    pub fn new(caches: Caches) -> Self {
        Self {
            caches,
            index: VolumeIndex::for_nodes(),
            assumed_volumes: HashSet::new(),
            assumed_claims: HashMap::new(),
            touched: Touched::default(),
            capacities: Capacities::default(),
        }
    }

    // === observed objects ===

    /// A volume was added or changed.
    pub fn put_volume(&mut self, kept: &PackedObject<PersistentVolume>, volume: &PersistentVolume) {
        let name = kept.key().as_ref();
        if let Some(known) = self.index.get_kept(name)
            && !is_older(known, kept)
        {
            return;
        }
        self.assumed_volumes.remove(name);
        self.insert(kept.clone(), volume);
    }

    /// A volume was deleted.
    pub fn remove_volume(&mut self, name: &str) {
        self.assumed_volumes.remove(name);
        self.take_out(name);
    }

    /// A claim was added, changed or deleted.
    pub fn claim_changed(&mut self, key: &str, now: Option<&PackedObject<PersistentVolumeClaim>>) {
        self.touched.claims.insert(key.to_owned());
        let Some(assumed) = self.assumed_claims.get(key) else { return };
        let stays = now.is_some_and(|now| {
            let same = now.uid().to_string() == assumed.claim.metadata.uid.as_deref().unwrap_or_default();
            let newest = if assumed.written {
                now.version() < assumed.version
            } else {
                now.version() <= assumed.version
            };
            same && newest
        });
        if !stays {
            self.assumed_claims.remove(key);
        }
    }

    /// A class was added, changed or deleted: an unbound claim may count for another driver.
    pub fn class_changed(&mut self, name: &str) {
        self.touched.classes.insert(name.to_owned());
    }

    /// A capacity object was added or changed; none when it was deleted.
    pub fn put_capacity(&mut self, key: &str, capacity: Option<&CSIStorageCapacity>) {
        self.capacities.put(key, capacity);
    }

    // Every change of the state goes through these two or records itself, so that data derived from a volume, a claim or a
    // class is updated.

    fn insert(&mut self, kept: PackedObject<PersistentVolume>, volume: &PersistentVolume) {
        self.touched.volumes.insert(kept.key().to_string());
        self.index.insert(kept, volume);
    }

    fn take_out(&mut self, name: &str) {
        self.touched.volumes.insert(name.to_owned());
        self.index.remove(name);
    }

    /// Returns and clears the changes since the last call.
    pub fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }

    // === assumed objects ===

    /// Assumes a change of a volume.
    pub fn assume_volume(&mut self, volume: PersistentVolume) {
        let name = object::name(&volume.metadata).to_owned();
        let volume = Arc::new(volume);
        self.insert(PackedObject::new(Arc::clone(&volume)), &volume);
        self.assumed_volumes.insert(name);
    }

    /// The server has returned this volume.
    pub fn volume_written(&mut self, volume: PersistentVolume) {
        let volume = Arc::new(volume);
        let kept = PackedObject::new(Arc::clone(&volume));
        // Deleted in the meantime: the response does not bring it back.
        if let Some(known) = self.index.get_kept(kept.key())
            && known.uid() == kept.uid()
            && known.version() <= kept.version()
        {
            self.assumed_volumes.remove(kept.key().as_ref());
            self.insert(kept, &volume);
        }
    }

    /// Returns to the server's state of a volume.
    pub fn restore_volume(&mut self, name: &str) {
        if !self.assumed_volumes.remove(name) {
            return;
        }
        match self.caches.volumes.get_kept(name) {
            Some(kept) => {
                let volume = kept.get();
                self.insert(kept, &volume);
            }
            None => self.take_out(name),
        }
    }

    /// Assumes a change of a claim.
    pub fn assume_claim(&mut self, claim: PersistentVolumeClaim) {
        self.believe(claim, false);
    }

    /// The server has returned this claim.
    pub fn claim_written(&mut self, claim: PersistentVolumeClaim) {
        let key = claim_key(&claim);
        let cached = self.caches.claims.get_kept(&key).and_then(|kept| kept.version());
        if cached >= version_of(&claim) || !self.assumed_claims.contains_key(&key) {
            self.assumed_claims.remove(&key);
            self.touched.claims.insert(key);
            return;
        }
        self.believe(claim, true);
    }

    fn believe(&mut self, claim: PersistentVolumeClaim, written: bool) {
        let (key, version) = (claim_key(&claim), version_of(&claim));
        self.touched.claims.insert(key.clone());
        self.assumed_claims.insert(key, AssumedClaim { claim: Arc::new(claim), version, written });
    }

    /// Returns to the server's state of a claim.
    pub fn restore_claim(&mut self, key: &str) {
        if self.assumed_claims.get(key).is_some_and(|assumed| !assumed.written) {
            self.assumed_claims.remove(key);
            self.touched.claims.insert(key.to_owned());
        }
    }

    /// Whether there are no assumptions.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.assumed_volumes.is_empty() && self.assumed_claims.is_empty()
    }

    // === queries ===

    /// A claim.
    pub fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        match self.assumed_claims.get(key) {
            Some(assumed) => Some(Arc::clone(&assumed.claim)),
            None => self.caches.claims.get(key),
        }
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.get_kept(name).map(PackedObject::get)
    }

    /// The search for volumes.
    pub fn index(&self) -> &VolumeIndex {
        &self.index
    }

    /// A class.
    pub fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.caches.classes.get(name)
    }

    /// Whether a driver publishes its capacity.
    pub fn tells_capacity(&self, driver: &str) -> bool {
        self.caches.drivers.get(driver).is_some_and(|driver| driver.spec.storage_capacity == Some(true))
    }

    /// The published capacities.
    pub fn capacities(&self) -> &Capacities {
        &self.capacities
    }

    /// Whether only one pod may use this claim.
    pub fn is_for_one_pod(claim: &PersistentVolumeClaim) -> bool {
        let once = ModeSet::offered(&["ReadWriteOncePod".to_owned()]);
        ModeSet::offered(orlop_volume::fit::requested_modes(claim)).contains(once)
    }

    /// The disk of a claim, for the limit of volumes per node: the disk of its volume, or a new disk of the class's driver. `None` for
    /// a claim without a class, with a missing class, or with a volume that has no CSI source.
    pub fn disk_of(&self, key: &str) -> ClaimDisk {
        let Some(claim) = self.claim(key) else { return ClaimDisk::default() };
        let name = object::volume_name(&claim);
        let volume = (!name.is_empty()).then(|| name.to_owned());
        if let Some(found) = self.volume(name) {
            return ClaimDisk { volume, class: None, disk: csi_disk(&found) };
        }
        let name = class::claim_class(&claim);
        let disk = self.class(name).map(|class| {
            let driver = names::migrated_driver(&class.provisioner).unwrap_or(&class.provisioner);
            // No handle looks like this: a future volume differs from all existing ones.
            Arc::new((driver.to_owned(), format!("\0to come for {key}")))
        });
        ClaimDisk { volume, class: Some(name.to_owned()), disk }
    }

    /// The disk of a volume.
    pub fn disk_of_volume(&self, name: &str) -> Option<Arc<CsiDisk>> {
        csi_disk(self.volume(name)?.as_ref())
    }
}

fn csi_disk(volume: &PersistentVolume) -> Option<Arc<CsiDisk>> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some(Arc::new((csi.driver.clone(), csi.volume_handle.clone())))
}
