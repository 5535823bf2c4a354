//! One queue and its workers per driver. Hanging syncs of one driver delay that driver alone.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::storage::v1::VolumeAttachment;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::attachments::Attacher;
use super::listing;
use crate::context::Context;
use crate::csi::driver_queue::RETRY;
use orlop_client::names::controller;
use orlop_client::queue::{RateLimit, WorkQueue};
use orlop_client::worker;

type Queue = WorkQueue<String>;

/// A queue that has no workers yet.
pub(super) struct Opened {
    driver: String,
    queue: Queue,
}

/// The queues by driver. The queue of a removed driver stays, empty. Clones share the queues.
#[derive(Clone)]
pub(super) struct DriverQueues {
    queues: Arc<Mutex<BTreeMap<String, Queue>>>,
    opened: mpsc::UnboundedSender<Opened>,
    limit: RateLimit,
}

impl DriverQueues {
    pub(super) fn new(limit: RateLimit) -> (Self, mpsc::UnboundedReceiver<Opened>) {
        let (opened, receiver) = mpsc::unbounded_channel();
        (DriverQueues { queues: Arc::default(), opened, limit }, receiver)
    }

    /// The queue of a driver.
    pub(super) fn of(&self, driver: &str) -> Queue {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(driver) {
            return queue.clone();
        }
        let queue = WorkQueue::new(self.limit);
        queues.insert(driver.to_owned(), queue.clone());
        // Without a receiver the controller has ended and no workers are needed.
        let _ = self.opened.send(Opened { driver: driver.to_owned(), queue: queue.clone() });
        queue
    }
}

/// Runs the workers of every queue until shutdown is requested.
pub(super) async fn serve(
    context: &Context,
    attacher: &Arc<Attacher>,
    mut opened: mpsc::UnboundedReceiver<Opened>,
) {
    // Dropping it aborts the running workers.
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            () = context.shutdown.cancelled() => break,
            next = opened.recv() => match next {
                Some(opened) => drop(running.spawn(work(context.clone(), Arc::clone(attacher), opened))),
                None => break,
            },
        }
    }
    while running.join_next().await.is_some() {}
}

async fn work(context: Context, attacher: Arc<Attacher>, opened: Opened) {
    let Opened { driver, queue } = opened;
    let Context { options, shutdown, .. } = &context;
    let syncing = worker::run_in_order(
        &queue,
        options.csi_worker_threads,
        context.syncs::<VolumeAttachment, _>(controller::CSI_ATTACHER),
        |name| {
            let attacher = Arc::clone(&attacher);
            async move { attacher.sync(&name).await }
        },
    );
    let closing = async {
        shutdown.cancelled().await;
        queue.shutdown();
    };
    let listing = worker::restart_after_panic("csi attachment listing", RETRY.first, || {
        listing::follow(&attacher, &driver, &queue, options.csi_reconcile_sync, shutdown)
    });
    tokio::join!(syncing, closing, listing);
}
