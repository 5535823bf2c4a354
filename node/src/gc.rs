//! Garbage collection in the directory of an agent, run from outside the agent: orphaned objects, and the
//! quarantine. While an agent uses the directory only the quarantine is changed, and only on request: an agent
//! moves objects into the quarantine and never reads them again.
//!
//! A pod is known when the API server has its UID, on any node: a wrong `--name` or `--root-dir` therefore
//! quarantines nothing.

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
use crate::volumes::{self, ReconstructError, Remains, Survey};
use orlop_volume::rooted_fs::RootedFsError;

/// Page size of the pod list.
const PAGE: u32 = 500;

/// A garbage collection request.
pub struct Request {
    /// The agent's settings; only the name, the directory and the deadline are used.
    pub config: NodeConfig,
    /// Client of the API server.
    pub client: Client,
    /// Report only, change nothing.
    pub dry_run: bool,
    /// Delete entries that have been in quarantine for this long.
    pub purge: Option<Duration>,
}

/// Why no report is possible.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The directory cannot be used.
    #[error("the directory {} cannot be looked at: {why}", dir.display())]
    Directory {
        /// `--root-dir`.
        dir: PathBuf,
        /// The error.
        why: io::Error,
    },
    /// The pods cannot be listed.
    #[error("cannot list pods, which is required to find leftovers: {}", message_of(.0))]
    Pods(kube::Error),
    /// The mounts cannot be determined.
    #[error(transparent)]
    Mounts(#[from] MountError),
    /// The same error, from a plugin.
    #[error(transparent)]
    Rebuild(#[from] ReconstructError),
    /// The quarantine cannot be listed.
    #[error("the quarantine cannot be listed: {0}")]
    Quarantine(#[source] RootedFsError),
    /// A bug; the text of the panic is in the log.
    #[error("a look at the quarantine ended by a panic")]
    Panic,
}

/// The outcome for an entry in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// It is retained.
    Stays,
    /// It is deleted or, in a dry run, would be.
    Deleted,
    /// Its deletion failed for this reason and may be incomplete.
    Failed(String),
}

/// An entry in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its path, or its path before the deletion.
    pub path: PathBuf,
    /// How long it has been in quarantine; none when that is unknown.
    pub age: Option<Duration>,
    /// Its outcome.
    pub purge: Purge,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The directory, with symbolic links resolved.
    pub root: PathBuf,
    /// An agent uses the directory and cleans it up itself.
    pub agent_runs: bool,
    /// The objects that belong to no pod. The findings describe actions taken when no agent runs and
    /// [`Request::dry_run`] is unset, otherwise actions that would be taken.
    pub left: Remains,
    /// The entries in quarantine.
    pub quarantine: Vec<Quarantined>,
}

/// Examines the directory, and performs the request.
///
/// # Errors
/// Part of the state cannot be determined; nothing was changed.
pub fn run(request: Request) -> BoxFuture<'static, Result<Report, GcError>> {
    // Boxed here: the compiler generates the code of a future where it is polled or boxed, else in the crate of each caller.
    collect(request).boxed()
}

async fn collect(request: Request) -> Result<Report, GcError> {
    let Request { mut config, client, dry_run, purge } = request;
    let dir = config.root_dir.clone();
    let failed = |why| GcError::Directory { dir: dir.clone(), why };
    let root = dir.canonicalize().map_err(failed)?;
    // Locked to the end, so that no agent starts meanwhile. A dry run needs no lock.
    let lock = if dry_run { None } else { lock::take(&root).map_err(failed)? };
    let agent_runs = match dry_run {
        true => lock::is_taken(&root).map_err(failed)?,
        false => lock.is_none(),
    };
    config.root_dir.clone_from(&root);
    // The record of virtual mounts.
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

/// A time in the future counts as now: the clock was changed.
fn age(since: Timestamp, now: Timestamp) -> Duration {
    let age = now.duration_since(since).max(SignedDuration::ZERO);
    Duration::try_from(age).unwrap_or_default()
}
