//! The binding of one pod.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};

use super::super::bind_notify::BindWait;
use super::super::filter::volume_binding::{PodVolumes, selected_node};
use super::super::pod::PodFacts;
use super::super::queue::Ticket;
use super::super::report::Why;
use super::super::state::{Scheduler, SchedulerState};
use super::wait::{Awaited, Progress, progress};
use crate::pv::bind::volume_with_claim;
use orlop_client::client::message_of;
use orlop_client::failing::Failure;
use orlop_client::informer::split_key;
use orlop_client::names::{ANN_SELECTED_NODE, reason};
use orlop_client::recorder::EventType;
use orlop_client::worker::panic_text;
use orlop_volume::object;

/// Why a pod could not be bound to its node. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A volume cannot be written.
    #[error("running PreBind plugin \"VolumeBinding\": {}", message_of(.source))]
    Volume {
        /// The volume.
        volume: String,
        /// The cause.
        source: kube::Error,
    },
    /// A claim cannot be written.
    #[error("running PreBind plugin \"VolumeBinding\": {}", message_of(.source))]
    Claim {
        /// The claim.
        claim: String,
        /// The cause.
        source: kube::Error,
    },
    /// The claims cannot be bound, or were not bound in time.
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: {0}")]
    Unbound(String),
    /// The pod's node cannot be written.
    #[error("running Bind plugin \"DefaultBinder\": {}", message_of(.0))]
    Pod(kube::Error),
    /// The pod is gone, or being deleted: there is nothing to report.
    #[error("the pod is gone")]
    Gone,
    /// A bug in this program.
    #[error("the binding failed: {0}")]
    Panicked(String),
}

/// The binding work of one pod.
pub struct Work {
    ticket: Ticket,
    pub(super) pod: Arc<Pod>,
    facts: Arc<PodFacts>,
    pub(super) node: String,
    volumes: Vec<PersistentVolume>,
    claims: Vec<PersistentVolumeClaim>,
    awaited: Vec<Awaited>,
}

impl Work {
    /// Counts the pod on its node and assumes its volume writes, so that the next decision sees them.
    pub fn reserve(
        ticket: &Ticket,
        pod: &Arc<Pod>,
        facts: &Arc<PodFacts>,
        node: &str,
        volumes: PodVolumes,
        known: &mut SchedulerState,
    ) -> Self {
        known.cluster.assume(Arc::clone(facts), node);
        let mut work = Self {
            ticket: ticket.clone(),
            pod: Arc::clone(pod),
            facts: Arc::clone(facts),
            node: node.to_owned(),
            volumes: Vec::new(),
            claims: Vec::new(),
            awaited: Vec::new(),
        };
        let awaited = |claim: &PersistentVolumeClaim, volume: Option<&PersistentVolume>| Awaited {
            claim: object::claim_key(claim),
            uid: object::uid(&claim.metadata).to_owned(),
            volume: volume.map(|volume| object::name(&volume.metadata).to_owned()),
        };
        for (volume, claim) in volumes.bind {
            work.awaited.push(awaited(&claim, Some(&volume)));
            if let Some(changed) = volume_with_claim(&volume, &claim) {
                known.volumes.assume_volume(changed.clone());
                work.volumes.push(changed);
            }
        }
        for claim in volumes.provision {
            work.awaited.push(awaited(&claim, None));
            if selected_node(&claim).is_none() {
                let mut changed = claim.as_ref().clone();
                object::set_annotation(&mut changed.metadata, ANN_SELECTED_NODE, node);
                known.volumes.assume_claim(changed.clone());
                work.claims.push(changed);
            }
        }
        work
    }

    /// Drops the assumptions. Completed writes stay.
    fn undo(&self, known: &mut SchedulerState) {
        known.cluster.forget(&self.ticket.key, &self.facts.uid);
        for volume in &self.volumes {
            known.volumes.restore_volume(object::name(&volume.metadata));
        }
        for claim in &self.claims {
            known.volumes.restore_claim(&object::claim_key(claim));
        }
    }

    fn bind_waits(&self) -> Vec<BindWait> {
        let mut waits = vec![BindWait::Pod(self.ticket.key.to_string()), BindWait::Node(self.node.clone())];
        for awaited in &self.awaited {
            waits.push(BindWait::Claim(awaited.claim.clone()));
            waits.extend(awaited.volume.clone().map(BindWait::Volume));
        }
        waits
    }
}

impl Scheduler {
    /// Performs all steps, or drops the assumptions. A panic fails only this pod (I12).
    pub(in super::super) async fn carry_out(&self, work: Work) {
        let done = AssertUnwindSafe(self.bind(&work)).catch_unwind().await;
        let done = done.unwrap_or_else(|panic| {
            let text = panic_text(panic.as_ref()).to_owned();
            tracing::error!(pod = %work.ticket.key, panic = text, "a binding panicked");
            self.syncs.failed(&work.ticket.key, Failure::Panic, &text);
            Err(BindError::Panicked(text))
        });
        let Err(error) = done else {
            let text = format!("Successfully assigned {} to {}", work.ticket.key, work.node);
            self.recorder.event(work.pod.as_ref(), EventType::Normal, reason::SCHEDULED, text);
            self.syncs.succeeded(&work.ticket.key);
            return self.queue.done(&work.ticket);
        };
        tracing::debug!(pod = %work.ticket.key, node = work.node, %error, "a binding failed");
        self.undo(|known| work.undo(known));
        match error {
            BindError::Gone => {}
            BindError::Volume { .. }
            | BindError::Claim { .. }
            | BindError::Unbound(_)
            | BindError::Pod(_)
            | BindError::Panicked(_) => {
                self.report(&work.pod, Why::SchedulerError, &error.to_string()).await;
            }
        }
        self.queue.retry(&work.ticket);
    }

    async fn bind(&self, work: &Work) -> Result<(), BindError> {
        for volume in &work.volumes {
            let written = self.write_volume(volume).await?;
            self.lock().volumes.volume_written(written);
            // Saved: the volume's claim. Not saved: the other volumes, and the pod has no node. Continues with: the binder binds
            // this claim; the next attempt finds it bound, or selects the volume first.
        }
        for claim in &work.claims {
            let written = self.write_claim(claim).await?;
            self.lock().volumes.claim_written(written);
            // Saved: the node to provision a volume for. Continues with: the next attempt, which selects only this node until the
            // provisioner removes the annotation.
        }
        if !work.awaited.is_empty() {
            let bound = tokio::time::timeout(self.bind_timeout, self.wait_until_bound(work)).await;
            bound.unwrap_or_else(|_| Err(BindError::Unbound("context deadline exceeded".to_owned())))?;
        }
        // Saved: everything but the pod's node, which the next attempt finds again.
        self.tell_node(work).await
    }

    async fn wait_until_bound(&self, work: &Work) -> Result<(), BindError> {
        loop {
            let mut waits = work.bind_waits();
            // A provisioned volume is known first by the name in its claim.
            for awaited in &work.awaited {
                let claim = self.lock().volumes.claim(&awaited.claim);
                let volume = claim.map(|claim| object::volume_name(&claim).to_owned());
                waits.extend(volume.filter(|name| !name.is_empty()).map(BindWait::Volume));
            }
            let listener = self.bind_notify.listen(waits);
            let here = self.pods.get(&work.ticket.key).is_some_and(|pod| {
                pod.metadata.uid == work.pod.metadata.uid && pod.metadata.deletion_timestamp.is_none()
            });
            if !here {
                return Err(BindError::Gone);
            }
            match self.progress(work)? {
                Progress::Bound => return Ok(()),
                Progress::Waits => listener.changed().await,
            }
        }
    }

    fn progress(&self, work: &Work) -> Result<Progress, BindError> {
        let known = self.lock();
        let node = known.cluster.node(&work.node);
        let node = node.ok_or_else(|| BindError::Unbound(format!("node \"{}\" not found", work.node)))?;
        progress(&work.awaited, &known.volumes, &node.facts).map_err(BindError::Unbound)
    }

    /// Namespace and name of the pod.
    pub(super) fn names(work: &Work) -> (&str, &str) {
        split_key(&work.ticket.key)
    }
}
