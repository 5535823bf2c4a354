//! `orlop`: the storage half of Kubernetes in one binary.
//!
//! Only the root package depends on every crate. `wiring` builds the processes from the crates and `shutdown`
//! handles signals. `listen`, `tls`, `pki`, `authority`, `signing`, `data_dir`, `encryption`, `notify`, `sign_in` and `snapshots` are parts of a
//! server process, `idle_pages` makes an idle process small, `components` are the users of its parts, `agent` and `nodes` run node agents, `lab` starts servers for `orlop lab`, and `explain` connects the API
//! server's `why` endpoint to the explanation engine.

mod agent;
mod audit;
mod authentication;
mod authority;
mod authorization;
mod background;
mod component_credentials;
mod components;
mod data_dir;
mod encryption;
mod explain;
mod idle_pages;
mod lab;
mod listen;
mod machine_memory;
mod nodes;
mod notify;
mod pki;
mod server_check;
mod shutdown;
mod sign_in;
mod signing;
mod snapshots;
mod tls;
mod webhook;
mod wiring;

use std::process::ExitCode;

use orlop_cli::config::{self, Config, Role, Run};
use orlop_cli::error::chain;
use orlop_cli::{logging, tool};
use orlop_node::runtime::process;

/// Writes allocate and free many small pieces of JSON: with the allocator of the C library, that took a third of
/// the server's time (docs/performance.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit code: the command failed.
const FAILED: u8 = 1;
/// Exit code: the command line or the configuration is invalid.
const WRONG_USE: u8 = 2;
/// Maximum number of threads of a node agent; the default is one for each processor.
const AGENT_THREADS: usize = 2;

fn main() -> ExitCode {
    if let Some(code) = hidden() {
        return code;
    }
    match config::load(std::env::args_os(), |name| std::env::var_os(name)) {
        Err(error) => ExitCode::from(error.report()),
        Ok(Config::Tool(task)) => tool::run(task),
        Ok(Config::Bench(args)) => {
            // A thousand watchers, and the servers that bench starts, need more open files than the default soft limit. If
            // the limit cannot be raised, connections fail with an error.
            let _ = listen::files::raise();
            orlop_bench::run(&args)
        }
        Ok(Config::Lab(args)) => orlop_lab::run(&lab::Wiring, &args),
        Ok(Config::Run(run)) => run_until_stopped(&run),
    }
}

/// The entry point of a container process: this binary, with its specification on stdin. Runs before any thread
/// is started and before flags and variables are read.
fn hidden() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let (mode, spec) = (args.next()?, args.next()?);
    (mode == process::HIDDEN && args.next().is_none()).then(|| process::container_main(spec.as_ref()))
}

/// Runs until a stop signal.
fn run_until_stopped(run: &Run) -> ExitCode {
    if let Err(error) = logging::start(&run.process) {
        eprintln!("error: {error}");
        return ExitCode::from(WRONG_USE);
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if matches!(run.role, Role::Node(..) | Role::Join(..)) {
        // The agent mostly waits, and each thread has its own memory. Operations that may hang run on other threads.
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
    runtime.spawn(idle_pages::release_while_idle());
    match runtime.block_on(wiring::run(&run.role)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(&error));
            ExitCode::from(FAILED)
        }
    }
}
