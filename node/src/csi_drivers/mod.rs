//! Registers the CSI drivers of this node in Node and CSINode (upstream: pkg/volume/csi, RegisterPlugin, and
//! nodeinfomanager). A driver registers with a socket in the agent's `plugins_registry`, or is named on the
//! command line. The agent queries its node info when the driver appears, when it returns after an outage, when
//! it rejects a volume because it is full, and as often as its CSIDriver object asks; when the driver is removed,
//! so are its entries. When the agent ends all entries stay, because the volumes are still there.
//!
//! Each driver has a task of its own, because drivers hang (I12); the task compares states and does not depend on
//! events.

mod driver_info;
mod node_writer;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use orlop_apimachinery::clock::Backoff;
use orlop_client::recorder::EventType;
use orlop_csi::driver::Driver;
use orlop_csi::drivers::Endpoint;
use orlop_csi::error::CallError;
use orlop_csi::v1::NodeGetInfoRequest;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::plugin::csi::DriverRegistry;
use driver_info::{DriverError, DriverInfo};
use node_writer::{NodeObjects, WriteError};

/// The first and the longest delay after a failure.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Reason of the event on the Node.
const REASON: &str = "CSIDriverNotRegistered";

/// Why a driver cannot be published in Node and CSINode.
#[derive(Debug, thiserror::Error)]
enum NodeUpdateError {
    #[error("the driver does not tell about its node: {0}")]
    Silent(#[from] CallError),
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Discovers drivers and publishes them until `shutdown`. The CSI volume plugin shares `known`.
pub async fn run(host: &Host, known: &DriverRegistry, endpoints: &[Endpoint], shutdown: &CancellationToken) {
    let dir = host.paths.plugin_registry();
    if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(&dir) {
        tracing::error!(dir = %dir.display(), %error, "CSI drivers cannot register: the directory cannot be made");
    }
    tokio::join!(host.drivers.find(endpoints, Some(dir), shutdown.clone()), tell(host, known, shutdown));
}

/// Publishes drivers, however they are discovered, until `shutdown`.
async fn tell(host: &Host, known: &DriverRegistry, shutdown: &CancellationToken) {
    // A change of a CSIDriver object may change the period.
    let (objects, _) = watch::channel(0_u64);
    let objects = Arc::new(objects);
    let poke = Arc::clone(&objects);
    let _registration = known.objects().add_handler(move |_| poke.send_modify(|version| *version += 1));
    let telling = Arc::new(DriverReporter {
        host: host.clone(),
        known: known.clone(),
        objects: NodeObjects::new(&host.client, &host.config.name),
        turn: Mutex::new(()),
        csi_drivers: objects,
    });
    let mut changes = host.drivers.changes();
    let mut tasks = JoinSet::new();
    let (first, until) = (Arc::clone(&telling), shutdown.clone());
    tasks.spawn(async move { first.begin(&until).await });
    let mut seen = BTreeSet::new();
    loop {
        changes.borrow_and_update();
        for driver in host.drivers.all() {
            let name = driver.name().to_owned();
            if seen.insert(name.clone()) {
                let (telling, shutdown) = (Arc::clone(&telling), shutdown.clone());
                tasks.spawn(async move { telling.keep(&name, &shutdown).await });
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => break,
            changed = changes.changed() => {
                if changed.is_err() {
                    break;
                }
            }
        }
    }
    shutdown.cancelled().await;
    while tasks.join_next().await.is_some() {}
}

struct DriverReporter {
    host: Host,
    known: DriverRegistry,
    objects: NodeObjects,
    /// Serializes writes to Node and CSINode, so that the drivers of one agent do not conflict.
    turn: Mutex<()>,
    csi_drivers: Arc<watch::Sender<u64>>,
}

impl DriverReporter {
    /// Creates the CSINode as soon as the Node exists.
    async fn begin(&self, shutdown: &CancellationToken) {
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        while let Err(error) = self.objects.begin().await {
            tracing::debug!(%error, "the CSINode cannot be made yet");
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(waits.advance()) => {}
            }
        }
    }

    /// Keeps Node and CSINode up to date for one driver, both while it is registered and after it is removed.
    async fn keep(&self, name: &str, shutdown: &CancellationToken) {
        let mut changes = self.host.drivers.changes();
        let mut objects = self.csi_drivers.subscribe();
        let mut doubts = self.known.doubts();
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut said = None;
        loop {
            changes.borrow_and_update();
            objects.borrow_and_update();
            doubts.borrow_and_update();
            let result = tokio::select! {
                () = shutdown.cancelled() => return,
                result = self.bring_up_to_date(name) => result,
                // The answer of a removed driver is no longer needed.
                () = self.is_other(name) => continue,
            };
            let wait = match result {
                Ok(()) => {
                    if said.take().is_some() {
                        tracing::info!(driver = name, "the CSI driver is published in Node and CSINode");
                    }
                    waits.reset();
                    self.period(name)
                }
                Err(error) => {
                    let why = error.to_string();
                    if said.as_ref() != Some(&why) {
                        tracing::warn!(
                            driver = name,
                            why,
                            "the CSI driver cannot be published in Node and CSINode"
                        );
                        self.event(name, &why).await;
                        said = Some(why);
                    }
                    Some(waits.advance())
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                _ = objects.changed() => {}
                _ = doubts.changed() => {}
                () = sleep(wait) => {}
            }
        }
    }

    async fn bring_up_to_date(&self, name: &str) -> Result<(), NodeUpdateError> {
        let Some(driver) = self.host.drivers.get(name) else {
            let _turn = self.turn.lock().await;
            return Ok(self.objects.uninstall(name).await?);
        };
        let facts = self.ask(&driver).await?;
        let _turn = self.turn.lock().await;
        Ok(self.objects.install(name, &facts).await?)
    }

    async fn ask(&self, driver: &Driver) -> Result<DriverInfo, NodeUpdateError> {
        // The fsGroup policy must be known before the driver's first volume.
        self.known.ask(driver).await?;
        Ok(DriverInfo::of(driver.node_get_info(NodeGetInfoRequest {}).await?)?)
    }

    /// Returns when the driver has appeared or disappeared.
    async fn is_other(&self, name: &str) {
        let mut changes = self.host.drivers.changes();
        let was_there = self.host.drivers.get(name).is_some();
        while self.host.drivers.get(name).is_some() == was_there {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// How often to query the driver's volume limit.
    fn period(&self, name: &str) -> Option<Duration> {
        self.host.drivers.get(name)?;
        let object = self.known.object(name)?;
        let seconds = object.spec.node_allocatable_update_period_seconds?;
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    async fn event(&self, name: &str, why: &str) {
        if let Some(node) = self.objects.node().await {
            let message = format!("CSI driver {name} cannot be used on this node: {why}");
            self.host.events.event(&node, EventType::Warning, REASON, message);
        }
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
