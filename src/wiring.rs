//! The only place that sees every crate: builds a process from its parts, and takes it down in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use orlop_apiserver::auth::{UserInfo, in_process};
use orlop_apiserver::limits::Limits;
use orlop_apiserver::{Config, Projection, Server, ServerError};
use orlop_controller::client::{self, ConnectError, Endpoint as Remotely};
use orlop_controller::manager::{self, ManagerError};
use orlop_controller::options::{Options, RecyclerOptions};
use orlop_store::embedded::{Embedded, Options as StoreOptions, Retention};
use orlop_store::memory::Memory;
use orlop_store::{Kv, OpenError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli::{LoopArgs, StoreArgs, StoreBackend};
use crate::config::{Remote, Role, ServerConfig};
use crate::data_dir::{self, DataDirError};
use crate::listen::ListenError;
use crate::shutdown;

/// Requests that are under way get this long to end.
const DRAIN: Duration = Duration::from_secs(10);

/// Why a process ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("signals cannot be received")]
    Signals(#[source] std::io::Error),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("the store cannot be opened")]
    Store(#[source] OpenError),
    #[error("the store could not be opened: its thread ended")]
    StoreThread,
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Controllers(#[from] ManagerError),
}

/// Runs the parts of a role until the process is asked to stop.
pub(crate) async fn run(role: &Role) -> Result<(), RunError> {
    let stop = shutdown::on_signal().map_err(RunError::Signals)?;
    match role {
        Role::Serve(server, loops) => serve(server, Some(loops), stop).await,
        Role::Apiserver(server) => serve(server, None, stop).await,
        Role::Controller(remote, loops) => {
            let client = client::connect(endpoint(remote)).await?;
            Ok(manager::run(client, options(loops), stop).await?)
        }
    }
}

/// The API server, and the controllers when `loops` is given.
///
/// The end has an order: readyz fails, so that nobody new comes; the controllers stop while they
/// can still write their last words; watches end; requests under way finish; the store closes.
async fn serve(
    config: &ServerConfig,
    loops: Option<&LoopArgs>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let endpoint = &config.endpoint;
    let auth = endpoint.auth().map_err(ListenError::from)?;
    let listener = endpoint.bind()?;
    let (store, place) = open_store(&config.store).await?;
    let server = Server::start(store.clone(), server_config(config, loops.is_some())).await?;
    let limits = Limits::new(config.api.max_requests_inflight, config.api.max_mutating_requests_inflight);
    let router = auth.protect(limits.protect(server.router()));

    let url = listener.url();
    let handle = listener.handle();
    let mut serving = tokio::spawn(listener.serve(router));
    endpoint.announce(&url)?;
    tracing::info!("data in {place}; try: {}", endpoint.kubectl(&url));

    let stop_loops = CancellationToken::new();
    let mut controllers = loops.map(|loops| start_controllers(&server, loops, stop_loops.clone()));
    let ended = tokio::select! {
        () = stop.cancelled() => None,
        ended = &mut serving => Some(ended.unwrap_or(Ok(())).map_err(RunError::from)),
        ended = ended_controllers(&mut controllers) => Some(ended),
    };
    server.begin_shutdown();
    if ended.is_none() {
        tokio::time::sleep(endpoint.shutdown_delay).await;
    }
    stop_loops.cancel();
    if let Some(controllers) = controllers.filter(|task| !task.is_finished())
        && tokio::time::timeout(DRAIN, controllers).await.is_err()
    {
        tracing::warn!("the controllers did not end in time; they go on from what is stored at the next start");
    }
    server.drain().await;
    handle.graceful_shutdown(Some(DRAIN));
    if !serving.is_finished()
        && let Err(error) = serving.await
    {
        tracing::warn!(%error, "the listener ended badly");
    }
    store.close().await;
    tracing::info!("stopped");
    ended.unwrap_or(Ok(()))
}

/// Resolves when the controllers end although nobody asked them to; never when there are none.
async fn ended_controllers(
    controllers: &mut Option<JoinHandle<Result<(), ManagerError>>>,
) -> Result<(), RunError> {
    match controllers {
        Some(task) => task.await.unwrap_or(Ok(())).map_err(RunError::from),
        None => std::future::pending().await,
    }
}

fn start_controllers(
    server: &Server,
    loops: &LoopArgs,
    stop: CancellationToken,
) -> JoinHandle<Result<(), ManagerError>> {
    let client: Client = client::in_process(in_process(server.router(), UserInfo::controller_manager()));
    tokio::spawn(manager::run(client, options(loops), stop))
}

/// The store, and where it is in words.
async fn open_store(args: &StoreArgs) -> Result<(Arc<dyn Kv<Projection>>, String), RunError> {
    match args.store_backend {
        StoreBackend::Memory => Ok((Arc::new(Memory::new()), "memory (gone when the process ends)".to_owned())),
        StoreBackend::Embedded => {
            let dir: PathBuf = data_dir::prepare(args.data_dir.as_deref())?;
            let place = dir.display().to_string();
            let retention = Retention {
                age: args.store_retention_age,
                revisions: args.store_retention_revisions,
            };
            let options = StoreOptions { retention, ..StoreOptions::default() };
            let opened = tokio::task::spawn_blocking(move || Embedded::open(dir, options))
                .await
                .map_err(|_| RunError::StoreThread)?;
            Ok((Arc::new(opened.map_err(RunError::Store)?), place))
        }
    }
}

/// `with_controllers`: the process is for people, who may select by more fields than upstream
/// lets them; an API server alone is exactly as upstream unless told otherwise.
fn server_config(config: &ServerConfig, with_controllers: bool) -> Config {
    Config {
        disabled_admission_plugins: config.api.disable_admission_plugins.clone(),
        event_ttl: config.api.event_ttl,
        request_timeout: config.api.request_timeout,
        min_request_timeout: Duration::from_secs(config.api.min_request_timeout.into()),
        extra_field_selectors: config.api.extra_field_selectors.unwrap_or(with_controllers),
        ..Config::default()
    }
}

fn endpoint(remote: &Remote) -> Remotely {
    match remote {
        Remote::Kubeconfig { path, server } => {
            Remotely::Kubeconfig { path: Some(path.clone()), context: None, server: server.clone() }
        }
        Remote::Url { server, token, certificate_authority } => Remotely::Url {
            url: server.clone(),
            token: token.clone(),
            ca_file: certificate_authority.clone(),
            insecure: false,
        },
    }
}

fn options(args: &LoopArgs) -> Options {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    Options {
        controllers: args.controllers.clone(),
        pv_claim_binder_sync_period: args.pvclaimbinder_sync_period,
        terminated_pod_gc_threshold: args.terminated_pod_gc_threshold,
        enable_dynamic_provisioning: args.enable_dynamic_provisioning,
        enable_hostpath_provisioner: args.enable_hostpath_provisioner,
        recycler_nfs: RecyclerOptions {
            pod_template_filepath: args.pv_recycler_pod_template_filepath_nfs.clone(),
            minimum_timeout: seconds(args.pv_recycler_minimum_timeout_nfs),
            increment_timeout: seconds(args.pv_recycler_increment_timeout_nfs),
        },
        recycler_hostpath: RecyclerOptions {
            pod_template_filepath: args.pv_recycler_pod_template_filepath_hostpath.clone(),
            minimum_timeout: seconds(args.pv_recycler_minimum_timeout_hostpath),
            increment_timeout: seconds(args.pv_recycler_timeout_increment_hostpath),
        },
        concurrent_ephemeral_syncs: count(args.concurrent_ephemeralvolume_syncs),
        concurrent_namespace_syncs: count(args.concurrent_namespace_syncs),
        concurrent_gc_syncs: count(args.concurrent_gc_syncs),
        ..Options::default()
    }
}
