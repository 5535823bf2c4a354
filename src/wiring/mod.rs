//! Builds a process from its parts, and shuts it down in order. Only this module depends on every crate.
//!
//! The order of the shutdown: readiness fails, so that load balancers send no new clients; controllers and nodes
//! stop, so that no operation is incomplete; watches end cleanly and requests in flight finish; a snapshot in
//! progress is finished; the store is closed.

mod error;
mod store;
mod task;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use orlop_apiserver::peer_certificates::ClientAuthorities;
use orlop_apiserver::service_account::key_file::key_file;
use orlop_apiserver::{ApiService, Config, Server};
use orlop_cli::args::{LoopArgs, StoreBackend};
use orlop_cli::config::settings;
use orlop_cli::config::{Nodes, Role, ServerConfig, TlsSource};
use orlop_client::client::{self, Endpoint};
use orlop_client::component::{self, ClientBuilder, Component, SharedClient, accounts};
use orlop_client::failing::Failing;
use orlop_client::informers::Informers;
use orlop_client::names::controller;
use orlop_controller::account_tokens::signer::{TokenSigner, TokenSubject};
use orlop_controller::certificates::authority::SigningAuthority;
use orlop_controller::manager;
use orlop_csi_hostpath as hostpath;
use orlop_node::config::NodeConfig;
use orlop_store::MemoryBudget;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::error::RunError;
use self::task::Task;
use crate::agent;
use crate::audit;
use crate::authentication;
use crate::authority;
use crate::authorization;
use crate::background::Background;
use crate::component_credentials::{self, ComponentProcess};
use crate::components::LocalClients;
use crate::data_dir;
use crate::encryption;
use crate::explain::Explainer;
use crate::listen::{self, ListenError, Listener, files};
use crate::machine_memory;
use crate::nodes::{self, Local};
use crate::notify;
use crate::pki::front_proxy::FrontProxy;
use crate::pki::{self, OwnAuthority};
use crate::server_check;
use crate::shutdown;
use crate::sign_in;
use crate::signing;
use crate::snapshots;
use crate::tls::{TlsKeeper, TlsOrigin};

/// The flags with the certificate for aggregated API servers.
const PROXY_FLAGS: [&str; 2] = ["--proxy-client-cert-file", "--proxy-client-key-file"];

/// Runs the parts of a role until a stop signal.
pub(crate) async fn run(role: &Role) -> Result<(), RunError> {
    let requests = match role {
        Role::Serve(server, ..) | Role::Apiserver(server) => {
            server.listen.shutdown_delay.saturating_add(server.listen.shutdown_grace)
        }
        Role::Node(..) | Role::Join(..) | Role::Controller(..) | Role::CsiHostpath(_) => Duration::ZERO,
    };
    let limit = requests.saturating_add(shutdown::WITHOUT_REQUESTS);
    let stop = shutdown::on_signal(limit).map_err(RunError::Signals)?;
    match role {
        Role::Serve(server, loops, nodes) => serve(server, Some(loops), nodes, stop, |_, _| {}).await,
        Role::Apiserver(server) => serve(server, None, &Nodes::default(), stop, |_, _| {}).await,
        Role::Node(endpoint, config) => {
            Ok(agent::run(endpoint.clone(), NodeConfig::clone(config), stop).await?)
        }
        Role::Join(options, config) => Ok(agent::join(options, NodeConfig::clone(config), stop).await?),
        Role::Controller(endpoint, loops) => control(endpoint.clone(), loops, stop).await,
        Role::CsiHostpath(options) => drive(options.clone(), stop).await,
    }
}

/// Runs a server until `stop`. `ready` receives the URL, and the service for clients in this process.
pub(crate) async fn serve(
    config: &ServerConfig,
    loops: Option<&LoopArgs>,
    nodes: &Nodes,
    stop: CancellationToken,
    ready: impl FnOnce(&str, &ApiService) + Send,
) -> Result<(), RunError> {
    let listen = &config.listen;
    if nodes.machine.is_none() {
        // The database library of the store creates files with the mode of the umask. In a process with a node agent, the umask is
        // unchanged, because pods must be able to read the files of the agent; the modes of the directories then protect the store.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    // Inexpensive checks run before the store is opened.
    nodes::allowed(nodes, rustix::process::geteuid().is_root())?;
    files::check_limit()?;
    let mut auth = authentication::read(listen).await?;
    let service_accounts = authentication::service_accounts(&listen.authentication.service_accounts)?;
    let mut proxy_identity =
        authentication::client_identity(PROXY_FLAGS, listen.authentication.proxy_client.as_ref())?;
    let audit_files = audit::read(&config.audit).await?;
    let authorization = authorization::read(&config.authorization).await?;
    let root_ca = match loops {
        Some(loops) => authority::of_server(loops.root_ca_file.as_deref(), listen.certificate())?,
        None => None,
    };
    let authorities = auth.client_authorities.clone();
    let mut listener = listen::bind(listen, authorities.clone())?;
    let background = Background::start().map_err(RunError::Threads)?;
    let machine = machine_memory::bytes();
    let memory = MemoryBudget::new(config.api.memory_limit.or(machine.map(|bytes| bytes / 4)).unwrap_or(0));
    let encryption = encryption::load(&config.encryption).await;
    let encryption =
        Arc::new(encryption.map_err(|_| RunError::Panic("reading the encryption configuration"))??);
    let (store, place) = store::open(&config.store, encryption.clone(), &memory).await?;
    let explainer = Explainer::default();
    let failing = Failing::default();
    let more_metrics = failing.clone();
    let result = async {
        let (own_authority, front_proxy) = secure(&mut listener, config, authorities).await?.unzip();
        let front_proxy = front_proxy.flatten();
        let own_client =
            own_authority.as_ref().map(|own| own.kubelet_client(Timestamp::now())).transpose()?;
        let kubelets = authentication::kubelets(&config.api.kubelets, own_client)?;
        if let Some(front_proxy) = &front_proxy {
            auth.front_proxy = Some(pki::front_proxy::names());
            proxy_identity = authentication::client_identity(PROXY_FLAGS, Some(&front_proxy.client_files()))?;
        }
        let root_ca = root_ca.or(own_authority.as_ref().map(|own| own.authority.certificate().to_owned()));
        let reachable = format!("https://{}", listener.advertised(reachable_address(config)));
        let mut rules = loops.map(|loops| settings::controllers(loops, root_ca)).unwrap_or_default();
        let own = own_authority.as_ref().map(|own| SigningAuthority::Own(own.authority.clone()));
        rules.signing_authority = rules.signing_authority.or(own).filter(|_| loops.is_some());
        signing::check(&rules)?;
        let (tokens, page_sign_in) = (auth.tokens.clone(), auth.page_sign_in.clone());
        let connections = files::room_for(listen.max_connections);
        let data_dir = match config.store.store_backend {
            StoreBackend::Memory => None,
            StoreBackend::Embedded => Some(data_dir::prepare(config.store.data_dir.as_deref())?),
        };
        let selects =
            |name| loops.is_some_and(|loops| manager::selects(&settings::controllers(loops, None), name));
        let settings = Config {
            auth,
            proxy_identity,
            kubelets,
            service_accounts,
            authorization: authorization.modes,
            authorization_webhooks: authorization.webhooks,
            audit: audit::config(&config.audit, audit_files, data_dir.as_deref()),
            service_account_key_file: data_dir.as_deref().map(key_file),
            tls: listen.has_tls(),
            advertised: Some(listener.advertised(config.api.advertise_address)),
            cluster_info: signing::cluster_info(&rules, &reachable, listen.has_tls() && !listen.accepts_http),
            explainer: explainer.explains(),
            more_metrics: {
                let encryption = encryption.clone();
                Arc::new(move || more_metrics.metrics() + &encryption.metrics())
            },
            kms_health: encryption::health(&config.encryption, &encryption),
            has_account_controller: selects(controller::SERVICE_ACCOUNT),
            runs_controllers: loops.is_some(),
            runs_scheduler: selects(controller::SCHEDULER),
            ..settings::apiserver(&config.api, connections, memory.clone(), loops.is_some())
        };
        let server = Server::start(store.clone(), settings).await?;
        if let Some(loops) = loops {
            let of_file = authentication::token_signer(loops.service_account_private_key_file.as_deref())?;
            let own = server.clone();
            let of_server =
                move |subject: &TokenSubject| own.sign_legacy_token(&authentication::legacy_claims(subject));
            rules.token_signer = of_file.or_else(|| Some(TokenSigner::new(of_server)));
        }
        let service = server.service();
        let end_controllers = CancellationToken::new();
        let mut controllers = Task::none("the controllers");
        let clients = Arc::new(LocalClients::new(service.clone()));
        let shutdown = end_controllers.child_token();
        let (explaining, informers) = background
            .spawning_here(async {
                let explaining = clients.client(Component::Account(accounts::ORLOP_EXPLAINER));
                let informers = Informers::new(clients.client(Component::ControllerManager), shutdown);
                (explaining, informers.reporting_to(failing.clone()))
            })
            .await;
        // No volume may erase them (I8).
        let own: Vec<PathBuf> = data_dir
            .iter()
            .chain(config.snapshots.as_ref().map(|schedule| &schedule.dir))
            .chain(nodes.machine.as_ref().map(|node| &node.root_dir))
            .cloned()
            .chain(audit::log_file(&config.audit, data_dir.as_deref()))
            .collect();
        rules.host_path_roots = rules.host_path_roots.protecting(&own);
        explainer.look_at(explaining, informers.clone(), &rules);
        if loops.is_some() {
            let running = manager::run_with(clients, informers, failing, rules, end_controllers.clone());
            controllers.spawn_on(running, background.handle());
        }

        let end_snapshots = CancellationToken::new();
        let mut saving = Task::none("the snapshots");
        if let Some(schedule) = &config.snapshots {
            // The directory may be below that of the store, which must be empty when the store is created.
            snapshots::prepare(&schedule.dir)?;
            let task = snapshots::run(schedule.clone(), store.clone(), server.clone(), end_snapshots.clone());
            saving.spawn(async {
                task.await;
                Ok::<(), RunError>(())
            });
        }

        let end_reload = CancellationToken::new();
        let _reload_ends = end_reload.clone().drop_guard();
        if encryption.path().is_some() {
            tokio::spawn(encryption::recover(encryption.clone(), store.clone(), end_reload.clone()));
        }
        if config.encryption.encryption_provider_config_automatic_reload {
            tokio::spawn(encryption::keep_current(encryption, store.clone(), end_reload));
        }

        let end_nodes = CancellationToken::new();
        let beginning = Local::begin(nodes, data_dir.as_deref(), &own, &service, &end_nodes);
        let local = background.spawning_here(beginning).await?;
        let mut agents = Task::none("the nodes");
        if !nodes.is_empty() {
            agents.spawn(local.ended());
        }

        let (url, handle) = (listener.url(), listener.handle());
        let admin = match &own_authority {
            Some(own) => Some(own.write_admin(&reachable, Timestamp::now())?),
            None => None,
        };
        let _renewal = own_authority.map(|own| {
            AbortOnDropHandle::new(tokio::spawn(own.keep_current(reachable.clone(), front_proxy)))
        });
        if let Some(page_sign_in) = &page_sign_in {
            page_sign_in.set_url(&url);
        }
        let mut serving = Task::none("the listener");
        serving.spawn(listener.serve(server.protect(service.clone()), server.connections(), tokens));
        listen::announce(listen, &url)?;
        if let Some(page_sign_in) = &page_sign_in {
            sign_in::announce(page_sign_in);
        }
        ready(&url, &service);
        tracing::info!("serving {url}, data {place}; try: {}", listen.first_command(&url, admin.as_deref()));
        notify::ready();

        let early = tokio::select! {
            () = stop.cancelled() => Ok(()),
            Err(error) = serving.ended() => Err(error),
            Err(error) = controllers.ended() => Err(error),
            Err(error) = agents.ended() => Err(error),
        };
        notify::stopping();
        server.begin_shutdown();
        if early.is_ok() {
            tokio::time::sleep(listen.shutdown_delay).await;
        }
        let begun = Instant::now();
        end_snapshots.cancel();
        end_controllers.cancel();
        end_nodes.cancel();
        let controllers = controllers.finish().await;
        let agents = agents.finish().await;
        explainer.forget();
        handle.graceful_shutdown(Some(shutdown::rest_of_grace(listen.shutdown_grace, begun.elapsed())));
        server.drain().await;
        let serving = serving.finish().await;
        server.close_audit().await;
        // Stopped last: a snapshot in progress needs only the store, and no other part waits for it.
        let saving = saving.finish().await;
        early.and(controllers).and(agents).and(serving).and(saving)
    }
    .await;
    store.close().await;
    tracing::info!("stopped");
    result
}

/// The configured address of the server for clients on other machines. `None` on loopback: clients use the address of the listener.
fn reachable_address(config: &ServerConfig) -> Option<IpAddr> {
    config.api.advertise_address.filter(|_| !config.listen.accepts_http)
}

/// Gives the listener certificates of the server's own authority, if no others are configured. The server also creates a certificate
/// for aggregated API servers then, unless flags configure front proxies.
async fn secure(
    listener: &mut Listener,
    config: &ServerConfig,
    authorities: Option<Arc<ClientAuthorities>>,
) -> Result<Option<(OwnAuthority, Option<FrontProxy>)>, RunError> {
    let Some(TlsSource::OwnAuthority { names }) = &config.listen.tls else { return Ok(None) };
    // With the store in memory too: clients keep their kubeconfig when the server restarts.
    let data_dir = data_dir::prepare(config.store.data_dir.as_deref())?;
    let now = Timestamp::now();
    // Opening may wait for a process that is exiting.
    let opened = tokio::task::spawn_blocking(move || OwnAuthority::open(&data_dir, now)).await;
    let own = opened.map_err(|_| RunError::Panic("opening the certificate authority"))??;
    let service = config.api.service_cluster_ip_range.first();
    let (server, names) = (listener.advertised(reachable_address(config)), names.clone());
    let names = Box::new(move || pki::server_names(server, service, &names));
    let origin = TlsOrigin::Own { authority: own.authority.clone(), names };
    let mut files = listen::client_authority_files(&config.listen);
    let options = &config.listen.authentication;
    let is_configured = options.front_proxy.is_some() || options.proxy_client.is_some();
    let front_proxy = if is_configured { None } else { Some(own.front_proxy(now)?) };
    if let Some(front_proxy) = &front_proxy {
        files.proxies = Some(front_proxy.authority_file());
    }
    let keeper = TlsKeeper::new(origin, files, authorities.unwrap_or_default(), now);
    listener.secure(keeper.map_err(ListenError::from)?);
    Ok(Some((own, front_proxy)))
}

async fn control(endpoint: Endpoint, loops: &LoopArgs, stop: CancellationToken) -> Result<(), RunError> {
    let shown = server_check::name_of(&endpoint);
    component_credentials::required(&endpoint, ComponentProcess::Controllers).await?;
    let root_ca = authority::of_client(loops.root_ca_file.as_deref(), &endpoint)?;
    let mut rules = settings::controllers(loops, root_ca);
    rules.token_signer = authentication::token_signer(loops.service_account_private_key_file.as_deref())?;
    signing::check(&rules)?;
    let clients: Arc<dyn ClientBuilder> = match loops.use_service_account_credentials {
        true => Arc::new(client::connect_as_accounts(endpoint, component::NAMESPACE).await?),
        false => Arc::new(SharedClient(client::connect(endpoint).await?)),
    };
    tracing::info!("controllers work on {shown}");
    let _check = server_check::start(clients.client(Component::ControllerManager), shown);
    notify::ready();
    let mut controllers = Task::none("the controllers");
    controllers.spawn(manager::run(clients, rules, stop.clone()));
    tokio::select! {
        () = stop.cancelled() => {}
        Err(error) = controllers.ended() => return Err(error),
    }
    notify::stopping();
    controllers.finish().await?;
    tracing::info!("stopped");
    Ok(())
}

/// Runs the CSI driver for labs.
async fn drive(options: hostpath::Options, stop: CancellationToken) -> Result<(), RunError> {
    let (name, endpoint) = (options.name.clone(), options.endpoint.clone());
    let ready = move || tracing::info!("driver {name} answers on {endpoint}");
    hostpath::serve(options, ready, stop.cancelled_owned()).await?;
    tracing::info!("stopped");
    Ok(())
}
