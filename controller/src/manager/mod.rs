//! Starts the selected controllers and restarts each one that fails, with an increasing delay. The failure of one
//! controller does not affect the others (I12).

mod controllers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use self::controllers::{CONTROLLERS, ControllerEntry};
pub use crate::context::{Context, ControllerError, Run};
pub use crate::options::Options;
use orlop_apimachinery::clock::{Backoff, Clock};
use orlop_client::component::{ClientBuilder, Component, accounts};
use orlop_client::failing::{Failing, report};
use orlop_client::informers::Informers;
use orlop_client::names::controller;
use orlop_client::recorder::EventSink;
use orlop_client::worker::panic_text;
use orlop_csi::drivers::Drivers;

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
    clients: Arc<dyn ClientBuilder>,
    options: Options,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), ManagerError>> {
    // Boxed so that the code of the future is generated in this crate, and not in the crate of each caller.
    run_known(CONTROLLERS, clients, options, shutdown).boxed()
}

/// Like [`run`], with informers and a register of failing objects that are shared with other parts of the process. The informers stop when their
/// own token is cancelled; cancel it together with `shutdown`.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    clients: Arc<dyn ClientBuilder>,
    informers: Informers,
    failing: Failing,
    options: Options,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), ManagerError>> {
    run_sharing(CONTROLLERS, clients, informers, failing, options, shutdown).boxed()
}

async fn run_known(
    known: &[ControllerEntry],
    clients: Arc<dyn ClientBuilder>,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    let failing = Failing::default();
    let informers = Informers::new(clients.client(Component::ControllerManager), shutdown.child_token())
        .reporting_to(failing.clone());
    run_sharing(known, clients, informers, failing, options, shutdown).await
}

async fn run_sharing(
    known: &[ControllerEntry],
    clients: Arc<dyn ClientBuilder>,
    informers: Informers,
    failing: Failing,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    let enabled = enabled(known, &options)?;
    // The caches and the event writer outlive the controllers, so that the controllers' last events are written.
    let stop_events = CancellationToken::new();
    let clock = Clock::Wall;
    let client = clients.client(Component::Account(accounts::ORLOP_FAILURE_REPORTER));
    let (events, writer) = EventSink::start(client.clone(), clock, stop_events.clone());
    let drivers = Drivers::new(options.csi_timeout);
    let options = Arc::new(options);
    let reporting = report::run(failing.clone(), client.clone(), events.clone(), stop_events.clone());
    let reporting = AbortOnDropHandle::new(tokio::spawn(reporting));
    let context = Context { client, informers, events, drivers, options, failing, clock, shutdown };
    let finding = tokio::spawn(find_drivers(context.clone()));
    tracing::info!(controllers = ?enabled.iter().map(|k| k.name).collect::<Vec<_>>(), "controllers start");
    let tasks = enabled.into_iter().map(|known| {
        let (name, run) = (known.name, known.run);
        // Its own user, also for its events, so that audit and history show which controller wrote.
        let client = clients.client(known.component);
        let events = context.events.writing_with(client.clone());
        let context = Context { client, events, ..context.clone() };
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
