//! The changes that queue a claim for the controllers that change volumes ([`super::resizer`], [`super::modifier`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::retry_state::RetryState;
use orlop_client::informer::{Change, Informer, Registration};
use orlop_client::queue::WorkQueue;
use orlop_volume::csi::handle;

/// Queues claims whose change `matters`. The retry state of deleted claims is dropped.
pub(super) fn claims(
    claims: &Informer<PersistentVolumeClaim>,
    queue: &WorkQueue<String>,
    memory: &Arc<RetryState>,
    matters: fn(&Change<PersistentVolumeClaim>) -> bool,
) -> Registration {
    let (queue, memory) = (queue.clone(), Arc::clone(memory));
    claims.add_handler(move |change: &Change<PersistentVolumeClaim>| {
        if change.is_gone() || change.replaced() {
            memory.forget(change.key());
        }
        if matters(change) {
            queue.add(change.key().to_string());
        }
    })
}

/// Queues the claims of new volumes.
pub(super) fn volumes(volumes: &Informer<PersistentVolume>, queue: &WorkQueue<String>) -> Registration {
    let queue = queue.clone();
    volumes.add_handler(move |change: &Change<PersistentVolume>| {
        if let Some(volume) = change.new.as_deref().filter(|_| handle::has_new_claim(change)) {
            handle::claim_key(volume).into_iter().for_each(|key| queue.add(key));
        }
    })
}
