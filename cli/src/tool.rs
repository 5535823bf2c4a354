//! Runs the short-lived commands.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::config::{Task, Tool};
use crate::error::chain;
use crate::{drain, gc, insight, keys, kubeconfig, logging, page, snapshot, store, token, volumes};

/// Exit code: the command failed.
const FAILED: u8 = 1;
/// Exit code of `store check`: the store is in use, and nothing was checked.
const IN_USE: u8 = 3;

/// Runs the command. Its result goes to stdout; warnings and errors go to stderr.
pub fn run(tool: Tool) -> ExitCode {
    match tool.0 {
        // A reader that closed the pipe needs no more output.
        Task::Version => {
            let _ = writeln!(std::io::stdout(), "orlop {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Task::Completion(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "orlop", &mut script);
            let _ = std::io::stdout().write_all(&script);
            ExitCode::SUCCESS
        }
        Task::Snapshot(task) => print(|| snapshot::run(task)),
        Task::Store(command) => print(|| store::run(command)),
        Task::Keys(command) => print(|| keys::run(command)),
        Task::Volumes(audit) => volumes::run(&audit),
        Task::Drain(drain) => drain::run(drain),
        Task::Uncordon { node, server } => drain::uncordon(node, server),
        Task::Gc(gc) => gc::run(*gc),
        Task::Token(token) => token::run(*token),
        Task::Kubeconfig(order) => kubeconfig::run(*order),
        Task::Page(server) => page::run(server),
        Task::Insight(insight) => insight::run(*insight),
    }
}

/// Prints the text that `work` returns.
fn print(work: impl FnOnce() -> Result<String, Box<dyn Error>>) -> ExitCode {
    // This filter is constant and valid.
    let _ = logging::start_for_tool();
    match work() {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::from(if error.is::<store::StoreInUse>() { IN_USE } else { FAILED })
        }
    }
}
