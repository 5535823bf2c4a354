//! The state of the controller, under one lock, and the facts that are derived from it and from the caches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass, VolumeAttachment};
use tokio::time::Instant;

use super::actual::{Actual, Attached, Since};
use super::attachment::View;
use super::desired::{Desired, PodRef};
use super::events::{CurrentUser, Ends};
use super::force_detach_timeout;
use super::operation::Operations;
use super::reconcile::{self, Decision, Facts, Holder, Presence, Running};
use super::volume::{Key, Spec, digest};
use crate::context::Context;
use orlop_client::informer::Informer;
use orlop_client::meta::annotation;
use orlop_client::names::ANN_FORCE_DETACH_AFTER;
use orlop_client::pods;
use orlop_volume::attachment::name_of_digest;
use orlop_volume::class::volume_class;
use orlop_volume::csi::handle::of_unique_name;

/// The caches that are read.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Informer<Node>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) volumes: Informer<PersistentVolume>,
    pub(super) classes: Informer<StorageClass>,
    pub(super) drivers: Informer<CSIDriver>,
    pub(super) attachments: Informer<VolumeAttachment>,
}

impl Caches {
    pub(super) fn of(context: &Context) -> Self {
        let informers = &context.informers;
        let caches = Self {
            pods: informers.pods(),
            nodes: informers.nodes(),
            claims: informers.claims(),
            volumes: informers.volumes(),
            classes: informers.classes(),
            drivers: informers.of(),
            attachments: informers.of(),
        };
        pods::index_by_claim(&caches.pods);
        pods::index_by_node(&caches.pods);
        caches
    }

    pub(super) async fn synced(&self) {
        tokio::join!(
            self.pods.synced(),
            self.nodes.synced(),
            self.claims.synced(),
            self.volumes.synced(),
            self.classes.synced(),
            self.drivers.synced(),
            self.attachments.synced()
        );
    }

    /// Whether volumes of this driver are attached. A driver without a CSIDriver object attaches volumes.
    // Tests: AD-006, AD-007, AD-008
    pub(super) fn attaches(&self, driver: &str) -> bool {
        let object = self.drivers.get(driver);
        object.and_then(|driver| driver.spec.attach_required) != Some(false)
    }

    /// The VolumeAttachment of a volume on a node.
    pub(super) fn attachment(&self, key: &Key) -> Option<Arc<VolumeAttachment>> {
        self.attachments.get(&name_of_digest(&digest(key)?))
    }

    fn view(&self, key: &Key) -> View {
        match of_unique_name(&key.volume) {
            None => View::NotNeeded,
            Some(_) => View::of(self.attachment(key).as_deref()),
        }
    }
}

/// Settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// See [`force_detach_timeout::force_after`]; none means never.
    pub(super) force_after: Option<Duration>,
    /// How often attached volumes are verified. `None` means never; VolumeAttachments are then not watched for this.
    pub(super) verify_every: Option<Duration>,
}

/// The state of the controller.
#[derive(Default)]
pub(super) struct AttachState {
    pub(super) desired: Desired,
    pub(super) actual: Actual,
    pub(super) operations: Operations,
    /// By the digest in the name of the VolumeAttachment.
    keys: HashMap<[u8; 32], Key>,
    /// The state from before the start has been loaded.
    pub(super) started: bool,
}

impl AttachState {
    /// Tracks a volume on a node.
    pub(super) fn track(&mut self, key: &Key) {
        if let Some(digest) = digest(key) {
            self.keys.entry(digest).or_insert_with(|| key.clone());
        }
    }

    /// Removes a volume on a node that is neither wanted nor attached. Returns false if it is one of these.
    pub(super) fn forget(&mut self, key: &Key) -> bool {
        let matters = self.desired.get(key).is_some()
            || self.actual.get(key).is_some()
            || self.operations.get(key).is_some();
        if matters {
            return false;
        }
        self.operations.forget(key);
        if let Some(digest) = digest(key) {
            self.keys.remove(&digest);
        }
        true
    }

    /// The volume and node of the VolumeAttachment with this digest in its name.
    pub(super) fn by_digest(&self, digest: &[u8; 32]) -> Option<&Key> {
        self.keys.get(digest)
    }

    /// The properties of a volume.
    pub(super) fn spec(&self, volume: &str) -> Option<&Arc<Spec>> {
        self.actual.spec(volume).or_else(|| self.desired.spec(volume))
    }

    /// Whether only one node may use it. A volume that is known only by name counts as not exclusive.
    pub(super) fn is_exclusive(&self, volume: &str) -> bool {
        self.spec(volume).is_some_and(|spec| spec.exclusive)
    }

    /// The other nodes that must be checked again after a change of this one.
    pub(super) fn others(&self, key: &Key) -> Vec<Key> {
        if !self.is_exclusive(&key.volume) {
            return Vec::new();
        }
        let there = self.actual.nodes_of(&key.volume).map(|(node, _)| node);
        // Nodes that may release it come before nodes that need it.
        let nodes: Vec<&Arc<str>> =
            there.chain(self.desired.nodes_of(&key.volume)).filter(|node| **node != key.node).collect();
        nodes
            .into_iter()
            .map(|node| Key { volume: Arc::clone(&key.volume), node: Arc::clone(node) })
            .collect()
    }

    /// Records since when the volume is unwanted, or that it is wanted.
    pub(super) fn note_unwanted(&mut self, key: &Key, now: Instant, wall: Timestamp) {
        let wanted = self.desired.get(key).is_some();
        let Some(attached) = self.actual.get_mut(key) else { return };
        if wanted {
            attached.unwanted = None;
        } else {
            attached.unwanted.get_or_insert(Since { at: now, wall });
        }
    }

    /// The facts about one volume on one node.
    pub(super) fn facts(&self, key: &Key, caches: &Caches, settings: &Settings, now: Instant) -> Facts {
        let wanted = self.desired.get(key).is_some();
        let attached = self.actual.get(key);
        let presence = presence(attached);
        let running = match self.operations.get(key) {
            Some(operation) => Running::Here {
                kind: operation.kind,
                phase: operation.phase,
                deadline: operation.deadline,
                seen: operation.seen,
                gone: operation.gone,
            },
            None if self.is_exclusive(&key.volume) && self.operations.elsewhere(key) => Running::Elsewhere,
            None => Running::Nothing,
        };
        let spec = self.spec(&key.volume);
        let node = self.actual.node(&key.node).map(|node| &node.facts);
        // A timeout applies only to unwanted volumes; the others need no lookup.
        let force_after = match wanted {
            true => None,
            false => self.patience(key, caches, settings),
        };
        let holder = match wanted && presence != Presence::Confirmed && running == Running::Nothing {
            true => self.holder(key, caches, settings, now),
            false => Holder::None,
        };
        Facts {
            wanted,
            presence,
            running,
            failure: self.operations.failure(key).copied(),
            holder,
            view: caches.view(key),
            verified: settings.verify_every.is_some()
                && spec.and_then(|spec| spec.driver()).is_some_and(|driver| caches.attaches(driver)),
            in_use: self.actual.in_use(key),
            healthy: node.is_some_and(|node| node.healthy),
            out_of_service: node.is_some_and(|node| node.out_of_service),
            unwanted_since: attached.and_then(|attached| attached.unwanted).map(|since| since.at),
            force_after,
            now,
        }
    }

    /// The other nodes with the volume, if only one node may use it.
    pub(super) fn holders(&self, key: &Key, caches: &Caches) -> Vec<Key> {
        if !self.is_exclusive(&key.volume) {
            return Vec::new();
        }
        let others = self.actual.nodes_of(&key.volume).filter(|(node, _)| **node != key.node);
        let keys = others.map(|(node, attached)| {
            (Key { volume: Arc::clone(&key.volume), node: Arc::clone(node) }, presence(Some(attached)))
        });
        keys.filter(|(other, presence)| {
            reconcile::holds(*presence, &caches.view(other), self.actual.in_use(other))
        })
        .map(|(other, _)| other)
        .collect()
    }

    fn holder(&self, key: &Key, caches: &Caches, settings: &Settings, now: Instant) -> Holder {
        let holders = self.holders(key, caches);
        // The description of an unwanted holder does not search for further holders, so the recursion ends.
        let leaves = |other: &Key| {
            self.desired.get(other).is_none()
                && matches!(
                    reconcile::decide(&self.facts(other, caches, settings, now)),
                    Decision::Detach { .. } | Decision::Lost
                )
        };
        match holders.first() {
            None => Holder::None,
            Some(_) if holders.iter().any(leaves) => Holder::CanDetach,
            Some(_) => Holder::Stays,
        }
    }

    /// The timeout of a forced detach from the node while it is unhealthy.
    fn patience(&self, key: &Key, caches: &Caches, settings: &Settings) -> Option<Duration> {
        let title = self.spec(&key.volume).and_then(|spec| spec.persistent_volume());
        let volume = title.and_then(|title| caches.volumes.get(title));
        let class = volume.as_deref().map(volume_class).filter(|class| !class.is_empty());
        let class = class.and_then(|class| caches.classes.get(class));
        let node = self.actual.node(&key.node).and_then(|node| node.facts.force_after.as_deref());
        let asked = [
            class.as_deref().and_then(|class| annotation(class, ANN_FORCE_DETACH_AFTER)),
            volume.as_deref().and_then(|volume| annotation(volume, ANN_FORCE_DETACH_AFTER)),
            node,
        ];
        let (patience, problems) = force_detach_timeout::force_after(settings.force_after, asked);
        for problem in problems {
            tracing::warn!(volume = %key.volume, node = %key.node, annotation = ANN_FORCE_DETACH_AFTER, problem, "annotation passed over");
        }
        patience
    }

    /// The wall-clock time of a forced detach.
    pub(super) fn forced_at(&self, key: &Key, deadline: Instant) -> Option<Timestamp> {
        let since = self.actual.get(key)?.unwanted?;
        since.wall.checked_add(deadline.saturating_duration_since(since.at)).ok()
    }

    /// Pods on these nodes that need the volume.
    pub(super) fn pods_on(&self, holders: &[Key]) -> Vec<Arc<PodRef>> {
        let wanted = holders.iter().filter_map(|key| self.desired.get(key));
        wanted.flat_map(|wanted| wanted.pods().cloned()).collect()
    }

    /// The description of a holder.
    pub(super) fn held(&self, key: &Key, caches: &Caches, settings: &Settings, now: Instant) -> CurrentUser {
        let pods = self.pods_on(std::slice::from_ref(key));
        let attachment = caches.attachment(key).map(|attachment| {
            let since = attachment.metadata.creation_timestamp.as_ref();
            (attachment.metadata.name.clone().unwrap_or_default(), since.map(|time| time.0.to_string()))
        });
        let facts = self.facts(key, caches, settings, now);
        let ends = match reconcile::decide(&facts) {
            _ if facts.wanted => Ends::WithPods,
            Decision::WaitForNode { deadline: Some(deadline) } => match self.forced_at(key, deadline) {
                Some(at) => Ends::Forced(super::attachment::stamp(at)),
                None => Ends::Unmounted,
            },
            Decision::WaitForNode { deadline: None } if !facts.healthy => Ends::NeverForced,
            Decision::WaitForNode { deadline: None } => Ends::Unmounted,
            _ => Ends::Detached,
        };
        CurrentUser { node: Arc::clone(&key.node), pods, attachment, ends }
    }
}

fn presence(attached: Option<&Attached>) -> Presence {
    match attached {
        None => Presence::Absent,
        Some(Attached { confirmed: true, .. }) => Presence::Confirmed,
        Some(Attached { confirmed: false, asked: true, .. }) => Presence::Asked,
        Some(Attached { confirmed: false, asked: false, .. }) => Presence::Uncertain,
    }
}
