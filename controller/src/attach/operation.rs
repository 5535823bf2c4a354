//! Running operations and recent failures. An exclusive volume has one operation at a time, on any node; other volumes have one
//! per node. A failure delays only the next attempt of the same kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::desired::PodRef;
use super::volume::{Key, Spec};

/// Delay after the first failure; doubles. Upstream: exponentialbackoff.
const FIRST: Duration = Duration::from_millis(500);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(122);
/// Timeout of an attacher. Upstream: the CSI timeout.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    Attach,
    Detach,
}

/// The progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Requests to the API server are in flight.
    Asking,
    /// The attacher has to answer.
    Waiting,
}

/// A running operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) kind: OperationKind,
    pub(super) phase: Phase,
    /// The deadline of the attacher.
    pub(super) deadline: Instant,
    /// The VolumeAttachment has been in the cache since the operation began.
    pub(super) seen: bool,
    /// The VolumeAttachment no longer exists.
    pub(super) gone: bool,
    /// The creation of the VolumeAttachment was requested and not rejected.
    pub(super) asked: bool,
    /// The volume; `None` if only its name is known.
    pub(super) spec: Option<Arc<Spec>>,
    /// Pods that needed it when the operation began.
    pub(super) pods: Vec<Arc<PodRef>>,
}

/// The kind of a failure, which decides when the next attempt starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCause {
    /// A request to the API server failed, or the node still uses the volume.
    Request,
    /// The attacher reported an error, or did not respond in time.
    Attacher,
    /// The VolumeAttachment was being deleted.
    Leaving,
}

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: OperationKind,
    pub(super) cause: FailureCause,
    /// No try of this kind before.
    pub(super) until: Instant,
    delay: Duration,
}

/// All operations and failures.
#[derive(Debug, Default)]
pub(super) struct Operations {
    running: HashMap<Arc<str>, BTreeMap<Arc<str>, Operation>>,
    failures: HashMap<Key, Failure>,
}

impl Operations {
    /// Begins. A failure of the other kind is forgotten.
    pub(super) fn begin(
        &mut self,
        key: &Key,
        kind: OperationKind,
        spec: Option<Arc<Spec>>,
        pods: Vec<Arc<PodRef>>,
        now: Instant,
    ) {
        if self.failures.get(key).is_some_and(|failure| failure.kind != kind) {
            self.failures.remove(key);
        }
        let deadline = now + ANSWER_WITHIN;
        let (phase, seen, gone, asked) = (Phase::Asking, false, false, false);
        let operation = Operation { kind, phase, deadline, seen, gone, asked, spec, pods };
        self.running.entry(Arc::clone(&key.volume)).or_default().insert(Arc::clone(&key.node), operation);
    }

    /// The running operation.
    pub(super) fn get(&self, key: &Key) -> Option<&Operation> {
        self.running.get(&key.volume)?.get(&key.node)
    }

    /// The same, to note progress.
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Operation> {
        self.running.get_mut(&key.volume)?.get_mut(&key.node)
    }

    /// Something is being done with the volume on another node.
    pub(super) fn elsewhere(&self, key: &Key) -> bool {
        self.running.get(&key.volume).is_some_and(|nodes| nodes.keys().any(|node| *node != key.node))
    }

    /// It is done.
    pub(super) fn succeed(&mut self, key: &Key) -> Option<Operation> {
        self.failures.remove(key);
        self.end(key)
    }

    /// It failed.
    pub(super) fn fail(&mut self, key: &Key, cause: FailureCause, now: Instant) -> Option<Operation> {
        let operation = self.end(key)?;
        self.delay(key, operation.kind, cause, now);
        Some(operation)
    }

    /// Delays the next operation of this kind.
    pub(super) fn delay(&mut self, key: &Key, kind: OperationKind, cause: FailureCause, now: Instant) {
        let last = self.failures.get(key).filter(|failure| failure.kind == kind);
        let delay = last.map_or(FIRST, |failure| (failure.delay * 2).min(LONGEST));
        self.failures.insert(key.clone(), Failure { kind, cause, until: now + delay, delay });
    }

    /// Ends an operation that was cancelled; the next one is not delayed.
    pub(super) fn end(&mut self, key: &Key) -> Option<Operation> {
        let nodes = self.running.get_mut(&key.volume)?;
        let ended = nodes.remove(&key.node);
        if nodes.is_empty() {
            self.running.remove(&key.volume);
        }
        ended
    }

    /// The last failure.
    pub(super) fn failure(&self, key: &Key) -> Option<&Failure> {
        self.failures.get(key)
    }

    /// The volume is neither wanted nor attached: earlier failures no longer matter.
    pub(super) fn forget(&mut self, key: &Key) {
        self.failures.remove(key);
    }
}
