//! Registry of the reachable drivers: those that `--csi-endpoint` names, and those that register in
//! `--csi-plugin-dir` as they would with a kubelet. Each endpoint is queried for its identity until it responds,
//! and again after it was unreachable, because a restarted driver may have new capabilities.

mod folder;
mod registration;

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::{Driver, Line};
use crate::error::CallError;
use crate::socket::{self, SocketError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use orlop_apimachinery::clock::Backoff;

/// Interval between identity queries to a responding driver.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// First and longest delay between attempts to reach a driver that does not respond.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A driver's endpoint from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name that the driver at the endpoint must report.
    pub name: String,
    /// `unix:///path`.
    pub endpoint: String,
}

/// The reachable drivers. Clones share them.
#[derive(Clone)]
pub struct Drivers {
    shared: Arc<Shared>,
}

struct Shared {
    known: RwLock<BTreeMap<String, Driver>>,
    changed: watch::Sender<u64>,
    timeout: Duration,
}

/// Why an endpoint is not used.
#[derive(Debug, thiserror::Error)]
enum EndpointRefusal {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("it does not report its name: {0}")]
    Silent(#[from] CallError),
    #[error("it calls itself {0:?}; correct the name in --csi-endpoint")]
    OtherName(String),
}

impl Drivers {
    /// Starts without drivers. A call to a driver takes at most `timeout`.
    pub fn new(timeout: Duration) -> Self {
        let (changed, _) = watch::channel(0);
        Drivers { shared: Arc::new(Shared { known: RwLock::default(), changed, timeout }) }
    }

    /// Finds drivers until `shutdown` is cancelled.
    pub async fn find(
        &self,
        endpoints: &[Endpoint],
        plugin_dir: Option<PathBuf>,
        shutdown: CancellationToken,
    ) {
        let named = endpoints.iter().map(|at| self.keep(at.clone(), shutdown.clone()));
        let registered = async {
            if let Some(dir) = plugin_dir {
                registration::follow(self, endpoints, &dir, &shutdown).await;
            }
        };
        tokio::join!(futures::future::join_all(named), registered);
    }

    /// The driver with this name.
    pub fn get(&self, name: &str) -> Option<Driver> {
        self.shared.known.read().get(name).cloned()
    }

    /// All drivers, by name.
    pub fn all(&self) -> Vec<Driver> {
        self.shared.known.read().values().cloned().collect()
    }

    /// Notifies whenever a driver appears, is removed, changes its capabilities, or responds again: all work that
    /// waits for a driver is due then.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Adds a driver, or updates what it reports.
    pub fn put(&self, driver: Driver) {
        self.take_up(driver, false, &CancellationToken::new());
    }

    /// Adds a driver, unless `stop` is cancelled. Checked under the lock, so that a driver cancelled first and removed afterwards
    /// stays removed.
    fn take_up(&self, driver: Driver, was_away: bool, stop: &CancellationToken) {
        let name = driver.name().to_owned();
        {
            let mut known = self.shared.known.write();
            if stop.is_cancelled() {
                return;
            }
            let before = known.insert(name.clone(), driver.clone());
            if !was_away && before.is_some_and(|before| before == driver) {
                return;
            }
        }
        tracing::info!(driver = name, version = driver.version(), can = ?driver.can(), "CSI driver found");
        self.shared.changed.send_modify(|version| *version += 1);
    }

    /// Removes a driver that was unregistered. A driver that merely does not respond stays: its calls fail, and the
    /// outcome of earlier calls stays uncertain.
    pub fn remove(&self, name: &str) {
        let removed = self.shared.known.write().remove(name);
        if removed.is_some() {
            tracing::info!(driver = name, "CSI driver removed");
            self.shared.changed.send_modify(|version| *version += 1);
        }
    }

    /// Polls one endpoint until `shutdown`.
    async fn keep(&self, at: Endpoint, shutdown: CancellationToken) {
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut said = None;
        loop {
            // A hanging driver does not delay the shutdown.
            let Some(asked) = shutdown.run_until_cancelled(self.ask(&at)).await else { return };
            let wait = match asked {
                Ok(driver) => {
                    self.take_up(driver, said.is_some(), &shutdown);
                    (waits, said) = (Backoff::new(WAITS.0, WAITS.1), None);
                    ASK_AGAIN
                }
                Err(refusal) => {
                    let why = refusal.to_string();
                    // Logged once per reason, because a driver that has not started yet would fill the log.
                    if said.as_ref() != Some(&why) {
                        tracing::warn!(
                            driver = at.name,
                            endpoint = at.endpoint,
                            why,
                            "CSI driver cannot be used yet"
                        );
                        said = Some(why);
                    }
                    waits.advance()
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn ask(&self, at: &Endpoint) -> Result<Driver, EndpointRefusal> {
        let line = Line::new(socket::connect(&at.endpoint)?, self.shared.timeout);
        let driver = line.identify().await?;
        if driver.name() != at.name {
            return Err(EndpointRefusal::OtherName(driver.name().to_owned()));
        }
        Ok(driver)
    }
}

#[cfg(test)]
mod tests;
