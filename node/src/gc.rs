//! Looks after what is left in the directory of an agent, from outside it: what nobody knows, and what is in quarantine. While an agent has the directory
//! nothing is changed but the quarantine, where a person says so: an agent moves things into it and never looks at it again.
//!
//! A pod is known when the API has its UID, on whichever node: a wrong `--name` or `--root-dir` moves nothing away.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::Client;
use kube::api::ListParams;
use orlop_apimachinery::clock::Clock;
use orlop_client::api::Api;
use orlop_client::client::message_of;
use orlop_client::informer::Informer;
use orlop_client::recorder::EventSink;
use orlop_csi::drivers::Drivers;
use tokio_util::sync::CancellationToken;

use crate::agent;
use crate::config::NodeConfig;
use crate::host::Host;
use crate::lock;
use crate::mount::{MountError, Mounts};
use crate::paths::Paths;
use crate::plugin::csi::{CALL_TIMEOUT, DriverRegistry};
use crate::plugin::files::Files;
use crate::rooted_fs::RootedFsError;
use crate::volumes::{self, Left, ReconstructError, Survey};

/// Pods that are asked for at a time.
const PAGE: u32 = 500;

/// What is to be done.
pub struct Request {
    /// The agent's settings; of them the name, the directory and the deadline count.
    pub config: NodeConfig,
    /// Reaches the API server.
    pub client: Client,
    /// Only look.
    pub dry_run: bool,
    /// Delete what has been in quarantine for so long.
    pub purge: Option<Duration>,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The directory cannot be used.
    #[error("the directory {} cannot be looked at: {why}", dir.display())]
    Directory {
        /// `--root-dir`.
        dir: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// Nobody says which pods there are.
    #[error("cannot list pods, and without them nobody knows what is left of pods: {}", message_of(.0))]
    Pods(kube::Error),
    /// What is mounted cannot be known.
    #[error(transparent)]
    Mounts(#[from] MountError),
    /// The same, from a plugin.
    #[error(transparent)]
    Rebuild(#[from] ReconstructError),
    /// The quarantine cannot be listed.
    #[error("the quarantine cannot be listed: {0}")]
    Quarantine(#[source] RootedFsError),
    /// A fault of ours; its text is in the log.
    #[error("a look at the quarantine ended by a panic")]
    Panic,
}

/// What becomes of something in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// It stays.
    Stays,
    /// It is deleted, or would be.
    Deleted,
    /// It should be deleted, and something of it is left, because of this.
    Failed(String),
}

/// Something in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it is, or was.
    pub path: PathBuf,
    /// How long; none when nobody knows.
    pub age: Option<Duration>,
    /// What becomes of it.
    pub purge: Purge,
}

/// What there is, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The directory, without links.
    pub root: PathBuf,
    /// An agent has it, and looks after it.
    pub agent_runs: bool,
    /// What belongs to no pod. Without an agent and without [`Request::dry_run`] the findings say what was done, else what would be.
    pub left: Left,
    /// What is in quarantine.
    pub quarantine: Vec<Quarantined>,
}

/// Looks, and does what is asked.
///
/// # Errors
/// Something cannot be known; nothing was changed.
pub fn run(request: Request) -> BoxFuture<'static, Result<Report, GcError>> {
    // Boxed: the compiler generates the code of a future where it is polled, so the caller's crate would contain all of it.
    collect(request).boxed()
}

async fn collect(request: Request) -> Result<Report, GcError> {
    let Request { mut config, client, dry_run, purge } = request;
    let dir = config.root_dir.clone();
    let failed = |why| GcError::Directory { dir: dir.clone(), why };
    let root = dir.canonicalize().map_err(failed)?;
    // Held to the end: no agent begins meanwhile. A look holds nothing up.
    let lock = if dry_run { None } else { lock::take(&root).map_err(failed)? };
    let agent_runs = match dry_run {
        true => lock::is_taken(&root).map_err(failed)?,
        false => lock.is_none(),
    };
    config.root_dir.clone_from(&root);
    // The record of mounts that are only recorded.
    config.is_virtual = root.join("mounts.json").exists();
    let end = CancellationToken::new();
    let (sink, events) = EventSink::start(client.clone(), Clock::Wall, end.clone());
    let host = Host {
        paths: Paths::new(root.clone()),
        mounts: Mounts::new(agent::mounter(&root, config.is_virtual)?, config.mount_timeout),
        client: client.clone(),
        drivers: Drivers::new(CALL_TIMEOUT),
        events: sink.recorder("kubelet"),
        clock: Clock::Wall,
        config: Arc::new(config),
    };
    let known = DriverRegistry::new(Informer::<CSIDriver>::new());
    let plugins = agent::plugins(&known, &Files::new(client.clone(), end.clone()), host.config.is_virtual);
    let survey = Survey::new(&host, &plugins).await?;
    let known = uids(&client).await?;
    let left = survey.left(&host, &known, lock.is_some()).await;
    let quarantine = quarantine(&host, purge, dry_run).await?;
    end.cancel();
    let _ = events.await;
    Ok(Report { root, agent_runs, left, quarantine })
}

/// UIDs of all pods.
async fn uids(client: &Client) -> Result<BTreeSet<String>, GcError> {
    let (pods, mut uids) = (Api::<Pod>::all(client.clone()), BTreeSet::new());
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = pods.list_metadata(&page).await.map_err(GcError::Pods)?;
        uids.extend(list.items.into_iter().filter_map(|pod| pod.metadata.uid));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(uids),
        }
    }
}

async fn quarantine(
    host: &Host,
    purge: Option<Duration>,
    dry_run: bool,
) -> Result<Vec<Quarantined>, GcError> {
    let paths = host.paths.clone();
    let listed = tokio::task::spawn_blocking(move || volumes::quarantined(&paths)).await;
    let listed = listed.map_err(|_| GcError::Panic)?.map_err(GcError::Quarantine)?;
    let (now, mut all) = (host.clock.now(), Vec::new());
    for volumes::Quarantined { path, since } in listed {
        let age = since.map(|since| age(since, now));
        let is_due = purge.zip(age).is_some_and(|(older_than, age)| age >= older_than);
        let purge = match (is_due, dry_run) {
            (false, _) => Purge::Stays,
            (true, true) => Purge::Deleted,
            (true, false) => match volumes::purge(host, &path).await {
                Ok(()) => Purge::Deleted,
                Err(why) => Purge::Failed(why),
            },
        };
        all.push(Quarantined { path, age, purge });
    }
    Ok(all)
}

/// A time from the future is now: somebody has set the clock.
fn age(since: Timestamp, now: Timestamp) -> Duration {
    let age = now.duration_since(since).max(SignedDuration::ZERO);
    Duration::try_from(age).unwrap_or_default()
}
