//! From flags, variables and the file to one typed configuration.
//!
//! Flags win over `ORLOP_*` variables, variables over the file, the file over the defaults. The
//! values of file and variables become clap's defaults before it parses, so that all values go
//! through the same parsers. What flags mean together is checked here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use orlop_controller::client::Endpoint;
use orlop_csi::hostpath;
use orlop_node::config::NodeConfig;

use crate::bench::args::BenchArgs;
use crate::cli::{
    AgentArgs, ApiArgs, AuditArgs, Cli, Command, GcArgs, LabArgs, ListenArgs, LoopArgs, NodeCommand, Output,
    ProcessArgs, RemoteArgs, RestoreArgs, SaveArgs, SnapshotArgs, SnapshotCommand, StoreArgs, StoreCommand,
    VolumesCommand,
};
use crate::config_file;
use crate::drain::Drain;
use crate::gc::Gc;
use crate::insight::Insight;
use crate::insight::names::NameError;
use crate::listen;
use crate::volumes::Audit;

/// What this process shall do.
pub(crate) enum Config {
    /// Measure.
    Bench(Box<BenchArgs>),
    /// A laboratory, and stories in it.
    Lab(Box<LabArgs>),
    /// Print the version.
    Version,
    /// Print a completion script.
    Completion(Shell),
    /// Save, look at or restore a snapshot.
    Snapshot(SnapshotTask),
    /// Look after a store that is not running.
    Store(StoreCommand),
    /// Compare what drivers have with what the API knows.
    Volumes(Audit),
    /// Empty a node.
    Drain(Drain),
    /// Let pods come to a node again.
    Uncordon { node: String, server: Endpoint },
    /// Look after what is left of pods on this machine.
    Gc(Box<Gc>),
    /// Explain, rewind and repair.
    Insight(Box<Insight>),
    /// Run.
    Run(Box<Run>),
}

/// What is to be done with a snapshot.
pub(crate) enum SnapshotTask {
    /// From a server that runs.
    Fetch { file: PathBuf, from: Endpoint },
    /// From the directory of one that does not.
    Take { file: PathBuf, data_dir: PathBuf },
    /// Look at it.
    Status { file: PathBuf, output: Output },
    /// Make a store of it.
    Restore(RestoreArgs),
}

/// What a process that runs is made of.
pub(crate) struct Run {
    pub(crate) process: ProcessArgs,
    pub(crate) role: Role,
}

/// Which parts run.
pub(crate) enum Role {
    /// API server and controllers, and nodes.
    Serve(Box<ServerConfig>, LoopArgs, Nodes),
    /// The API server.
    Apiserver(Box<ServerConfig>),
    /// The controllers.
    Controller(Endpoint, LoopArgs),
    /// The CSI driver for laboratories.
    CsiHostpath(hostpath::Options),
    /// The agent of a node.
    Node(Endpoint, Box<NodeConfig>),
}

/// Nodes in the process of the API server.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// This machine.
    pub(crate) machine: Option<Box<NodeConfig>>,
    /// So many whose mounts are only recorded.
    pub(crate) virtual_nodes: u32,
}

impl Nodes {
    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.machine.is_none() && self.virtual_nodes == 0
    }
}

/// Everything about the API server.
#[derive(Debug)]
pub(crate) struct ServerConfig {
    pub(crate) endpoint: listen::Endpoint,
    pub(crate) store: StoreArgs,
    pub(crate) snapshots: Option<Schedule>,
    pub(crate) api: ApiArgs,
}

/// When and where snapshots are taken by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) every: Duration,
    pub(crate) dir: PathBuf,
    pub(crate) keep: usize,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// Wrong flags or variables; also `--help` and `--version`, which are no errors.
    #[error(transparent)]
    Clap(#[from] clap::Error),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] config_file::FileError),
    /// A value in a variable is wrong.
    #[error("the variable {name} has a wrong value: {}", first_line(problem))]
    Variable { name: String, problem: clap::Error },
    /// A value in the file is wrong.
    #[error("the configuration file {} has a wrong value: {}", path.display(), first_line(problem))]
    FileValue { path: PathBuf, problem: clap::Error },
    /// An object or a moment that cannot be read.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Flags do not fit together, or a file that a flag names cannot be read.
    #[error("{0}")]
    Wrong(String),
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

impl ConfigError {
    /// Tells the person, and says with which code to exit.
    pub(crate) fn report(&self) -> u8 {
        match self {
            ConfigError::Clap(error) => {
                // Nothing can be done when the terminal is gone.
                let _ = error.print();
                let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                if asked { 0 } else { 2 }
            }
            ConfigError::File(_)
            | ConfigError::Variable { .. }
            | ConfigError::FileValue { .. }
            | ConfigError::Name(_)
            | ConfigError::Wrong(_) => {
                eprintln!("error: {self}");
                2
            }
        }
    }
}

/// The configuration of this process. `variable` looks up an environment variable.
pub(crate) fn load(
    args: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Config, ConfigError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let caller = Caller::of(args.first());
    let plain = with_variables(named(Cli::command(), caller), &variable);
    let mut matches = plain.try_get_matches_from(&args).map_err(|error| blame(error, &args, &variable))?;
    if let Some((name, path)) = file_of(&matches) {
        let command = Cli::command();
        let values = config_file::read(&path, &command, &name)?;
        let command = command.mut_subcommand(&name, |sub| config_file::as_defaults(sub, values));
        // The first pass took flags and variables, so what is wrong now is in the file.
        matches = with_variables(command, &variable)
            .try_get_matches_from(&args)
            .map_err(|problem| ConfigError::FileValue { path, problem })?;
    }
    typed(Cli::from_arg_matches(&matches)?, caller)
}

/// How this program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// By its own name.
    Itself,
    /// As a plugin of kubectl, whose kubeconfig says which server is meant when nobody says it.
    Kubectl,
}

impl Caller {
    fn of(program: Option<&OsString>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_name());
        if name.is_some_and(|name| name == "kubectl-orlop") { Caller::Kubectl } else { Caller::Itself }
    }
}

/// As the person has called it.
fn named(command: clap::Command, caller: Caller) -> clap::Command {
    match caller {
        Caller::Itself => command,
        Caller::Kubectl => command.bin_name("kubectl orlop"),
    }
}

/// The chosen subcommand and the file that it names.
fn file_of(matches: &ArgMatches) -> Option<(String, PathBuf)> {
    let (name, sub) = matches.subcommand()?;
    let path = sub.try_get_one::<PathBuf>("config").ok()??;
    Some((name.to_owned(), path.clone()))
}

/// Gives every flag of every subcommand its variable: what that holds becomes the flag's default.
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

/// `--data-dir` is `ORLOP_DATA_DIR`.
fn variable_name(flag: &str) -> String {
    format!("ORLOP_{}", flag.replace('-', "_").to_ascii_uppercase())
}

/// A wrong value that came from a variable is told as such: clap only knows of the flag.
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
        Command::Version => Ok(Config::Version),
        Command::Completion { shell } => Ok(Config::Completion(shell)),
        Command::Snapshot(command) => Ok(Config::Snapshot(match command {
            SnapshotCommand::Save(args) => save(*args, caller)?,
            SnapshotCommand::Status { file, output } => SnapshotTask::Status { file, output },
            SnapshotCommand::Restore(args) => SnapshotTask::Restore(args),
        })),
        Command::Store(command) => Ok(Config::Store(command)),
        Command::Why(args) => insight::why(*args, caller),
        Command::Impact(args) => insight::impact(*args, caller),
        Command::History(args) => insight::history(*args, caller),
        Command::Diff(args) => insight::diff(*args, caller),
        Command::Get(args) => insight::get(*args, caller),
        Command::Record(args) => insight::record(*args, caller),
        Command::Undelete(args) => insight::undelete(*args, caller),
        Command::Unblock(args) => insight::unblock(*args, caller),
        Command::Pv(command) => insight::pv(command, caller),
        Command::Pvc(command) => insight::pvc(command, caller),
        Command::Attachment(command) => insight::attachment(command, caller),
        Command::Volumes(VolumesCommand::Audit(args)) => audit(args, caller),
        Command::Serve(args) => {
            let data_dir = args.store.data_dir.clone();
            let server = server(args.listen, args.store, args.snapshots, args.api)?;
            let nodes = nodes::served(args.nodes, &args.loops, data_dir.as_deref())?;
            run(args.process, Role::Serve(Box::new(server), loops(args.loops)?, nodes))
        }
        Command::Apiserver(args) => {
            let server = server(args.listen, args.store, args.snapshots, args.api)?;
            run(args.process, Role::Apiserver(Box::new(server)))
        }
        Command::CsiHostpath(args) => {
            let (process, options) = args.options();
            run(process, Role::CsiHostpath(options))
        }
        Command::Node(args) => match args.command {
            None => {
                let AgentArgs { process, remote: server, name, csi_endpoint, machine: args } = args.agent;
                // clap has seen to it that there is one.
                let server = remote(server, caller)?;
                let is_here = crate::nodes::is_here(&server);
                let config = nodes::machine(name.unwrap_or_default(), args, csi_endpoint, is_here)?;
                run(process, Role::Node(server, Box::new(config)))
            }
            Some(NodeCommand::Drain(mut args)) => {
                let server = remote(std::mem::take(&mut args.remote), caller)?;
                Ok(Config::Drain(Drain { args, server }))
            }
            Some(NodeCommand::Uncordon(args)) => {
                Ok(Config::Uncordon { node: args.node, server: remote(args.remote, caller)? })
            }
            Some(NodeCommand::Gc(args)) => gc(*args, caller),
        },
        Command::Controller(args) => {
            let remote = remote(args.remote, caller)?;
            run(args.process, Role::Controller(remote, loops(args.loops)?))
        }
    }
}

fn gc(args: GcArgs, caller: Caller) -> Result<Config, ConfigError> {
    let config = nodes::directory(args.name, args.root_dir, args.mount_timeout)?;
    let server = remote(args.remote, caller)?;
    Ok(Config::Gc(Box::new(Gc { config, server, dry_run: args.dry_run, purge: args.older_than })))
}

fn audit(mut args: Box<AuditArgs>, caller: Caller) -> Result<Config, ConfigError> {
    if args.csi_timeout.is_zero() {
        return Err(wrong("--csi-timeout must be more than 0s: every call would be given up at once"));
    }
    if let Some(twice) = args.adopt.iter().find(|handle| args.delete.contains(handle)) {
        return Err(wrong(&format!("--adopt and --delete both name {twice}: one of them")));
    }
    let (mut names, known) = (std::collections::BTreeSet::new(), &args.csi_endpoint);
    if let Some(twice) = known.iter().find(|endpoint| !names.insert(&endpoint.name)) {
        return Err(wrong(&format!("--csi-endpoint names {} twice", twice.name)));
    }
    let server = remote(std::mem::take(&mut args.remote), caller)?;
    Ok(Config::Volumes(Audit { args, server }))
}

fn save(args: SaveArgs, caller: Caller) -> Result<SnapshotTask, ConfigError> {
    let SaveArgs { file, data_dir, remote: args } = args;
    if let Some(data_dir) = data_dir {
        return Ok(SnapshotTask::Take { file, data_dir });
    }
    if args.server.is_none() && args.master.is_none() && args.kubeconfig.is_none() && caller == Caller::Itself
    {
        return Err(wrong(
            "a snapshot of what? Give --server URL (such as http://127.0.0.1:8080) or --kubeconfig FILE for a server \
             that runs, or --data-dir DIR for one that does not",
        ));
    }
    Ok(SnapshotTask::Fetch { file, from: remote(args, caller)? })
}

fn schedule(args: SnapshotArgs) -> Result<Option<Schedule>, ConfigError> {
    if args.snapshot_every.is_zero() {
        return Ok(None);
    }
    let Some(dir) = args.snapshot_dir else {
        return Err(wrong(
            "--snapshot-every needs --snapshot-dir DIR: where the files go, best on another disk",
        ));
    };
    if args.snapshot_keep == 0 {
        return Err(wrong(
            "--snapshot-keep must be at least 1: with 0 every snapshot would be removed at once",
        ));
    }
    Ok(Some(Schedule { every: args.snapshot_every, dir, keep: args.snapshot_keep }))
}

fn server(
    listen: ListenArgs,
    store: StoreArgs,
    snapshots: SnapshotArgs,
    api: ApiArgs,
) -> Result<ServerConfig, ConfigError> {
    if api.request_timeout.is_zero() {
        return Err(wrong("--request-timeout must be more than 0s: every request would fail"));
    }
    for (flag, time) in [
        ("--read-header-timeout", listen.read_header_timeout),
        ("--idle-timeout", listen.idle_timeout),
        ("--write-timeout", listen.write_timeout),
    ] {
        if time.is_zero() {
            return Err(wrong(&format!(
                "{flag} must be more than 0s: every connection would be closed at once"
            )));
        }
    }
    let endpoint = listen::Endpoint::new(listen).map_err(|error| ConfigError::Wrong(error.to_string()))?;
    Ok(ServerConfig { endpoint, store, snapshots: schedule(snapshots)?, api })
}

fn loops(args: LoopArgs) -> Result<LoopArgs, ConfigError> {
    if args.pvclaimbinder_sync_period.is_zero() {
        return Err(wrong("--pvclaimbinder-sync-period must be more than 0s"));
    }
    if args.csi_timeout.is_zero() {
        return Err(wrong("--csi-timeout must be more than 0s: every call would be given up at once"));
    }
    if args.csi_reconcile_sync.is_zero() {
        return Err(wrong("--csi-reconcile-sync must be more than 0s: drivers would be asked all the time"));
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
        ("--csi-worker-threads", args.csi_worker_threads),
    ] {
        if workers == 0 {
            return Err(wrong(&format!("{flag} must be at least 1: without a worker nothing is done")));
        }
    }
    Ok(args)
}

fn remote(args: RemoteArgs, caller: Caller) -> Result<Endpoint, ConfigError> {
    if args.leader_elect {
        return Err(wrong(
            "--leader-elect=true is not possible: run one controller process, with --leader-elect=false",
        ));
    }
    let server = match (args.server, args.master) {
        (Some(server), Some(master)) if server != master => {
            return Err(wrong("--server and --master name different servers: give one of them"));
        }
        (server, master) => server.or(master),
    };
    if args.token.is_some() && args.token_file.is_some() {
        return Err(wrong("give --token or --token-file, not both"));
    }
    let token = match args.token_file {
        Some(path) => Some(read_token(&path)?),
        None => args.token,
    };
    match (args.kubeconfig, server) {
        (Some(path), server) => {
            if token.is_some() || args.certificate_authority.is_some() || args.insecure_skip_tls_verify {
                return Err(wrong(
                    "with --kubeconfig, credentials and trust are taken from that file: leave out --token, \
                     --token-file, --certificate-authority and --insecure-skip-tls-verify",
                ));
            }
            Ok(Endpoint::Kubeconfig { path: Some(path), context: None, server })
        }
        (None, Some(url)) => Ok(Endpoint::Url {
            url,
            token,
            ca_file: args.certificate_authority,
            insecure: args.insecure_skip_tls_verify,
        }),
        (None, None) if caller == Caller::Kubectl => {
            Ok(Endpoint::Kubeconfig { path: None, context: None, server: None })
        }
        (None, None) => Err(wrong(
            "which API server? Give --server URL (such as http://127.0.0.1:8080) or --kubeconfig FILE",
        )),
    }
}

fn read_token(path: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(&format!("--token-file {} cannot be read: {error}", path.display())))?;
    match text.trim() {
        "" => Err(wrong(&format!("--token-file {} is empty", path.display()))),
        token => Ok(token.to_owned()),
    }
}

fn wrong(text: &str) -> ConfigError {
    ConfigError::Wrong(text.to_owned())
}

mod insight;
mod nodes;
#[cfg(test)]
mod tests;
