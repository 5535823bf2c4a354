//! What the scheduler knows of storage: the informers' caches, and on top of them what it has decided and the server does
//! not say yet. A volume or claim that was changed here only in thought is *assumed*; it gives way to every newer version
//! from the server, and to the old one when the change does not come to pass.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use kube::Resource;

use crate::informer::Informer;
use crate::informers::Informers;
use crate::kept::{Keep, Kept};
use crate::names;
use crate::pv::index::VolumeIndex;
use crate::pv::object::claim_key;
use crate::pv::{class, modes::ModeSet, object};

/// Index of capacities by class.
const INDEX_CLASS: &str = "class";
/// Index of attachments by node.
const INDEX_NODE: &str = "node";

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
    /// Those of a process.
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
        capacities.add_index(INDEX_CLASS, |capacity| vec![capacity.storage_class_name.clone()]);
        attachments.add_index(INDEX_NODE, |attachment| vec![attachment.spec.node_name.clone()]);
        Self { claims, volumes, classes, drivers, csi_nodes, capacities, attachments }
    }

    /// Empty ones that nobody fills but the test.
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

/// A disk of a CSI driver, told by driver and handle.
pub type CsiDisk = (String, String);

/// A claim that is not what the server says.
struct AssumedClaim {
    claim: Arc<PersistentVolumeClaim>,
    version: Option<u64>,
    /// The server has answered with it; the informer is behind.
    written: bool,
}

/// Storage as the scheduler believes it to be.
pub struct Volumes {
    caches: Caches,
    index: VolumeIndex,
    assumed_volumes: HashSet<String>,
    assumed_claims: HashMap<String, AssumedClaim>,
    /// Which disk a claim of a pod on a node is; found when somebody asks. See [`Volumes::disk_of`].
    disks: HashMap<String, Option<CsiDisk>>,
}

fn version_of<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

fn is_older<K: Keep>(known: &Kept<K>, than: &Kept<K>) -> bool {
    known.uid() != than.uid() || known.version() < than.version()
}

impl Volumes {
    /// Over these caches; volumes are put in one by one.
    pub fn new(caches: Caches) -> Self {
        Self {
            caches,
            index: VolumeIndex::default(),
            assumed_volumes: HashSet::new(),
            assumed_claims: HashMap::new(),
            disks: HashMap::new(),
        }
    }

    // === what the server says ===

    /// A volume is new or changed.
    pub fn put_volume(&mut self, kept: &Kept<PersistentVolume>, volume: &PersistentVolume) {
        let name = kept.key().as_ref();
        if let Some(known) = self.index.get_kept(name)
            && !is_older(known, kept)
        {
            return;
        }
        self.forget_disks(volume);
        self.assumed_volumes.remove(name);
        self.index.insert(kept.clone(), volume);
    }

    /// A volume is gone.
    pub fn remove_volume(&mut self, name: &str) {
        self.assumed_volumes.remove(name);
        if let Some(old) = self.index.remove(name) {
            self.forget_disks(&old);
        }
    }

    /// A claim is new, changed or gone.
    pub fn claim_changed(&mut self, key: &str, now: Option<&Kept<PersistentVolumeClaim>>) {
        self.disks.remove(key);
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

    /// A class came, changed or went: an unbound claim may count for another driver.
    pub fn classes_changed(&mut self) {
        self.disks.clear();
    }

    fn forget_disks(&mut self, volume: &PersistentVolume) {
        if let Some(reference) = object::claim_ref(volume) {
            self.disks.remove(&object::reference_key(reference));
        }
    }

    // === what is assumed ===

    /// Believes a change of a volume.
    pub fn assume_volume(&mut self, volume: PersistentVolume) {
        let name = object::name(&volume.metadata).to_owned();
        self.forget_disks(&volume);
        let volume = Arc::new(volume);
        self.index.insert(Kept::new(Arc::clone(&volume)), &volume);
        self.assumed_volumes.insert(name);
    }

    /// The server has answered with this volume.
    pub fn volume_written(&mut self, volume: PersistentVolume) {
        let volume = Arc::new(volume);
        let kept = Kept::new(Arc::clone(&volume));
        // Deleted meanwhile: an answer does not bring it back.
        if let Some(known) = self.index.get_kept(kept.key())
            && known.uid() == kept.uid()
            && known.version() <= kept.version()
        {
            self.assumed_volumes.remove(kept.key().as_ref());
            self.index.insert(kept, &volume);
        }
    }

    /// Believes what the server says of a volume again.
    pub fn restore_volume(&mut self, name: &str) {
        if !self.assumed_volumes.remove(name) {
            return;
        }
        match self.caches.volumes.get_kept(name) {
            Some(kept) => {
                let volume = kept.get();
                self.index.insert(kept, &volume);
            }
            None => {
                self.index.remove(name);
            }
        }
    }

    /// Believes a change of a claim.
    pub fn assume_claim(&mut self, claim: PersistentVolumeClaim) {
        self.believe(claim, false);
    }

    /// The server has answered with this claim.
    pub fn claim_written(&mut self, claim: PersistentVolumeClaim) {
        let key = claim_key(&claim);
        let cached = self.caches.claims.get_kept(&key).and_then(|kept| kept.version());
        if cached >= version_of(&claim) || !self.assumed_claims.contains_key(&key) {
            self.assumed_claims.remove(&key);
            return;
        }
        self.believe(claim, true);
    }

    fn believe(&mut self, claim: PersistentVolumeClaim, written: bool) {
        let (key, version) = (claim_key(&claim), version_of(&claim));
        self.assumed_claims.insert(key, AssumedClaim { claim: Arc::new(claim), version, written });
    }

    /// Believes what the server says of a claim again.
    pub fn restore_claim(&mut self, key: &str) {
        if self.assumed_claims.get(key).is_some_and(|assumed| !assumed.written) {
            self.assumed_claims.remove(key);
        }
    }

    /// Nothing is assumed any more.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.assumed_volumes.is_empty() && self.assumed_claims.is_empty()
    }

    // === questions ===

    /// A claim.
    pub fn claim(&self, key: &str) -> Option<Arc<PersistentVolumeClaim>> {
        match self.assumed_claims.get(key) {
            Some(assumed) => Some(Arc::clone(&assumed.claim)),
            None => self.caches.claims.get(key),
        }
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.index.get_kept(name).map(Kept::get)
    }

    /// The search for volumes.
    pub fn index(&self) -> &VolumeIndex {
        &self.index
    }

    /// A class.
    pub fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.caches.classes.get(name)
    }

    /// Whether a driver tells how much room it has, and where.
    pub fn tells_capacity(&self, driver: &str) -> bool {
        self.caches.drivers.get(driver).is_some_and(|driver| driver.spec.storage_capacity == Some(true))
    }

    /// What drivers told about the room of a class.
    pub fn capacities(&self, class: &str) -> Vec<Arc<CSIStorageCapacity>> {
        self.caches.capacities.by_index(INDEX_CLASS, class)
    }

    /// The CSI side of a node.
    pub fn csi_node(&self, name: &str) -> Option<Arc<CSINode>> {
        self.caches.csi_nodes.get(name)
    }

    /// Attachments of a node.
    pub fn attachments(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.caches.attachments.by_index(INDEX_NODE, node)
    }

    /// Whether only one pod may use this claim.
    pub fn is_for_one_pod(claim: &PersistentVolumeClaim) -> bool {
        let once = ModeSet::offered(&["ReadWriteOncePod".to_owned()]);
        ModeSet::offered(crate::pv::fit::requested_modes(claim)).contains(once)
    }

    /// Which disk a claim is, as far as a limit counts it: that of its volume, or one to come of the class's driver. A
    /// claim without a class, of a class that is missing, or of a volume of another kind is none.
    pub fn disk_of(&mut self, claim: &str) -> Option<CsiDisk> {
        if let Some(known) = self.disks.get(claim) {
            return known.clone();
        }
        let disk = self.find_disk(claim);
        self.disks.insert(claim.to_owned(), disk.clone());
        disk
    }

    fn find_disk(&self, key: &str) -> Option<CsiDisk> {
        let claim = self.claim(key)?;
        if let Some(volume) = self.volume(object::volume_name(&claim)) {
            return csi_disk(&volume);
        }
        let class = self.class(class::claim_class(&claim))?;
        let driver = names::migrated_driver(&class.provisioner).unwrap_or(&class.provisioner);
        // No handle looks like this: a volume to come is another one than all that are there.
        Some((driver.to_owned(), format!("\0to come for {key}")))
    }

    /// The disk that an attachment holds.
    pub fn disk_of_attachment(&self, attachment: &VolumeAttachment) -> Option<CsiDisk> {
        let source = &attachment.spec.source;
        if let Some(name) = &source.persistent_volume_name {
            return csi_disk(self.volume(name)?.as_ref());
        }
        let csi = source.inline_volume_spec.as_ref()?.csi.as_ref()?;
        Some((csi.driver.clone(), csi.volume_handle.clone()))
    }
}

fn csi_disk(volume: &PersistentVolume) -> Option<CsiDisk> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some((csi.driver.clone(), csi.volume_handle.clone()))
}
