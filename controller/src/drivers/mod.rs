//! The drivers that can be reached from here: those that `--csi-endpoint` names, and those that register in
//! `--csi-plugin-dir` as they would with a kubelet. Each endpoint is asked who it is until it answers, and again after it
//! was away, because a driver that was restarted may have learned something.

mod folder;
mod registration;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use orlop_csi::driver::{Driver, Line};
use orlop_csi::error::CallError;
use orlop_csi::socket::{self, SocketError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use orlop_apimachinery::clock::Backoff;

/// How often a driver that answers is asked again who it is.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// First and longest wait for a driver that does not answer.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A driver's endpoint from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What the driver there has to call itself.
    pub name: String,
    /// `unix:///path`.
    pub endpoint: String,
}

/// The drivers that can be reached. Clones share them.
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
    #[error("it does not say who it is: {0}")]
    Silent(#[from] CallError),
    #[error("it calls itself {0:?}; correct the name in --csi-endpoint")]
    OtherName(String),
}

impl Drivers {
    /// None yet. A call to one of them takes at most `timeout`.
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

    /// The driver of a name.
    pub fn get(&self, name: &str) -> Option<Driver> {
        self.shared.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Driver> {
        self.shared.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Told whenever a driver came, went, can do something else, or answers again after it was away: everything that waits
    /// for one is due then.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Takes a driver up, or what it says now.
    pub fn put(&self, driver: Driver) {
        self.take_up(driver, false, &CancellationToken::new());
    }

    /// Takes a driver up, unless `stop` is cancelled. Looked at under the lock, so that whoever cancels first and then removes
    /// the driver has removed it.
    fn take_up(&self, driver: Driver, was_away: bool, stop: &CancellationToken) {
        let name = driver.name().to_owned();
        {
            let mut known = self.shared.known.write().unwrap_or_else(PoisonError::into_inner);
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

    /// Forgets a driver that was taken away on purpose. One that merely does not answer is kept: its calls fail, and what
    /// was asked of it stays uncertain.
    pub fn remove(&self, name: &str) {
        let removed = self.shared.known.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if removed.is_some() {
            tracing::info!(driver = name, "CSI driver taken away");
            self.shared.changed.send_modify(|version| *version += 1);
        }
    }

    /// Keeps one endpoint known until `shutdown`.
    async fn keep(&self, at: Endpoint, shutdown: CancellationToken) {
        let mut waits = Backoff::new(WAITS.0, WAITS.1);
        let mut said = None;
        loop {
            // A driver that hangs does not hold up the end.
            let Some(asked) = shutdown.run_until_cancelled(self.ask(&at)).await else { return };
            let wait = match asked {
                Ok(driver) => {
                    self.take_up(driver, said.is_some(), &shutdown);
                    (waits, said) = (Backoff::new(WAITS.0, WAITS.1), None);
                    ASK_AGAIN
                }
                Err(refusal) => {
                    let why = refusal.to_string();
                    // Once per reason: a driver that is not there yet is no news.
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
