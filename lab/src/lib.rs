//! `orlop lab`: a lab, and scenarios that run in it.
//!
//! `environment` starts the lab: a server in memory, a driver, objects. `machines` runs and controls its
//! nodes. `step` defines the elements of a scenario (text and data), `scenarios` contains the scenarios, `api` sends
//! requests, and `play` runs a scenario. Scenarios act only through the API, so a scenario can run in the lab of
//! another process.

mod api;
mod environment;
mod error;
mod machines;
mod output;
mod plane;
mod play;
mod scenarios;
mod step;

use std::process::ExitCode;

use orlop_cli::args::{LabArgs, LabCommand, LabRunArgs, LogFormat, ProcessArgs};
use orlop_cli::logging;

use self::environment::{Environment, connect};
use self::error::LabError;
use self::output::say;
pub use self::plane::{Plane, Ready};
use self::play::StepPace;
use self::step::Scenario;

/// Runs `orlop lab`. The scenario goes to stdout; logs and errors go to stderr.
pub fn run(plane: &'static dyn Plane, args: &LabArgs) -> ExitCode {
    let level = match &args.command {
        Some(LabCommand::Run(run)) => &run.environment.log_level,
        Some(LabCommand::List) | None => &args.environment.log_level,
    };
    let log_level = Some(level.clone());
    let process = ProcessArgs { config: None, log_format: LogFormat::Text, log_level, v: None };
    if let Err(error) = logging::start(&process) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(LabError::from).and_then(|runtime| runtime.block_on(work(plane, args)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, LabError::NoScenario { .. }) { 2 } else { 1 })
        }
    }
}

async fn work(plane: &'static dyn Plane, args: &LabArgs) -> Result<(), LabError> {
    match &args.command {
        None => {
            let stop = plane.stop_on_signal()?;
            let mut environment = Environment::start(plane, &args.environment, 8080).await?;
            say("The web page is at the same address. In another terminal:");
            say(&format!("  kubectl --server {} get nodes", environment.url()));
            say("  orlop lab list");
            say(&format!("  orlop lab run NAME --step --server {}", environment.url()));
            let early = tokio::select! {
                () = stop.cancelled() => Ok(()),
                error = environment.ended() => Err(error),
            };
            early.and(environment.end().await)
        }
        Some(LabCommand::List) => {
            for Scenario { name, about, .. } in scenarios::all() {
                say(&format!("{name:<17}{about}"));
            }
            Ok(())
        }
        Some(LabCommand::Run(run)) => scenario(plane, run).await,
    }
}

/// Runs one scenario, in the given lab or in its own.
async fn scenario(plane: &'static dyn Plane, run: &LabRunArgs) -> Result<(), LabError> {
    let scenario = scenarios::all().into_iter().find(|one| one.name == run.name);
    let scenario =
        scenario.ok_or_else(|| LabError::NoScenario { name: run.name.clone(), names: scenarios::names() })?;
    let pace = if run.step { StepPace::Step } else { StepPace::Seconds(run.pace) };
    if let Some(url) = &run.server {
        return Ok(play::play(&connect(url).await?, url, &scenario, pace, run.patience).await?);
    }
    let stop = plane.stop_on_signal()?;
    let mut environment = Environment::start(plane, &run.environment, 0).await?;
    say("This lab, with its web page, ends with the scenario.\n");
    let url = environment.url().to_owned();
    let api = connect(&url).await?;
    let played = tokio::select! {
        played = play::play(&api, &url, &scenario, pace, run.patience) => played.map_err(LabError::from),
        error = environment.ended() => Err(error),
        () = stop.cancelled() => Ok(()),
    };
    played.and(environment.end().await)
}
