//! `orlop bench`: measures the figures of docs/performance.md on the local machine.
//!
//! Reading order: `args` and `plan` define the work, `rows` performs it, one file per workload, and `report`
//! formats the results. Below them: `environment` owns the servers (`child` starts orlop servers, `driver` a CSI
//! driver, `agent` a node agent on this machine), `follow` and `attached` wait for results, `load` sends
//! requests through `client` (`endpoint`, `wire`, `event`), `objects` contains the request bodies, and `pace`,
//! `samples`, `process` and `machine` measure. Rows do not depend on flags, and nothing depends on the
//! internals of the server: bench measures it from outside, like any other API server.

mod agent;
mod args;
mod attached;
mod child;
mod client;
mod driver;
mod endpoint;
mod environment;
mod error;
mod event;
mod follow;
mod load;
mod machine;
mod objects;
mod pace;
mod plan;
mod process;
mod progress;
mod report;
mod rows;
mod samples;
mod stream;
mod wire;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use tokio::signal::unix::{SignalKind, signal};

pub use self::args::BenchArgs;
use self::args::RowName;
use self::environment::Environment;
use self::error::BenchError;
use self::progress::progress;
use self::report::{Report, Row};

/// Exit code: requests failed, events were lost, or a row could not be measured.
const FAILED: u8 = 1;
/// Exit code: the command line is invalid.
const WRONG_USE: u8 = 2;

/// Measures the rows and prints the results.
pub fn run(args: &BenchArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no threads to run on: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let code = runtime.block_on(until_signal(args));
    // A thread may still be reading from a killed server; its result is not needed.
    runtime.shutdown_background();
    code
}

/// Runs until a signal arrives. A signal drops the run, which kills its servers and removes its directory.
async fn until_signal(args: &BenchArgs) -> ExitCode {
    let signals = signal(SignalKind::interrupt()).and_then(|interrupts| {
        // If the caller ignores SIGHUP (nohup), bench keeps running after a hangup.
        let hangups = if ignores_hangups() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok((interrupts, signal(SignalKind::terminate())?, hangups))
    });
    let (mut interrupts, mut terminations, mut hangups) = match signals {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("error: signals cannot be received: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let hangup = async {
        match &mut hangups {
            Some(hangups) => hangups.recv().await,
            None => std::future::pending().await,
        }
    };
    let code = tokio::select! {
        code = bench(args) => return code,
        _ = hangup => 129,
        _ = interrupts.recv() => 130,
        _ = terminations.recv() => 143,
    };
    progress("stopped by a signal: bench ends its servers and removes their data");
    ExitCode::from(code)
}

/// Whether this process was started with SIGHUP ignored; `false` if the kernel does not report it.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is signal 1.
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & 1 == 1)
}

async fn bench(args: &BenchArgs) -> ExitCode {
    let environment = match Environment::prepare(args) {
        Ok(environment) => environment,
        Err(error) => {
            eprintln!("error: {error}");
            let wrong_use = matches!(error, BenchError::Flag { .. });
            return ExitCode::from(if wrong_use { WRONG_USE } else { FAILED });
        }
    };
    progress(&environment.machine.words());
    if let Some(words) = environment.leftovers() {
        progress(&words);
    }
    let mut report = Report {
        machine: environment.machine.clone(),
        scale: args.scale,
        server: environment.server_words(),
        against: environment.against.as_ref().map(|endpoint| endpoint.url.clone()),
        rows: Vec::new(),
        left_out: Vec::new(),
    };
    for name in wanted(&args.rows) {
        if let (Some(why), Some(endpoint)) = (name.needs_own_process(), &environment.given) {
            report
                .left_out
                .push((name, format!("{why}, so it cannot measure {}: omit --server", endpoint.url)));
            continue;
        }
        progress(&format!("{} ...", name.name()));
        let start = Instant::now();
        let outcome = rows::run(name, &environment).await;
        let (cases, problems) = match outcome {
            Ok(done) => (done.cases, done.problems),
            Err(error) => (Vec::new(), vec![format!("{}: {error}", name.name())]),
        };
        report.rows.push(Row { name, cases, problems, seconds: start.elapsed().as_secs_f64() });
    }
    // A closed stdout is no error.
    let _ = std::io::stdout().write_all(report.render(args.output).as_bytes());
    let wrong: Vec<&str> = report.problems().collect();
    for problem in &wrong {
        eprintln!("error: {problem}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// The rows named on the command line, each once, in the order of the table; all rows if none is named.
fn wanted(named: &[RowName]) -> Vec<RowName> {
    RowName::ALL.into_iter().filter(|row| named.is_empty() || named.contains(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_rows_are_unique_and_in_table_order() {
        assert_eq!(wanted(&[]), RowName::ALL);
        assert_eq!(wanted(&[RowName::Disk, RowName::Get64, RowName::Disk]), [RowName::Get64, RowName::Disk]);
    }
}
