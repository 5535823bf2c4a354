//! Scripted faults, for testing CSI clients. A file contains a JSON list of rules, such as
//!
//! ```json
//! [{"rpc": "CreateVolume", "after": 1, "times": 2, "delay_ms": 500},
//!  {"rpc": "CreateVolume", "fault": "error", "code": "RESOURCE_EXHAUSTED", "message": "full"},
//!  {"rpc": "ControllerPublishVolume", "fault": "error-after", "code": "UNAVAILABLE"},
//!  {"rpc": "DeleteVolume", "fault": "no-answer"},
//!  {"rpc": "NodeStageVolume", "fault": "hold"}, {"rpc": "NodePublishVolume", "fault": "hold-after"},
//!  {"rpc": "*", "fault": "crash"}, {"rpc": "CreateSnapshot", "fault": "crash-after"}]
//! ```
//!
//! For each call, the matching rules are tried in order until one applies. Each rule skips `after` calls,
//! then applies to `times` calls (to all further calls if omitted), then skips all further calls. The file is
//! read again when it changes, and the counters restart at zero. `error` and `crash` happen before the work,
//! `error-after`, `no-answer` and `crash-after` after the work is done and recorded. `hold` and `hold-after`
//! wait, before and after the work, until the script changes, and then continue normally. The file with the
//! script's name and the suffix `.held` lists the held calls, one per line.

use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

/// The exit code of a scripted crash.
const CRASHED: i32 = 70;

/// Why a script is invalid.
#[derive(Debug, thiserror::Error)]
pub enum FaultsError {
    /// The file cannot be read.
    #[error("faults in {}: {source}", path.display())]
    Read {
        /// The path of the script.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file is not a list of rules.
    #[error("faults in {}: {source}", path.display())]
    Parse {
        /// The path of the script.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The script names a code that gRPC does not define.
    #[error("faults in {}: {code:?} is not a gRPC code; use a name such as UNAVAILABLE or RESOURCE_EXHAUSTED", path.display())]
    Code {
        /// The path of the script.
        path: PathBuf,
        /// The code as written.
        code: String,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    /// Delay only.
    #[default]
    None,
    Error,
    ErrorAfter,
    NoAnswer,
    Hold,
    HoldAfter,
    Crash,
    CrashAfter,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    rpc: String,
    #[serde(default)]
    after: u64,
    times: Option<u64>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    fault: Fault,
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
    /// Number of calls seen.
    #[serde(skip)]
    seen: u64,
}

impl Rule {
    /// Counts a call and returns whether the rule applies to it.
    fn takes(&mut self, rpc: &str) -> bool {
        if self.rpc != "*" && self.rpc != rpc {
            return false;
        }
        let seen = self.seen;
        if self.times.is_some_and(|times| seen >= self.after + times) {
            return false;
        }
        self.seen += 1;
        seen >= self.after
    }

    fn status(&self) -> Status {
        let code = code(&self.code).unwrap_or(Code::Unknown);
        let message = if self.message.is_empty() { "an injected fault" } else { &self.message };
        Status::new(code, message)
    }
}

fn code(name: &str) -> Option<Code> {
    Some(match name {
        "CANCELLED" => Code::Cancelled,
        "" | "UNKNOWN" => Code::Unknown,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "DEADLINE_EXCEEDED" => Code::DeadlineExceeded,
        "NOT_FOUND" => Code::NotFound,
        "ALREADY_EXISTS" => Code::AlreadyExists,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "ABORTED" => Code::Aborted,
        "OUT_OF_RANGE" => Code::OutOfRange,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "INTERNAL" => Code::Internal,
        "UNAVAILABLE" => Code::Unavailable,
        "DATA_LOSS" => Code::DataLoss,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        _ => return None,
    })
}

#[derive(Debug, Default)]
struct Script {
    rules: Vec<Rule>,
    read_at: Option<(SystemTime, u64)>,
    /// Number of scripts read.
    number: u64,
    /// Calls currently held.
    held: Vec<String>,
}

/// How often a held call checks for a new script.
const HOLD_LOOK: Duration = Duration::from_millis(10);

/// The script and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    path: Option<PathBuf>,
    script: Arc<Mutex<Script>>,
}

impl Faults {
    /// Reads a script. Without a script no call fails.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, FaultsError> {
        let faults = Faults { path, script: Arc::default() };
        faults.refresh()?;
        Ok(faults)
    }

    /// Reads the script again if its file has changed.
    fn refresh(&self) -> Result<(), FaultsError> {
        let Some(path) = &self.path else { return Ok(()) };
        let read = |source| FaultsError::Read { path: path.clone(), source };
        let found = fs::metadata(path).map_err(read)?;
        let stamp = Some((found.modified().map_err(read)?, found.len()));
        let mut script = self.script.lock();
        if script.read_at == stamp {
            return Ok(());
        }
        script.rules = parse(path, &fs::read(path).map_err(read)?)?;
        script.read_at = stamp;
        script.number += 1;
        Ok(())
    }

    fn script(&self) -> parking_lot::MutexGuard<'_, Script> {
        self.script.lock()
    }

    /// Waits for a new script.
    async fn hold(&self, rpc: &str) {
        let held = HeldCall::begin(self, rpc);
        while self.script().number == held.number {
            tokio::time::sleep(HOLD_LOOK).await;
            if let Err(error) = self.refresh() {
                tracing::error!(%error, "the script stays as it was");
            }
        }
    }

    /// Writes the list of held calls.
    fn list(&self, held: &[String]) {
        let Some(path) = &self.path else { return };
        let mut name = path.clone().into_os_string();
        name.push(".held");
        let text: String = held.iter().map(|rpc| format!("{rpc}\n")).collect();
        if let Err(error) = fs::write(&name, text) {
            tracing::error!(%error, "cannot write the list of held calls");
        }
    }

    /// Returns the rule for a call.
    fn next(&self, rpc: &str) -> Option<Rule> {
        if let Err(error) = self.refresh() {
            tracing::error!(%error, "the script stays as it was");
        }
        let mut script = self.script.lock();
        script.rules.iter_mut().find_map(|rule| rule.takes(rpc).then(|| rule.clone()))
    }
}

/// A held call, until it continues or its caller disconnects.
struct HeldCall<'a> {
    faults: &'a Faults,
    rpc: &'a str,
    number: u64,
}

impl<'a> HeldCall<'a> {
    fn begin(faults: &'a Faults, rpc: &'a str) -> Self {
        let mut script = faults.script();
        script.held.push(rpc.to_owned());
        faults.list(&script.held);
        HeldCall { faults, rpc, number: script.number }
    }
}

impl Drop for HeldCall<'_> {
    fn drop(&mut self) {
        let mut script = self.faults.script();
        if let Some(at) = script.held.iter().position(|rpc| rpc == self.rpc) {
            script.held.remove(at);
        }
        self.faults.list(&script.held);
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Rule>, FaultsError> {
    let rules: Vec<Rule> = serde_json::from_slice(bytes)
        .map_err(|source| FaultsError::Parse { path: path.to_owned(), source })?;
    match rules.iter().find(|rule| code(&rule.code).is_none()) {
        Some(rule) => Err(FaultsError::Code { path: path.to_owned(), code: rule.code.clone() }),
        None => Ok(rules),
    }
}

/// The layer that wraps every service.
#[derive(Clone)]
pub(crate) struct FaultsLayer(Faults);

impl FaultsLayer {
    pub(crate) fn new(faults: Faults) -> Self {
        FaultsLayer(faults)
    }
}

impl<S> Layer<S> for FaultsLayer {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { faults: self.0.clone(), inner }
    }
}

/// A service whose calls may fail.
#[derive(Clone)]
pub(crate) struct Faulty<S> {
    faults: Faults,
    inner: S,
}

type Answer<E> = std::pin::Pin<Box<dyn Future<Output = Result<http::Response<Body>, E>> + Send>>;

impl<S> Service<http::Request<Body>> for Faulty<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let rpc = request.uri().path().rsplit('/').next().unwrap_or_default();
        let Some(rule) = self.faults.next(rpc) else { return Box::pin(self.inner.call(request)) };
        let (faults, rpc) = (self.faults.clone(), rpc.to_owned());
        tracing::info!(rpc, fault = ?rule.fault, delay_ms = rule.delay_ms, "an injected fault");
        // Call the instance that was polled ready.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(rule.delay_ms)).await;
            match rule.fault {
                Fault::None => inner.call(request).await,
                Fault::Error => Ok(rule.status().into_http()),
                Fault::ErrorAfter => inner.call(request).await.map(|_| rule.status().into_http()),
                Fault::NoAnswer => {
                    let _ = inner.call(request).await;
                    std::future::pending().await
                }
                Fault::Hold => {
                    faults.hold(&rpc).await;
                    inner.call(request).await
                }
                Fault::HoldAfter => {
                    let answer = inner.call(request).await;
                    faults.hold(&rpc).await;
                    answer
                }
                Fault::Crash => std::process::exit(CRASHED),
                Fault::CrashAfter => {
                    let _ = inner.call(request).await;
                    std::process::exit(CRASHED)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rules_apply_in_order_until_exhausted() {
        let script = br#"[{"rpc": "A", "after": 1, "times": 2, "fault": "error", "code": "ABORTED"},
                          {"rpc": "*", "times": 1, "fault": "crash"}, {"rpc": "A", "delay_ms": 5}]"#;
        let mut rules = parse(Path::new("x"), script).unwrap();
        let mut next = |rpc: &str| rules.iter_mut().find_map(|rule| rule.takes(rpc).then_some(rule.fault));
        assert_eq!(next("A"), Some(Fault::Crash));
        assert_eq!([next("A"), next("A")], [Some(Fault::Error); 2]);
        assert_eq!([next("A"), next("B")], [Some(Fault::None), None]);
    }

    #[test]
    fn invalid_scripts_are_rejected() {
        for (script, want) in [
            (r#"[{"rpc": "A", "code": "GONE"}]"#, "is not a gRPC code"),
            (r#"[{"rpc": "A", "fault": "sulk"}]"#, "unknown variant"),
            (r#"[{"rcp": "A"}]"#, "unknown field"),
            ("nonsense", "expected"),
        ] {
            let error = parse(Path::new("x"), script.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(want), "{script}: {error}");
        }
    }

    #[tokio::test]
    async fn held_calls_continue_after_a_script_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("faults.json");
        fs::write(&path, r#"[{"rpc": "A", "fault": "hold"}]"#).unwrap();
        let faults = Faults::open(Some(path.clone())).unwrap();
        let list = || fs::read_to_string(dir.path().join("faults.json.held")).unwrap();
        let caller = tokio::spawn({
            let faults = faults.clone();
            async move { faults.hold("B").await }
        });
        let held = tokio::spawn({
            let faults = faults.clone();
            async move { faults.hold("A").await }
        });
        while faults.script().held.len() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(list().contains("A\n"));
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        assert_eq!(list(), "A\n", "calls of disconnected callers are not listed");
        fs::write(&path, "[]").unwrap();
        held.await.unwrap();
        assert_eq!(list(), "");
    }

    #[test]
    fn changed_script_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("faults.json");
        fs::write(&path, "[]").unwrap();
        let faults = Faults::open(Some(path.clone())).unwrap();
        assert!(faults.next("A").is_none());
        fs::write(&path, r#"[{"rpc": "A", "times": 1}]"#).unwrap();
        assert!(faults.next("A").is_some() && faults.next("A").is_none());
        // An invalid script leaves the current rules in effect.
        fs::write(&path, r#"[{"rpc": "A", "times": 1}"#).unwrap();
        assert!(faults.next("A").is_none());
    }
}
