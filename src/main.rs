//! `orlop`: the storage half of Kubernetes in one binary.
//!
//! Reading order: `cli` declares flags, `config` makes one typed configuration of flags, variables
//! and file, `wiring` builds the processes from the crates, `shutdown` ends them. `listen`, `tls`,
//! `data_dir`, `notify` and `logging` are what the wiring needs of the machine, `nodes` runs agents of nodes, `explain` joins the API
//! server's question "why" to the controllers' rules. `snapshot`, `store`, `volumes`, `drain` and `gc` are the commands for those who look
//! after data and nodes, `insight` explains, rewinds and repairs, `lab` is for those
//! who learn, `bench` measures servers from outside.

mod authority;
mod bench;
mod cli;
mod config;
mod config_file;
mod data_dir;
mod drain;
mod explain;
mod gc;
mod insight;
mod lab;
mod listen;
mod logging;
mod nodes;
mod notify;
mod shutdown;
mod snapshot;
mod store;
mod tls;
mod values;
mod volumes;
mod wiring;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use config::{Config, Role, Run};
use orlop_node::runtime::process;

/// A server that writes makes and drops a great many small pieces of JSON: with the C library's
/// allocator a third of all its time went there (docs/performance.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Something failed while it ran.
const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
const WRONG_USE: u8 = 2;
/// So many threads the agent of a node needs at most; by default there is one for each processor.
const AGENT_THREADS: usize = 2;

fn main() -> ExitCode {
    if let Some(code) = hidden() {
        return code;
    }
    match config::load(std::env::args_os(), |name| std::env::var_os(name)) {
        Err(error) => ExitCode::from(error.report()),
        // A reader that has gone away has what it wanted.
        Ok(Config::Version) => {
            let _ = writeln!(std::io::stdout(), "orlop {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Config::Completion(shell)) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::Cli::command(), "orlop", &mut script);
            let _ = std::io::stdout().write_all(&script);
            ExitCode::SUCCESS
        }
        Ok(Config::Snapshot(task)) => tool(|| snapshot::run(task)),
        Ok(Config::Store(command)) => tool(|| store::run(command)),
        Ok(Config::Volumes(audit)) => volumes::run(&audit),
        Ok(Config::Bench(args)) => bench::run(&args),
        Ok(Config::Lab(args)) => lab::run(&args),
        Ok(Config::Drain(drain)) => drain::run(drain),
        Ok(Config::Uncordon { node, server }) => drain::uncordon(node, server),
        Ok(Config::Gc(gc)) => gc::run(*gc),
        Ok(Config::Insight(insight)) => insight::run(*insight),
        Ok(Config::Run(run)) => run_until_stopped(&run),
    }
}

/// How a container is started: by this binary, which is told what to do on its input. Before any thread, flag and variable.
fn hidden() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let (mode, spec) = (args.next()?, args.next()?);
    (mode == process::HIDDEN && args.next().is_none()).then(|| process::container_main(spec.as_ref()))
}

/// Does one thing and ends. What it finds goes to stdout; warnings and errors to stderr.
fn tool(work: impl FnOnce() -> Result<String, Box<dyn Error>>) -> ExitCode {
    // A filter that is written here can be read.
    let _ = logging::start_for_tool();
    match work() {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::from(FAILED)
        }
    }
}

/// Runs until it is asked to stop.
fn run_until_stopped(run: &Run) -> ExitCode {
    if let Err(error) = logging::start(&run.process) {
        eprintln!("error: {error}");
        return ExitCode::from(WRONG_USE);
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if matches!(run.role, Role::Node(..)) {
        // It waits for others most of the time, and each thread has memory of its own. What may hang has other threads.
        runtime
            .worker_threads(AGENT_THREADS.min(std::thread::available_parallelism().map_or(1, usize::from)));
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("no threads to run on: {error}");
            return ExitCode::from(FAILED);
        }
    };
    match runtime.block_on(wiring::run(&run.role)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// An error with all its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // A transparent error says what its cause says.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the roof leaks")]
    struct Roof(#[source] std::io::Error);

    #[test]
    fn all_causes_in_one_line() {
        let error = Roof(std::io::Error::other("rain"));
        assert_eq!(chain(&error), "the roof leaks: rain");
    }
}
