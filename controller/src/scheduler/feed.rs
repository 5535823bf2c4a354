//! Applies the informers' events to the scheduler's state and wakes the pods that they may help: an event costs as much as its
//! object and the pods that it wakes; the needs of the other parked pods are compared once for all equal ones.

use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};

use super::bind_notify::BindWait;
use super::cluster::{News, NodeFacts};
use super::filter::{Rule, Rules};
use super::pod::{PodFacts, waits_for_us};
use super::state::{Scheduler, SchedulerState};
use orlop_client::api::Object;
use orlop_client::informer::{Change, Informer, Registration};
use orlop_client::pods;
use orlop_volume::{class, object};

/// Rules that may pass when another pod leaves.
const LEFT: [Rule; 6] =
    [Rule::Ports, Rule::Resources, Rule::Restrictions, Rule::Limits, Rule::Spread, Rule::PodAffinity];
/// Rules that may pass when another pod is added.
const CAME: [Rule; 2] = [Rule::Spread, Rule::PodAffinity];
/// Rules that read a node, or the pods on it.
const ABOUT_NODES: [Rule; 11] = [
    Rule::Unschedulable,
    Rule::Taints,
    Rule::NodeAffinity,
    Rule::Ports,
    Rule::Resources,
    Rule::Restrictions,
    Rule::Limits,
    Rule::VolumeBinding,
    Rule::Zone,
    Rule::Spread,
    Rule::PodAffinity,
];

impl Scheduler {
    /// Registers the handlers. Cached objects are delivered first.
    pub(super) fn listen(self: &Arc<Self>) -> Vec<Registration> {
        let caches = &self.caches;
        vec![
            self.on(&self.namespaces, Self::namespace_changed),
            self.on(&self.nodes, Self::node_changed),
            self.on(&caches.volumes, Self::volume_changed),
            self.on(&caches.claims, Self::claim_changed),
            self.on(&self.pods, Self::pod_changed),
            self.on(&caches.classes, |this, change| {
                this.take_up(|known| known.volumes.class_changed(change.key()));
                this.wake(&[Rule::VolumeBinding, Rule::Limits, Rule::Zone]);
            }),
            self.on(&caches.drivers, |this, _| this.wake(&[Rule::VolumeBinding])),
            self.on(&caches.capacities, |this, change| {
                this.take_up(|known| known.volumes.put_capacity(change.key(), change.new.as_deref()));
                this.wake(&[Rule::VolumeBinding]);
            }),
            self.on(&caches.csi_nodes, |this, change| {
                if this.take_up(|known| known.cluster.put_csi_node(change.key(), change.new.as_deref())) {
                    this.wake(&[Rule::Limits]);
                }
            }),
            self.on(&caches.attachments, |this, change| {
                this.take_up(|known| known.cluster.put_attachment(change.key(), change.new.as_deref()));
                if change.is_gone() {
                    this.wake(&[Rule::Limits]);
                }
            }),
        ]
    }

    fn on<K: Object>(
        self: &Arc<Self>,
        informer: &Informer<K>,
        handle: impl Fn(&Self, &Change<K>) + Send + Sync + 'static,
    ) -> Registration {
        let this: Weak<Self> = Arc::downgrade(self);
        informer.add_handler(move |change| {
            if let Some(this) = this.upgrade() {
                handle(&this, change);
            }
        })
    }

    /// Changes the state, and updates the counts derived from it.
    fn take_up<T>(&self, change: impl FnOnce(&mut SchedulerState) -> T) -> T {
        let mut known = self.lock();
        let said = change(&mut known);
        let SchedulerState { cluster, volumes } = &mut *known;
        cluster.settle_disks(volumes);
        said
    }

    fn wake(&self, rules: &[Rule]) {
        self.queue.wake(Rules::of(rules));
    }

    fn namespace_changed(&self, change: &Change<Namespace>) {
        let nothing = Default::default();
        let labels = change.new.as_deref().map(|new| new.metadata.labels.as_ref().unwrap_or(&nothing));
        if self.lock().cluster.put_namespace(change.key(), labels) {
            self.wake(&[Rule::PodAffinity]);
        }
    }

    fn node_changed(&self, change: &Change<Node>) {
        self.bind_notify.notify(&BindWait::Node(change.key().to_string()));
        let Some(node) = change.new.as_deref() else {
            self.lock().cluster.remove_node(change.key());
            return self.wake(&CAME);
        };
        let facts = NodeFacts::of(node);
        if !self.lock().cluster.put_node(facts.clone()) {
            return;
        }
        // Even an infeasible node may be one of the domains that are compared, and the message about the pod is no longer that
        // there are no nodes.
        self.wake(&[Rule::Spread, Rule::NoNodes]);
        self.queue.wake_for_node(Rules::of(&ABOUT_NODES), |needs| needs.may_suit(&facts));
    }

    fn pod_changed(&self, change: &Change<Pod>) {
        let key = change.key();
        self.bind_notify.notify(&BindWait::Pod(key.to_string()));
        if change.is_gone() || change.replaced() {
            self.pod_left(key);
        }
        let Some(pod) = change.new.as_deref() else { return };
        if pods::is_finished(pod) {
            return self.pod_left(key);
        }
        if let Some(node) = pods::node_name(pod) {
            self.queue.remove(key);
            let facts = PodFacts::of(pod);
            let news = self.take_up(|known| known.cluster.put_pod(facts, node));
            match news {
                News::Nothing => {}
                News::Came => self.wake(&CAME),
                // A pod that was resized down frees resources.
                News::Changed => self.wake(&LEFT),
            }
            return;
        }
        if !waits_for_us(pod) {
            return self.queue.remove(key);
        }
        let differs = || {
            change.old().is_none_or(|old| {
                old.spec != pod.spec || old.metadata.labels != pod.metadata.labels || !waits_for_us(old)
            })
        };
        if change.is_new() || change.replaced() || differs() {
            self.queue.add(key, pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0));
        }
    }

    /// A pod no longer uses resources, and no longer waits.
    fn pod_left(&self, key: &str) {
        self.queue.remove(key);
        if self.lock().cluster.remove_pod(key) {
            self.wake(&LEFT);
        }
    }

    fn claim_changed(&self, change: &Change<PersistentVolumeClaim>) {
        self.take_up(|known| known.volumes.claim_changed(change.key(), change.kept()));
        self.bind_notify.notify(&BindWait::Claim(change.key().to_string()));
        self.queue.wake_claim(change.key());
    }

    fn volume_changed(&self, change: &Change<PersistentVolume>) {
        self.take_up(|known| match (change.kept(), change.new.as_deref()) {
            (Some(kept), Some(volume)) => known.volumes.put_volume(kept, volume),
            (_, None) | (None, _) => known.volumes.remove_volume(change.key()),
        });
        self.bind_notify.notify(&BindWait::Volume(change.key().to_string()));
        let Some(volume) = change.new.as_deref() else { return };
        if let Some(reference) = object::claim_ref(volume) {
            return self.queue.wake_claim(&object::reference_key(reference));
        }
        let same = change.old().is_some_and(|old| old.spec == volume.spec && old.status == volume.status);
        if same {
            return;
        }
        self.queue.wake_class(Rules::of(&[Rule::VolumeBinding]), class::volume_class(volume));
    }

    /// Drops the assumptions about a pod, and wakes the pods that this may help.
    pub(super) fn undo(&self, undo: impl FnOnce(&mut SchedulerState)) {
        undo(&mut self.lock());
        self.wake(&[
            Rule::Ports,
            Rule::Resources,
            Rule::Restrictions,
            Rule::Limits,
            Rule::Spread,
            Rule::PodAffinity,
            Rule::VolumeBinding,
        ]);
    }
}
