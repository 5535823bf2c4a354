//! A server process of the benchmark: starts an orlop binary on a free port and stops it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Connection, Draft};
use crate::endpoint::{Endpoint, SERVER};
use crate::error::BenchError;

/// Timeout for a server to become ready, and to stop.
const PATIENCE: Duration = Duration::from_secs(300);

/// The components that the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The API server alone, so that controllers add no work.
    Apiserver,
    /// The API server and the controllers.
    Serve,
}

impl Role {
    fn command(self) -> &'static str {
        match self {
            Role::Apiserver => "apiserver",
            Role::Serve => "serve",
        }
    }
}

/// A running server. Dropping it kills the process without a clean shutdown.
pub(crate) struct Child {
    process: Process,
    /// Kept open so that the server never writes to a closed pipe.
    _stdout: ChildStdout,
    log: PathBuf,
    /// Time from exec to the first successful response of `/readyz`.
    pub(crate) ready_after: Duration,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Child {
    /// Starts a server on `data` and waits until it is ready. Its log file is next to `data`.
    pub(crate) async fn start(
        program: &Path,
        role: Role,
        data: &Path,
        flags: &[&str],
    ) -> Result<Self, BenchError> {
        let log = data.with_extension("log");
        let cannot = |what, path: &Path, error| BenchError::File { what, path: path.to_owned(), error };
        let log_file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| cannot("cannot write", &log, e))?;
        let mut command = Command::new(program);
        command.args([role.command(), "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).args(flags);
        // `ORLOP_*` variables of the caller must not configure these servers.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORLOP_"))
        {
            command.env_remove(name);
        }
        let start = Instant::now();
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .map_err(|error| cannot("cannot start", program, error))?;
        let stdout = process.stdout.take();
        // From here on, an error drops `starting`, which kills the process.
        let mut starting = Starting { process: Some(process), log };
        let (url, stdout) = starting.announced(stdout).await?;
        let endpoint = Arc::new(Endpoint::new(&url, None, None, &SERVER)?);
        starting.ready(&endpoint).await?;
        let ready_after = start.elapsed();
        let log = std::mem::take(&mut starting.log);
        match starting.process.take() {
            Some(process) => Ok(Child { process, _stdout: stdout, log, ready_after, endpoint }),
            None => Err(ended("has ended", &log)),
        }
    }

    /// The process ID of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGTERM and waits for a clean exit.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        // The process may have exited already; the exit status reports that.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let begin = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(ended(&format!("ended with {status}"), &self.log)),
                Ok(None) if begin.elapsed() > PATIENCE => return Err(ended("does not stop", &self.log)),
                Ok(None) => tokio::time::sleep(Duration::from_millis(2)).await,
                Err(error) => return Err(ended(&format!("cannot be waited for: {error}"), &self.log)),
            }
        }
    }

    /// Kills the process immediately, as a power cut would.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(process: &mut Process) {
    // Both fail only if the process has already exited.
    let _ = process.kill();
    let _ = process.wait();
}

/// A process that is not ready yet.
struct Starting {
    process: Option<Process>,
    log: PathBuf,
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            end(process);
        }
    }
}

impl Starting {
    /// The URL that the server prints once it accepts requests.
    async fn announced(&mut self, stdout: Option<ChildStdout>) -> Result<(String, ChildStdout), BenchError> {
        let stdout = stdout.ok_or_else(|| ended("has no stdout", &self.log))?;
        let reading = tokio::task::spawn_blocking(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = String::new();
            let read = reader.read_line(&mut line);
            read.map(|_| (line, reader.into_inner()))
        });
        let line = match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(Ok(line))) => line,
            Ok(Ok(Err(error))) => return Err(ended(&format!("cannot be read: {error}"), &self.log)),
            Ok(Err(error)) => return Err(ended(&format!("cannot be read: {error}"), &self.log)),
            Err(_) => return Err(ended("does not begin to listen", &self.log)),
        };
        match line.0.trim().strip_prefix("listening on ") {
            Some(url) => Ok((url.to_owned(), line.1)),
            None => Err(ended("ended before it listened", &self.log)),
        }
    }

    async fn ready(&mut self, endpoint: &Arc<Endpoint>) -> Result<(), BenchError> {
        let begin = Instant::now();
        let mut connection = Connection::new(endpoint.clone());
        let draft = Draft::of("GET", "/readyz");
        loop {
            let ready = connection.call(&draft).await.is_ok_and(|answer| answer.status == 200);
            if ready {
                return Ok(());
            }
            let gone =
                self.process.as_mut().is_none_or(|process| process.try_wait().is_ok_and(|s| s.is_some()));
            if gone || begin.elapsed() > PATIENCE {
                return Err(ended("does not become ready", &self.log));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// An error with the last lines of the log, which name the cause.
fn ended(problem: &str, log: &Path) -> BenchError {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(10)..].join("\n");
    BenchError::Child { problem: format!("server that bench started {problem}"), log: tail }
}
