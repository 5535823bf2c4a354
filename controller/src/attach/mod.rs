//! The attach/detach controller ("persistentvolume-attach-detach-controller"): attaches each volume to the nodes whose pods need
//! it, and to no other. It creates and deletes VolumeAttachments; attachers process them and call the driver.
//! docs/attach-detach.md describes the rules and the differences from upstream.
//!
//! Reading order. Names: `volume`. The desired state: `desired`, filled by `populate`. The actual state: `actual`, restored by
//! `restart`. Running operations: `operation`. Decisions: `reconcile` (pure). Effects: `controller`, `steps`,
//! `attachment`, `report`, `force_detach_timeout`, `events`.
//!
//! Upstream: pkg/controller/volume/attachdetach.

mod actual;
mod attachment;
mod controller;
mod desired;
mod events;
mod force_detach_timeout;
mod node_status;
mod operation;

mod populate;
mod reconcile;
mod report;
mod restart;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;

pub use steps::AttachError;
pub use volume::unique_name_of;

use crate::context::{Context, ControllerError};
use crate::options::Options;
use controller::Controller;
use orlop_client::informer::Registration;
use orlop_client::names::controller as names;
use orlop_client::worker;
use state::Settings;

/// The maximum number of attaches and detaches with a request in flight.
const AT_ONCE: usize = 64;
/// The maximum number of node statuses that are written concurrently.
const REPORTS_AT_ONCE: usize = 16;
/// A shorter period disables the verification, as upstream.
const LEAST_VERIFICATION: Duration = Duration::from_secs(1);

fn settings(options: &Options) -> Settings {
    let verify_every = options.attach_detach_reconcile_sync_period;
    Settings {
        force_after: (!options.disable_force_detach_on_timeout)
            .then_some(options.attach_detach_force_detach_after),
        verify_every: (!options.disable_attach_detach_reconcile_sync && verify_every >= LEAST_VERIFICATION)
            .then_some(verify_every),
    }
}

/// Registers the handlers that queue work when an object changes. Dropping the registrations removes them.
fn watch(this: &Arc<Controller>) -> Vec<Registration> {
    macro_rules! handled {
        ($informer:ident, $handler:ident) => {{
            let this = Arc::clone(this);
            this.caches.$informer.clone().add_handler(move |change| this.$handler(change))
        }};
    }
    vec![
        handled!(nodes, on_node),
        handled!(pods, on_pod),
        handled!(claims, on_claim),
        handled!(volumes, on_volume),
        handled!(classes, on_class),
        handled!(drivers, on_driver),
        handled!(attachments, on_attachment),
    ]
}

/// The controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let this = Arc::new(Controller::new(&context, settings(&context.options)));
        let _handlers = watch(&this);
        if !context.ready(this.caches.synced()).await {
            return Ok(());
        }
        {
            let mut state = this.state();
            this.adopt_attachments(&mut state);
            state.started = true;
        }
        // All pods are resolved before anything is attached or detached.
        while let Some(pod) = this.pods.try_get() {
            this.look_at_pod(&pod);
            this.pods.done(&pod);
            tokio::task::consume_budget().await;
        }
        this.queue_all();
        let pods = worker::run_until(
            &context.shutdown,
            &this.pods,
            1,
            context.other_syncs(names::ATTACH_DETACH),
            |pod: Arc<str>| {
                let this = &this;
                async move {
                    tokio::task::consume_budget().await;
                    this.look_at_pod(&pod);
                    Ok::<_, AttachError>(())
                }
            },
        );
        let keys = async {
            worker::run_in_order(&this.keys, AT_ONCE, context.other_syncs(names::ATTACH_DETACH), |key| {
                let this = Arc::clone(&this);
                async move { this.sync(key).await }
            })
            .await;
        };
        let reports = worker::run_until(
            &context.shutdown,
            &this.reports,
            REPORTS_AT_ONCE,
            context.syncs::<Node, _>(names::ATTACH_DETACH),
            |node| this.sync_report(node),
        );
        let end = async {
            context.shutdown.cancelled().await;
            this.keys.shutdown();
        };
        let verification = async {
            let Some(period) = this.settings.verify_every else { return };
            while tokio::time::timeout(period, context.shutdown.cancelled()).await.is_err() {
                this.verify().await;
            }
        };
        tokio::join!(pods, keys, reports, verification, end);
        Ok(())
    })
}
