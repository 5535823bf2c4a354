//! The requests of an attach and of a detach, in order, and what is saved when one of them fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use orlop_client::api::Api;
use tokio::time::Instant;

use super::attachment::{self, stamp};
use super::controller::{Controller, Shown, Step};
use super::events;
use super::node_status::volumes_in_use;
use super::operation::{ANSWER_WITHIN, FailureCause, Phase};
use super::reconcile::Force;
use super::volume::{Key, Spec, digest};
use orlop_client::client::{is_not_found, message_of, status_of};
use orlop_client::names::{ANN_DETACH_NOT_BEFORE, ANN_FORCED_DETACH, reason};
use orlop_client::recorder::EventType;
use orlop_volume::attachment::name_of_digest;
use orlop_volume::csi::handle::has_plain_parts;

/// Why a sync failed as a whole. Failures of an attach or a detach are not errors here: each has a separate delay.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The status of a node could not be written.
    #[error("cannot write the attached volumes of node {node}: {cause}")]
    Report {
        /// The node.
        node: String,
        /// Why.
        cause: kube::Error,
    },
    /// A VolumeAttachment could not be marked.
    #[error("cannot show on attachment {name} when its volume is detached by force: {cause}")]
    Countdown {
        /// The VolumeAttachment.
        name: String,
        /// Why.
        cause: kube::Error,
    },
}

impl Controller {
    /// Checks one volume on one node until there is nothing to do.
    ///
    /// # Errors
    /// Information for users could not be written.
    pub(super) async fn sync(&self, key: Key) -> Result<(), AttachError> {
        // No other task works on this key, so the previous operation was ended by a panic.
        let now = Instant::now();
        {
            let mut state = self.state();
            if state.operations.get(&key).is_some_and(|operation| operation.phase == Phase::Asking) {
                self.fail(&mut state, &key, FailureCause::Request, "the last try was interrupted", now);
            }
        }
        loop {
            match self.look(&key) {
                Step::Rest(Shown::Same) => return Ok(()),
                Step::Rest(shown) => return self.show(&key, shown).await,
                Step::Attach(spec) => self.ask_attach(&key, &spec).await,
                Step::Detach(force) => self.ask_detach(&key, force).await,
            }
        }
    }

    /// Writes the list of a node.
    ///
    /// # Errors
    /// It was not written.
    pub(super) async fn sync_report(&self, node: Arc<str>) -> Result<(), AttachError> {
        let written = self.write_report(&node).await;
        written.map_err(|cause| AttachError::Report { node: node.to_string(), cause })
    }

    /// Creates the VolumeAttachment.
    // Saved so far: nothing. A crash after the create leaves the VolumeAttachment; the next start finds it and either waits for
    // its attacher or deletes it.
    async fn ask_attach(&self, key: &Key, spec: &Spec) {
        if let (Some(digest), Some(driver)) = (digest(key), spec.driver())
            && self.caches.attachment(key).is_none()
        {
            let name = name_of_digest(&digest);
            self.note_asked(key, true);
            if let Err(error) = attachment::create(&self.client, &name, &key.node, driver, spec).await {
                // A server that fails, or does not answer, may have created it nevertheless.
                if status_of(&error).is_some_and(|status| status.code < 500) {
                    self.note_asked(key, false);
                }
                let mut state = self.state();
                self.fail(&mut state, key, FailureCause::Request, &message_of(&error), Instant::now());
                return;
            }
        }
        self.wait_for_attacher(key);
    }

    /// Removes the volume from the node's list, reads the node, and deletes the VolumeAttachment.
    // Saved after each request: the list without the volume (the node does not begin to use it; a crash leaves the
    // VolumeAttachment, which the next start finds and deletes); the record of force (information only); the deletion
    // mark (the attacher finishes even if this controller stops).
    async fn ask_detach(&self, key: &Key, force: Option<Force>) {
        self.state().actual.unlist(key);
        if let Err(error) = self.write_report(&key.node).await {
            return self.not_now(key, &message_of(&error));
        }
        if let Err(why) = self.ask_node(key, force).await {
            return self.not_now(key, &why);
        }
        let Some(digest) = digest(key) else { return self.wait_for_attacher(key) };
        let name = name_of_digest(&digest);
        let there = self.caches.attachment(key).is_some();
        // Tests: AD-065
        if there && !has_plain_parts(&key.volume) {
            let mut state = self.state();
            let text =
                "the volume handle contains the separator ^, so the volume cannot be detached by its name";
            return self.fail(&mut state, key, FailureCause::Request, text, Instant::now());
        }
        if let Some(force) = force
            && let Err(error) = self.record_force(key, &name, force).await
        {
            return self.not_now(key, &message_of(&error));
        }
        match attachment::delete(&self.client, &name).await {
            Ok(was_there) => {
                self.wait_for_attacher(key);
                if !was_there && let Some(operation) = self.state().operations.get_mut(key) {
                    operation.gone = true;
                }
            }
            Err(error) => {
                let mut state = self.state();
                self.fail(&mut state, key, FailureCause::Request, &message_of(&error), Instant::now());
            }
        }
    }

    fn note_asked(&self, key: &Key, asked: bool) {
        if let Some(operation) = self.state().operations.get_mut(key) {
            operation.asked = asked;
        }
    }

    /// All requests are sent; the attacher's timeout starts now.
    fn wait_for_attacher(&self, key: &Key) {
        let there = self.caches.attachment(key).is_some();
        let mut state = self.state();
        if let Some(operation) = state.operations.get_mut(key) {
            operation.phase = Phase::Waiting;
            operation.deadline = Instant::now() + ANSWER_WITHIN;
            operation.seen |= there;
        }
    }

    /// The attacher was not called: the volume stays where it is, and the node may continue to use it.
    fn not_now(&self, key: &Key, why: &str) {
        tracing::debug!(volume = %key.volume, node = %key.node, why, "not detached");
        let mut state = self.state();
        state.operations.fail(key, FailureCause::Request, Instant::now());
        if state.actual.get(key).is_some_and(|attached| attached.confirmed) {
            state.actual.list(key);
            self.reports.add(Arc::clone(&key.node));
        }
        let others = state.others(key);
        drop(state);
        others.into_iter().for_each(|other| self.keys.add(other));
    }

    /// Reads the node from the server: volumes that it uses are not detached, unless by force. A deleted node has no volumes.
    async fn ask_node(&self, key: &Key, force: Option<Force>) -> Result<(), String> {
        if force.is_some() {
            return Ok(());
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let node = match api.get(&key.node).await {
            Ok(node) => node,
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => return Err(message_of(&error)),
        };
        if !volumes_in_use(&node).iter().any(|name| **name == *key.volume) {
            return Ok(());
        }
        let version = node.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        let mut state = self.state();
        // When the cache has this version, its event queues the key again.
        if version > state.actual.node(&key.node).map(|node| node.version) {
            state.actual.assume_in_use(key);
        }
        Err(format!("node {} has the volume in use", key.node))
    }

    /// Records a forced detach on the VolumeAttachment before it happens, and emits an event.
    async fn record_force(&self, key: &Key, name: &str, force: Force) -> kube::Result<()> {
        let Some(attachment) = self.caches.attachment(key) else { return Ok(()) };
        if orlop_client::meta::annotation(attachment.as_ref(), ANN_FORCED_DETACH).is_some() {
            return Ok(());
        }
        let (title, why) = {
            let state = self.state();
            let since = state.actual.get(key).and_then(|attached| attached.unwanted);
            let exists = state.actual.node(&key.node).is_some_and(|node| node.facts.exists);
            let why = match (force, exists) {
                (Force::OutOfService, _) => format!("node {} is tainted as out of service", key.node),
                (Force::Timeout, true) => format!("node {} is not ready", key.node),
                (Force::Timeout, false) => format!("node {} does not exist", key.node),
            };
            let since = since.map_or(String::new(), |since| {
                format!("; no pod there wants the volume since {}", stamp(since.wall))
            });
            let title = state.spec(&key.volume).map_or(&*key.volume, |spec| &spec.title).to_owned();
            (title, format!("{why}{since}"))
        };
        let record = format!("{} {why}", stamp(self.clock.now()));
        attachment::mark(&self.client, name, &BTreeMap::from([(ANN_FORCED_DETACH, Some(record))])).await?;
        tracing::warn!(volume = %key.volume, node = %key.node, why, "detached by force");
        let text = events::forced(&title, &key.node, &why);
        self.recorder.event(
            attachment.as_ref(),
            EventType::Warning,
            reason::FORCED_DETACH_VOLUME,
            text.clone(),
        );
        for pod in self.waiting_pods(key) {
            events::tell(
                &self.recorder,
                &pod,
                EventType::Warning,
                reason::FORCED_DETACH_VOLUME,
                text.clone(),
            );
        }
        Ok(())
    }

    /// Updates the state of a forced detach in the VolumeAttachment.
    async fn show(&self, key: &Key, shown: Shown) -> Result<(), AttachError> {
        let Some(attachment) = self.caches.attachment(key) else { return Ok(()) };
        let wanted = match &shown {
            Shown::Same => return Ok(()),
            Shown::Nothing => None,
            Shown::At(at) => Some(at.clone()),
        };
        if attachment::countdown(&attachment) == wanted.as_deref()
            || attachment.metadata.deletion_timestamp.is_some()
        {
            return Ok(());
        }
        let name = attachment.metadata.name.clone().unwrap_or_default();
        let marks = BTreeMap::from([(ANN_DETACH_NOT_BEFORE, wanted.clone())]);
        if let Err(cause) = attachment::mark(&self.client, &name, &marks).await {
            return Err(AttachError::Countdown { name, cause });
        }
        let Some(at) = wanted else { return Ok(()) };
        let title = self.state().spec(&key.volume).map_or(&*key.volume, |spec| &spec.title).to_owned();
        let text = events::waiting(&title, &key.node, &at);
        self.recorder.event(
            attachment.as_ref(),
            EventType::Normal,
            reason::VOLUME_DETACH_WAITING,
            text.clone(),
        );
        for pod in self.waiting_pods(key) {
            events::tell(
                &self.recorder,
                &pod,
                EventType::Normal,
                reason::VOLUME_DETACH_WAITING,
                text.clone(),
            );
        }
        Ok(())
    }
}
