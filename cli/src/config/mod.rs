//! Merges flags, variables and the file into one typed configuration.
//!
//! Flags take precedence over `ORLOP_*` variables, variables over the file, and the file over the defaults.
//! The values of file and variables become clap's defaults before clap parses, so all values pass through
//! the same parsers. The checks of flags that depend on each other are here.

mod audit;
mod authentication;
mod authorization;
mod caller;
mod credentials;
mod error;
mod file;
mod insight;
mod listen;
mod loopback;
mod nodes;
mod remote;
pub mod settings;
mod tls_files;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use orlop_bench::BenchArgs;
use orlop_client::client::Endpoint;
use orlop_csi_hostpath as hostpath;
use orlop_node::config::NodeConfig;
use orlop_node::join::JoinOptions;

pub use self::audit::{AuditLogOptions, AuditLogPlace, AuditOptions, AuditWebhookOptions};
pub use self::authentication::{
    AuthenticationOptions, FrontProxyOptions, OidcOptions, ServiceAccountOptions, TokenWebhookOptions,
};
pub use self::authorization::AuthorizationOptions;
use self::caller::Caller;
pub use self::error::ConfigError;
use self::error::wrong;
pub use self::listen::{ListenConfig, TlsSource};
use self::loopback::CredentialDemand;
pub use self::loopback::LoopbackAccess;
pub use self::nodes::Nodes;
pub(crate) use self::remote::is_here;
use self::remote::remote;
pub use self::remote::{host_of, url_of};
pub use self::tls_files::TlsFiles;
use crate::args::{
    AgentArgs, ApiArgs, AuditArgs, AuditLogArgs, AuthenticationArgs, AuthorizationArgs, Cli, Command,
    EncryptionArgs, GcArgs, KeysCommand, KubeconfigCommand, LabArgs, ListenArgs, LoopArgs, NodeCommand,
    Output, ProcessArgs, RestoreArgs, SaveArgs, SnapshotArgs, SnapshotCommand, StoreArgs, StoreCommand,
    VolumesCommand,
};
use crate::drain::Drain;
use crate::gc::Gc;
use crate::insight::Insight;
use crate::kubeconfig::KubeconfigOrder;
use crate::token::Token;
use crate::volumes::Audit;

/// The role of this process.
pub enum Config {
    /// Run one command and exit.
    Tool(Tool),
    /// Run a benchmark.
    Bench(Box<BenchArgs>),
    /// Run a lab and its scenarios.
    Lab(Box<LabArgs>),
    /// Run until a signal.
    Run(Box<Run>),
}

/// A command that does one thing and exits.
pub struct Tool(pub(crate) Task);

/// The command of a [`Tool`].
pub(crate) enum Task {
    /// Print the version.
    Version,
    /// Print a completion script.
    Completion(Shell),
    /// Save, inspect or restore a snapshot.
    Snapshot(SnapshotTask),
    /// Check or compact a store that is not running.
    Store(StoreCommand),
    /// Replace the key of service account tokens.
    Keys(KeysCommand),
    /// Compare the volumes of drivers with the API.
    Volumes(Audit),
    /// Empty a node.
    Drain(Drain),
    /// Make a node schedulable again.
    Uncordon { node: String, server: Endpoint },
    /// Clean up what pods left on this machine.
    Gc(Box<Gc>),
    /// Manage bootstrap tokens.
    Token(Box<Token>),
    /// Create a kubeconfig.
    Kubeconfig(Box<KubeconfigOrder>),
    /// Print a link that signs in to the web page.
    Page(Endpoint),
    /// Explain, rewind and repair.
    Insight(Box<Insight>),
}

impl From<Task> for Config {
    fn from(task: Task) -> Self {
        Config::Tool(Tool(task))
    }
}

/// The file of a new snapshot.
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
    /// Replace an existing file.
    pub(crate) force: bool,
}

/// An operation on a snapshot.
pub(crate) enum SnapshotTask {
    /// Save a snapshot of a running server.
    Fetch { file: SnapshotFile, from: Endpoint },
    /// Save a snapshot of the data directory of a stopped server.
    Take { file: SnapshotFile, data_dir: PathBuf },
    /// Inspect a snapshot.
    Status { file: PathBuf, output: Output },
    /// Create a store from a snapshot.
    Restore(RestoreArgs),
}

/// A long-running process.
pub struct Run {
    /// The log and the configuration file.
    pub process: ProcessArgs,
    /// The parts that run in the process.
    pub role: Role,
}

/// The parts that run in the process.
pub enum Role {
    /// API server, controllers and nodes.
    Serve(Box<ServerConfig>, LoopArgs, Nodes),
    /// The API server.
    Apiserver(Box<ServerConfig>),
    /// The controllers.
    Controller(Endpoint, LoopArgs),
    /// The CSI driver for labs.
    CsiHostpath(hostpath::Options),
    /// The agent of a node.
    Node(Endpoint, Box<NodeConfig>),
    /// The agent of a node that joins first.
    Join(Box<JoinOptions>, Box<NodeConfig>),
}

/// The configuration of the API server.
#[derive(Debug)]
pub struct ServerConfig {
    /// Where and how the server listens.
    pub listen: ListenConfig,
    /// The store of the objects.
    pub store: StoreArgs,
    /// Encryption at rest.
    pub encryption: EncryptionArgs,
    /// Periodic snapshots.
    pub snapshots: Option<Schedule>,
    /// How requests are authorized.
    pub authorization: AuthorizationOptions,
    /// The API.
    pub api: ApiArgs,
    /// The audit log.
    pub audit: AuditOptions,
}

/// Period and directory of periodic snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The period.
    pub every: Duration,
    /// The directory of the files.
    pub dir: PathBuf,
    /// The number of files to keep.
    pub keep: usize,
}

/// Loads the configuration of this process. `variable` looks up an environment variable.
pub fn load(
    args: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Config, ConfigError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let caller = Caller::of(args.first());
    let plain = with_variables(named(Cli::command(), caller), &variable);
    let mut matches = plain.try_get_matches_from(&args).map_err(|error| blame(error, &args, &variable))?;
    if let Some((name, path)) = file_of(&matches) {
        let command = Cli::command();
        let values = file::read(&path, &command, &name)?;
        let command = command.mut_subcommand(&name, |sub| file::as_defaults(sub, values));
        // The first pass accepted the flags and variables, so the error is in the file.
        matches = with_variables(command, &variable)
            .try_get_matches_from(&args)
            .map_err(|problem| ConfigError::FileValue { path, problem })?;
    }
    typed(Cli::from_arg_matches(&matches)?, caller)
}

/// Sets the program name by which the program was called.
fn named(command: clap::Command, caller: Caller) -> clap::Command {
    match caller {
        Caller::Itself => command,
        Caller::Kubectl => command.bin_name("kubectl orlop"),
    }
}

/// The selected subcommand and its configuration file.
fn file_of(matches: &ArgMatches) -> Option<(String, PathBuf)> {
    let (name, sub) = matches.subcommand()?;
    let path = sub.try_get_one::<PathBuf>("config").ok()??;
    Some((name.to_owned(), path.clone()))
}

/// Assigns every flag of the commands, and of the subcommands of `insight::VERBS_BELOW`, its variable, whose value becomes
/// the flag's default. The flags of other subcommands, such as those of `orlop store`, have no variables.
fn with_variables(command: clap::Command, variable: &impl Fn(&str) -> Option<OsString>) -> clap::Command {
    let given = |arg: clap::Arg| {
        let Some(flag) = arg.get_long() else { return arg };
        match variable(&variable_name(flag)) {
            Some(value) => arg.default_value(value),
            None => arg,
        }
    };
    command.mut_subcommands(|sub| match insight::VERBS_BELOW.contains(&sub.get_name()) {
        true => sub.mut_subcommands(|sub| sub.mut_args(given)),
        false => sub.mut_args(given),
    })
}

/// The name of a flag's variable: `ORLOP_DATA_DIR` for `--data-dir`.
fn variable_name(flag: &str) -> String {
    format!("ORLOP_{}", flag.replace('-', "_").to_ascii_uppercase())
}

/// Attributes an invalid value to the variable that it came from: clap only names the flag.
fn blame(
    problem: clap::Error,
    args: &[OsString],
    variable: &impl Fn(&str) -> Option<OsString>,
) -> ConfigError {
    let Some(ContextValue::String(shown)) = problem.get(ContextKind::InvalidArg) else {
        return problem.into();
    };
    let flag = shown.split([' ', '=', '[']).next().unwrap_or_default().trim_start_matches('-');
    let given = args.iter().any(|arg| {
        let arg = arg.to_string_lossy();
        arg.strip_prefix("--").is_some_and(|arg| arg.split('=').next() == Some(flag))
    });
    let name = variable_name(flag);
    if given || variable(&name).is_none() {
        return problem.into();
    }
    ConfigError::Variable { name, problem }
}

fn typed(cli: Cli, caller: Caller) -> Result<Config, ConfigError> {
    let run = |process, role| Ok(Config::Run(Box::new(Run { process, role })));
    match cli.command {
        Command::Bench(args) => Ok(Config::Bench(args)),
        Command::Lab(args) => Ok(Config::Lab(args)),
        Command::Version => Ok(Task::Version.into()),
        Command::Completion { shell } => Ok(Task::Completion(shell).into()),
        Command::Snapshot(command) => Ok(Task::Snapshot(match command {
            SnapshotCommand::Save(args) => save(*args, caller)?,
            SnapshotCommand::Status { file, output } => SnapshotTask::Status { file, output },
            SnapshotCommand::Restore(args) => SnapshotTask::Restore(args),
        })
        .into()),
        Command::Store(command) => Ok(Task::Store(command).into()),
        Command::Keys(command) => Ok(Task::Keys(command).into()),
        Command::Why(args) => asked(insight::why(*args, caller)),
        Command::Impact(args) => asked(insight::impact(*args, caller)),
        Command::History(args) => asked(insight::history(*args, caller)),
        Command::Diff(args) => asked(insight::diff(*args, caller)),
        Command::Get(args) => asked(insight::get(*args, caller)),
        Command::Record(args) => asked(insight::record(*args, caller)),
        Command::Undelete(args) => asked(insight::undelete(*args, caller)),
        Command::Unblock(args) => asked(insight::unblock(*args, caller)),
        Command::Pv(command) => asked(insight::pv(command, caller)),
        Command::Pvc(command) => asked(insight::pvc(command, caller)),
        Command::Attachment(command) => asked(insight::attachment(command, caller)),
        Command::Token(command) => Ok(Task::Token(Box::new(credentials::token(command, caller)?)).into()),
        Command::Kubeconfig(KubeconfigCommand::Create(args)) => {
            Ok(Task::Kubeconfig(Box::new(credentials::kubeconfig(*args, caller)?)).into())
        }
        Command::Page(args) => Ok(Task::Page(insight::server(args.remote, None, caller)?).into()),
        Command::Volumes(VolumesCommand::Audit(args)) => audit(args, caller),
        Command::Serve(args) => {
            let data_dir = args.store.data_dir.clone();
            let has_node = args.nodes.node;
            let listen = listener(args.listen, args.authentication, &args.authorization, has_node)?;
            let (store, encryption) = (args.store, args.encryption);
            let server =
                server(listen, store, encryption, args.snapshots, args.authorization, args.api, args.audit)?;
            let nodes = nodes::served(args.nodes, &args.loops, data_dir.as_deref())?;
            run(args.process, Role::Serve(Box::new(server), loops(args.loops)?, nodes))
        }
        Command::Apiserver(args) => {
            let listen = listener(args.listen, args.authentication, &args.authorization, false)?;
            let (store, encryption) = (args.store, args.encryption);
            let server =
                server(listen, store, encryption, args.snapshots, args.authorization, args.api, args.audit)?;
            run(args.process, Role::Apiserver(Box::new(server)))
        }
        Command::CsiHostpath(args) => {
            let (process, options) = args.options();
            run(process, Role::CsiHostpath(options))
        }
        Command::Node(args) => match args.command {
            None => {
                let AgentArgs { process, remote: server, name, csi_endpoint, host_path_roots, machine: args } =
                    args.agent;
                // clap ensures that there is one.
                let server = remote(server, caller)?;
                let is_here = remote::is_here(&server);
                let config = nodes::machine(name.unwrap_or_default(), args, csi_endpoint, is_here)?;
                let config = NodeConfig { host_path_roots: host_path_roots.into_iter().collect(), ..config };
                run(process, Role::Node(server, Box::new(config)))
            }
            Some(NodeCommand::Join(args)) => {
                if args.process.config.is_some() {
                    return Err(wrong("join does not support --config: use flags"));
                }
                let (process, options, config) = nodes::joining(*args)?;
                run(process, Role::Join(Box::new(options), Box::new(config)))
            }
            Some(NodeCommand::Drain(mut args)) => {
                let server = remote(std::mem::take(&mut args.remote), caller)?;
                Ok(Task::Drain(Drain { args, server }).into())
            }
            Some(NodeCommand::Uncordon(args)) => {
                Ok(Task::Uncordon { node: args.node, server: remote(args.remote, caller)? }.into())
            }
            Some(NodeCommand::Gc(args)) => gc(*args, caller),
        },
        Command::Controller(args) => {
            let remote = remote(args.remote, caller)?;
            run(args.process, Role::Controller(remote, loops(args.loops)?))
        }
    }
}

fn asked(insight: Result<Insight, ConfigError>) -> Result<Config, ConfigError> {
    Ok(Task::Insight(Box::new(insight?)).into())
}

fn gc(args: GcArgs, caller: Caller) -> Result<Config, ConfigError> {
    let config = nodes::directory(args.name, args.root_dir, args.mount_timeout)?;
    let server = remote(args.remote, caller)?;
    Ok(Task::Gc(Box::new(Gc { config, server, dry_run: args.dry_run, purge: args.older_than })).into())
}

fn audit(mut args: Box<AuditArgs>, caller: Caller) -> Result<Config, ConfigError> {
    if args.csi_timeout.is_zero() {
        return Err(wrong("--csi-timeout must be more than 0s: every call would time out immediately"));
    }
    if let Some(twice) = args.adopt.iter().find(|handle| args.delete.contains(handle)) {
        return Err(wrong(&format!("--adopt and --delete both name {twice}: use one of them")));
    }
    let (mut names, known) = (std::collections::BTreeSet::new(), &args.csi_endpoint);
    if let Some(twice) = known.iter().find(|endpoint| !names.insert(&endpoint.name)) {
        return Err(wrong(&format!("--csi-endpoint names {} twice", twice.name)));
    }
    let server = remote(std::mem::take(&mut args.remote), caller)?;
    Ok(Task::Volumes(Audit { args, server }).into())
}

fn save(args: SaveArgs, caller: Caller) -> Result<SnapshotTask, ConfigError> {
    let SaveArgs { file: path, force, data_dir, remote: args } = args;
    let file = SnapshotFile { path, force };
    if let Some(data_dir) = data_dir {
        return Ok(SnapshotTask::Take { file, data_dir });
    }
    if args.server.is_none() && args.master.is_none() && args.kubeconfig.is_none() && caller == Caller::Itself
    {
        return Err(wrong(
            "the snapshot has no source: set --server URL (such as http://127.0.0.1:8080) or --kubeconfig FILE for a \
             running server, or --data-dir DIR for a stopped one",
        ));
    }
    Ok(SnapshotTask::Fetch { file, from: remote(args, caller)? })
}

fn schedule(args: SnapshotArgs) -> Result<Option<Schedule>, ConfigError> {
    if args.snapshot_every.is_zero() {
        return Ok(None);
    }
    let Some(dir) = args.snapshot_dir else {
        return Err(wrong("--snapshot-every requires --snapshot-dir DIR, preferably on another disk"));
    };
    if args.snapshot_keep == 0 {
        return Err(wrong(
            "--snapshot-keep must be at least 1: with 0 every snapshot would be removed immediately",
        ));
    }
    Ok(Some(Schedule { every: args.snapshot_every, dir, keep: args.snapshot_keep }))
}

fn listener(
    listen: ListenArgs,
    authentication: AuthenticationArgs,
    authorization: &AuthorizationArgs,
    has_node: bool,
) -> Result<ListenConfig, ConfigError> {
    for (flag, time) in [
        ("--read-header-timeout", listen.read_header_timeout),
        ("--idle-timeout", listen.idle_timeout),
        ("--write-timeout", listen.write_timeout),
    ] {
        if time.is_zero() {
            return Err(wrong(&format!(
                "{flag} must be more than 0s: every connection would be closed immediately"
            )));
        }
    }
    let demand = CredentialDemand::of(&authentication, authorization, has_node);
    let authentication =
        AuthenticationOptions::new(authentication).map_err(|error| ConfigError::Wrong(error.to_string()))?;
    ListenConfig::new(listen, authentication, demand).map_err(|error| ConfigError::Wrong(error.to_string()))
}

fn server(
    listen: ListenConfig,
    store: StoreArgs,
    encryption: EncryptionArgs,
    snapshots: SnapshotArgs,
    authorization: AuthorizationArgs,
    api: ApiArgs,
    audit: AuditLogArgs,
) -> Result<ServerConfig, ConfigError> {
    if api.request_timeout.is_zero() {
        return Err(wrong("--request-timeout must be more than 0s: every request would fail"));
    }
    let audit = AuditOptions::new(audit, listen.authenticates());
    // Containers can read the tokens of their service accounts.
    let permits_all = listen.is_loopback() && !listen.has_node;
    let authorization = AuthorizationOptions::new(authorization, permits_all)?;
    Ok(ServerConfig { listen, store, encryption, snapshots: schedule(snapshots)?, authorization, api, audit })
}

fn loops(args: LoopArgs) -> Result<LoopArgs, ConfigError> {
    if args.pvclaimbinder_sync_period.is_zero() {
        return Err(wrong("--pvclaimbinder-sync-period must be more than 0s"));
    }
    if args.cluster_signing_duration < Duration::from_secs(600) {
        return Err(wrong("--cluster-signing-duration must be at least 10m"));
    }
    if args.csi_timeout.is_zero() {
        return Err(wrong("--csi-timeout must be more than 0s: every call would time out immediately"));
    }
    if args.csi_reconcile_sync.is_zero() {
        return Err(wrong("--csi-reconcile-sync must be more than 0s: drivers would be called continuously"));
    }
    if args.scheduler_bind_timeout.is_zero() {
        return Err(wrong("--scheduler-bind-timeout must be more than 0s: no claim would be bound in time"));
    }
    for (flag, workers) in [
        ("--concurrent-ephemeralvolume-syncs", args.concurrent_ephemeralvolume_syncs),
        ("--concurrent-namespace-syncs", args.concurrent_namespace_syncs),
        ("--concurrent-gc-syncs", args.concurrent_gc_syncs),
        ("--concurrent-rc-syncs", args.concurrent_rc_syncs),
        ("--concurrent-replicaset-syncs", args.concurrent_replicaset_syncs),
        ("--concurrent-deployment-syncs", args.concurrent_deployment_syncs),
        ("--concurrent-statefulset-syncs", args.concurrent_statefulset_syncs),
        ("--concurrent-endpoint-syncs", args.concurrent_endpoint_syncs),
        ("--concurrent-service-endpoint-syncs", args.concurrent_service_endpoint_syncs),
        ("--mirroring-concurrent-service-endpoint-syncs", args.mirroring_concurrent_service_endpoint_syncs),
        ("--concurrent-daemonset-syncs", args.concurrent_daemonset_syncs),
        ("--concurrent-job-syncs", args.concurrent_job_syncs),
        ("--concurrent-cron-job-syncs", args.concurrent_cron_job_syncs),
        ("--concurrent-ttl-after-finished-syncs", args.concurrent_ttl_after_finished_syncs),
        ("--csi-worker-threads", args.csi_worker_threads),
    ] {
        if workers == 0 {
            return Err(wrong(&format!("{flag} must be at least 1: without a worker nothing is done")));
        }
    }
    for (flag, endpoints) in [
        ("--max-endpoints-per-slice", args.max_endpoints_per_slice),
        ("--mirroring-max-endpoints-per-subset", args.mirroring_max_endpoints_per_subset),
    ] {
        if !(1..=1000).contains(&endpoints) {
            return Err(wrong(&format!(
                "{flag} must be from 1 to 1000: the API accepts no larger EndpointSlices"
            )));
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests;
