//! Starts the selected controllers and restarts each one that fails, with an increasing delay. The failure of one
//! controller does not affect the others (I12).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use crate::context::{Context, ControllerError, Run};
use crate::csi::attacher;
use crate::csi::provisioner;
use crate::gc;
pub use crate::options::Options;
use crate::workload::{deployment, replicas, stateful_set};
use crate::{
    attach, csi, ephemeral, expand, namespace_defaults, node_lifecycle, protection, pv, quota,
    role_aggregation, scheduler,
};
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_client::failing::{Failing, report};
use orlop_client::informers::Informers;
use orlop_client::names::controller;
use orlop_client::recorder::EventSink;
use orlop_client::worker::panic_text;
use orlop_csi::drivers::Drivers;

/// A controller that can be started.
pub struct ControllerEntry {
    /// The name for `--controllers`.
    pub name: &'static str,
    /// The older name, which upstream accepts too.
    pub alias: Option<&'static str>,
    /// The body.
    pub run: Run,
}

/// All controllers.
pub const CONTROLLERS: &[ControllerEntry] = &[
    ControllerEntry { name: controller::PV_BINDER, alias: Some("persistentvolume-binder"), run: pv::run },
    ControllerEntry {
        name: controller::PV_PROTECTION,
        alias: Some("pv-protection"),
        run: protection::volume::run,
    },
    ControllerEntry {
        name: controller::PVC_PROTECTION,
        alias: Some("pvc-protection"),
        run: protection::claim::run,
    },
    ControllerEntry { name: controller::VAC_PROTECTION, alias: None, run: protection::attributes_class::run },
    ControllerEntry { name: controller::EPHEMERAL, alias: Some("ephemeral-volume"), run: ephemeral::run },
    ControllerEntry {
        name: controller::EXPANDER,
        alias: Some("persistentvolume-expander"),
        run: expand::run,
    },
    ControllerEntry { name: controller::ATTACH_DETACH, alias: Some("attachdetach"), run: attach::run },
    ControllerEntry {
        name: controller::CSI_PROVISIONER,
        alias: Some("csi-provisioner"),
        run: provisioner::run,
    },
    ControllerEntry { name: controller::POD_GC, alias: Some("podgc"), run: gc::pods::run },
    ControllerEntry {
        name: controller::NODE_LIFECYCLE,
        alias: Some("nodelifecycle"),
        run: node_lifecycle::run,
    },
    ControllerEntry { name: controller::TAINT_EVICTION, alias: None, run: node_lifecycle::eviction::run },
    ControllerEntry { name: controller::NAMESPACE, alias: Some("namespace"), run: gc::namespace::run },
    ControllerEntry {
        name: controller::REPLICATION,
        alias: Some("replicationcontroller"),
        run: replicas::replication_controllers,
    },
    ControllerEntry { name: controller::REPLICA_SET, alias: Some("replicaset"), run: replicas::replica_sets },
    ControllerEntry { name: controller::DEPLOYMENT, alias: Some("deployment"), run: deployment::run },
    ControllerEntry { name: controller::STATEFUL_SET, alias: Some("statefulset"), run: stateful_set::run },
    ControllerEntry { name: controller::SCHEDULER, alias: Some("kube-scheduler"), run: scheduler::run },
    ControllerEntry {
        name: controller::GARBAGE_COLLECTOR,
        alias: Some("garbagecollector"),
        run: gc::owners::run,
    },
    ControllerEntry { name: controller::RESOURCE_QUOTA, alias: Some("resourcequota"), run: quota::run },
    ControllerEntry {
        name: controller::SERVICE_ACCOUNT,
        alias: Some("serviceaccount"),
        run: namespace_defaults::service_accounts::run,
    },
    ControllerEntry {
        name: controller::ROOT_CA_PUBLISHER,
        alias: Some("root-ca-cert-publisher"),
        run: namespace_defaults::root_ca::run,
    },
    ControllerEntry {
        name: controller::ROLE_AGGREGATION,
        alias: Some("clusterrole-aggregation"),
        run: role_aggregation::run,
    },
    ControllerEntry { name: controller::CSI_ATTACHER, alias: None, run: attacher::run },
    ControllerEntry { name: controller::CSI_RESIZER, alias: None, run: csi::resizer::run },
    ControllerEntry { name: controller::CSI_MODIFIER, alias: None, run: csi::modifier::run },
    ControllerEntry { name: controller::SNAPSHOT, alias: None, run: csi::snapshotter::common::run },
    ControllerEntry {
        name: controller::CSI_SNAPSHOTTER,
        alias: None,
        run: csi::snapshotter::driver_queue::run,
    },
];

/// Why the controllers were not started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// An entry of `--controllers` is not the name of a controller.
    #[error(
        "{name:?} is not the name of a controller; choose from *, {known}, each also with a leading minus"
    )]
    UnknownController {
        /// The entry of `--controllers`.
        name: String,
        /// The valid names.
        known: String,
    },
}

/// Runs the controllers that `options.controllers` selects until `shutdown` is cancelled, then stops them and
/// writes the last events.
///
/// # Errors
/// A name in `options.controllers` is unknown. No controller was started.
pub fn run(
    client: Client,
    options: Options,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), ManagerError>> {
    // Boxed so that the code of the future is generated in this crate, and not in the crate of each caller.
    run_known(CONTROLLERS, client, options, shutdown).boxed()
}

/// Like [`run`], with informers and a register of failing objects that are shared with other parts of the process. The informers stop when their
/// own token is cancelled; cancel it together with `shutdown`.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    client: Client,
    informers: Informers,
    failing: Failing,
    options: Options,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), ManagerError>> {
    run_sharing(CONTROLLERS, client, informers, failing, options, shutdown).boxed()
}

async fn run_known(
    known: &[ControllerEntry],
    client: Client,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    let informers = Informers::new(client.clone(), shutdown.child_token());
    run_sharing(known, client, informers, Failing::default(), options, shutdown).await
}

async fn run_sharing(
    known: &[ControllerEntry],
    client: Client,
    informers: Informers,
    failing: Failing,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    let enabled = enabled(known, &options)?;
    // The caches and the event writer outlive the controllers, so that the controllers' last events are written.
    let stop_events = CancellationToken::new();
    let clock = Clock::Wall;
    let (events, writer) = EventSink::start(client.clone(), clock, stop_events.clone());
    let drivers = Drivers::new(options.csi_timeout);
    let options = Arc::new(options);
    let reporting = report::run(failing.clone(), client.clone(), events.clone(), stop_events.clone());
    let reporting = AbortOnDropHandle::new(tokio::spawn(reporting));
    let context = Context { client, informers, events, drivers, options, failing, clock, shutdown };
    let finding = tokio::spawn(find_drivers(context.clone()));
    tracing::info!(controllers = ?enabled.iter().map(|k| k.name).collect::<Vec<_>>(), "controllers start");
    let tasks = enabled.into_iter().map(|known| {
        let (name, run, context) = (known.name, known.run, context.clone());
        tokio::spawn(async move { supervise(name, run, context).await })
    });
    join_all(tasks).await;
    if finding.await.is_err() {
        tracing::warn!("the search for CSI drivers panicked");
    }
    context.informers.drained().await;
    stop_events.cancel();
    if reporting.await.is_err() {
        tracing::warn!("the reporter of failing objects panicked");
    }
    if writer.await.is_err() {
        tracing::warn!("the event writer panicked");
    }
    Ok(())
}

async fn find_drivers(context: Context) {
    let Context { drivers, options, shutdown, .. } = context;
    drivers.find(&options.csi_endpoints, options.csi_plugin_dir.clone(), shutdown).await;
}

/// Runs one controller, and restarts it whenever it ends, until shutdown is requested.
async fn supervise(name: &'static str, run: Run, context: Context) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    loop {
        let began = tokio::time::Instant::now();
        // A separate task confines a panic to this controller. Its token stops the tasks that the failed controller
        // started.
        let own = Context { shutdown: context.shutdown.child_token(), ..context.clone() };
        let leftovers = own.shutdown.clone().drop_guard();
        let end = std::panic::AssertUnwindSafe(async { run(own).await }).catch_unwind();
        let end = tokio::select! {
            () = async {
                context.shutdown.cancelled().await;
                // The time the controller has to return. After it, the body is dropped at its next await.
                tokio::time::sleep(Duration::from_secs(5)).await;
            } => return,
            end = end => end,
        };
        drop(leftovers);
        if context.shutdown.is_cancelled() {
            return;
        }
        let why = match end {
            Ok(Ok(())) => "it returned".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("panic: {}", panic_text(panic.as_ref())),
        };
        if began.elapsed() > Duration::from_secs(300) {
            backoff.reset();
        }
        let delay = backoff.advance();
        tracing::error!(
            controller = name,
            why,
            delay_s = delay.as_secs(),
            "controller died, will be started again"
        );
        tokio::select! {
            () = context.shutdown.cancelled() => return,
            () = tokio::time::sleep(delay) => {}
        }
    }
}

/// Whether the options select the controller with this name.
pub fn selects(options: &Options, name: &str) -> bool {
    // `run` reports unknown names.
    enabled(CONTROLLERS, options).is_ok_and(|selected| selected.iter().any(|entry| entry.name == name))
}

/// The controllers that the options select. The first mention of a name decides; `*` stands for all names not
/// mentioned.
fn enabled<'a>(
    known: &'a [ControllerEntry],
    options: &Options,
) -> Result<Vec<&'a ControllerEntry>, ManagerError> {
    let resolve = |name: &str| known.iter().find(|k| k.name == name || k.alias == Some(name)).map(|k| k.name);
    let (mut on, mut off, mut star) = (BTreeSet::new(), BTreeSet::new(), false);
    for entry in &options.controllers {
        if entry == "*" {
            star = true;
            continue;
        }
        let (name, minus) = entry.strip_prefix('-').map_or((entry.as_str(), false), |rest| (rest, true));
        let Some(name) = resolve(name) else {
            let known = known.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
            return Err(ManagerError::UnknownController { name: entry.clone(), known });
        };
        match (minus, on.contains(name), off.contains(name)) {
            (_, true, _) | (_, _, true) => {}
            (true, false, false) => {
                off.insert(name);
            }
            (false, false, false) => {
                on.insert(name);
            }
        }
    }
    let wanted = |k: &&ControllerEntry| {
        let allowed = options.enable_garbage_collector || k.name != controller::GARBAGE_COLLECTOR;
        allowed && (on.contains(k.name) || star && !off.contains(k.name))
    };
    Ok(known.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests;
