//! `orlop lab`: a laboratory, and stories that are played in it.
//!
//! `ground` starts it: a server in memory, a driver, objects. `machines` are its nodes, and what can be done to them. `step` is what a
//! story is made of (words and data), `scenarios` are the stories, `api` asks and `play` plays. Everything that a story does goes through
//! the API, so that it can be played in a laboratory in another process.

mod api;
mod ground;
mod machines;
mod play;
mod scenarios;
mod step;

use std::io::Write as _;
use std::process::ExitCode;

use orlop_controller::client::{self, ConnectError, Endpoint};
use orlop_csi::hostpath::ServeError;

use self::api::{Api, ApiError};
use self::ground::Ground;
use self::play::{Pace, PlayError};
use self::step::Scenario;
use crate::cli::{LabArgs, LabCommand, LabRunArgs, LogFormat, ProcessArgs};
use crate::config::ConfigError;
use crate::wiring::RunError;
use crate::{chain, logging, shutdown};

/// The object that a laboratory is told things by, and that events are about.
const LAB: &str = "/api/v1/namespaces/default/configmaps/lab";

/// Why a laboratory, or a story, ended.
#[derive(Debug, thiserror::Error)]
enum LabError {
    #[error("there is no story {name:?}; there are {}", scenarios::names().join(", "))]
    NoScenario { name: String },
    #[error("no threads to run on, or no signals: {0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the laboratory's server: {}", chain(.0))]
    Server(#[from] RunError),
    #[error("the laboratory's driver: {}", chain(.0))]
    Driver(#[from] ServeError),
    #[error("{0} of the laboratory ended by itself")]
    Ended(&'static str),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Play(#[from] PlayError),
}

/// Does it. The story goes to stdout, logs and errors to stderr.
pub(crate) fn run(args: &LabArgs) -> ExitCode {
    let level = match &args.command {
        Some(LabCommand::Run(run)) => &run.ground.log_level,
        Some(LabCommand::List) | None => &args.ground.log_level,
    };
    let log_level = Some(level.clone());
    let process = ProcessArgs { config: None, log_format: LogFormat::Text, log_level, v: None };
    if let Err(error) = logging::start(&process) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(LabError::from).and_then(|runtime| runtime.block_on(work(args)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, LabError::NoScenario { .. }) { 2 } else { 1 })
        }
    }
}

async fn work(args: &LabArgs) -> Result<(), LabError> {
    match &args.command {
        None => {
            let stop = shutdown::on_signal()?;
            let mut ground = Ground::start(&args.ground, 8080).await?;
            say("The page is there, too. In another terminal:");
            say(&format!("  kubectl --server {} get nodes", ground.url()));
            say("  orlop lab list");
            say(&format!("  orlop lab run NAME --step --server {}", ground.url()));
            let early = tokio::select! {
                () = stop.cancelled() => Ok(()),
                error = ground.ended() => Err(error),
            };
            early.and(ground.end().await)
        }
        Some(LabCommand::List) => {
            for Scenario { name, about, .. } in scenarios::all() {
                say(&format!("{name:<17}{about}"));
            }
            Ok(())
        }
        Some(LabCommand::Run(run)) => story(run).await,
    }
}

/// Plays one story, where it was said or in a laboratory of its own.
async fn story(run: &LabRunArgs) -> Result<(), LabError> {
    let scenario = scenarios::all().into_iter().find(|one| one.name == run.name);
    let scenario = scenario.ok_or_else(|| LabError::NoScenario { name: run.name.clone() })?;
    let pace = if run.step { Pace::Step } else { Pace::Seconds(run.pace) };
    if let Some(url) = &run.server {
        return Ok(play::play(&connect(url).await?, url, &scenario, pace, run.patience).await?);
    }
    let stop = shutdown::on_signal()?;
    let mut ground = Ground::start(&run.ground, 0).await?;
    say("This is a laboratory for this story alone, with the page. It ends with the story.\n");
    let url = ground.url().to_owned();
    let api = connect(&url).await?;
    let played = tokio::select! {
        played = play::play(&api, &url, &scenario, pace, run.patience) => played.map_err(LabError::from),
        error = ground.ended() => Err(error),
        () = stop.cancelled() => Ok(()),
    };
    played.and(ground.end().await)
}

async fn connect(url: &str) -> Result<Api, LabError> {
    let endpoint = Endpoint::Url { url: url.to_owned(), token: None, ca_file: None, insecure: false };
    Ok(Api::new(client::connect(endpoint).await?))
}

/// A line for whoever watches. A reader that has gone away has what it wanted.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
