//! `orlop`: the storage half of Kubernetes in one binary.
//!
//! Only the root package sees every crate. `wiring` builds the processes from the crates and `shutdown` ends them. `listen`,
//! `tls`, `authority`, `data_dir`, `notify` and `snapshots` are parts of a server process, `nodes` runs node agents, `laboratory`
//! starts servers for `orlop lab`, and `explain` joins the API server's question "why" to the rules of the controllers.

mod authority;
mod data_dir;
mod explain;
mod laboratory;
mod listen;
mod nodes;
mod notify;
mod shutdown;
mod snapshots;
mod tls;
mod wiring;

use std::process::ExitCode;

use orlop_cli::config::{self, Config, Role, Run};
use orlop_cli::error::chain;
use orlop_cli::{logging, tool};
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
        Ok(Config::Tool(task)) => tool::run(task),
        Ok(Config::Bench(args)) => {
            // A thousand watchers need more open files than a shell allows by default, and so do the servers that bench
            // starts. If the limit cannot be raised, connections fail with an error.
            let _ = listen::files::raise();
            orlop_bench::run(&args)
        }
        Ok(Config::Lab(args)) => orlop_lab::run(&laboratory::Wiring, &args),
        Ok(Config::Run(run)) => run_until_stopped(&run),
    }
}

/// How a container is started: by this binary, which is told what to do on its input. Before any thread, flag and variable.
fn hidden() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let (mode, spec) = (args.next()?, args.next()?);
    (mode == process::HIDDEN && args.next().is_none()).then(|| process::container_main(spec.as_ref()))
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
