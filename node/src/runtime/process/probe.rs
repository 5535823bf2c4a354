//! Container probes: a program that joins the container, a TCP connection, or an HTTP request. Containers use the
//! host network, so connections go to this machine unless the probe names a host (upstream: pkg/kubelet/prober).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerPort, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::container_run;
use super::launch_spec::{Program, RunRecord};

/// The container that a program joins.
#[derive(Clone)]
pub(super) struct JoinTarget {
    pub(super) launcher: Vec<String>,
    pub(super) attempt: RunRecord,
    pub(super) program: Program,
}

/// The state of a container according to its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeResult {
    pub(super) is_started: bool,
    pub(super) is_ready: bool,
    /// Why the container must be stopped, if so.
    pub(super) failed: Option<String>,
    /// The type of the probe that failed.
    pub(super) probe: &'static str,
    /// The grace period for that; `None` for that of the pod.
    pub(super) grace: Option<Duration>,
}

impl ProbeResult {
    fn good(is_started: bool, is_ready: bool) -> Self {
        Self { is_started, is_ready, failed: None, probe: "", grace: None }
    }
}

/// Starts the probes of a container that was just started. Returns the initial result and the guard that stops
/// the probes.
pub(super) fn start(
    container: &Container,
    target: JoinTarget,
    tell: impl Fn(ProbeResult) -> bool + Send + Sync + 'static,
) -> (ProbeResult, Option<DropGuard>) {
    let probes = [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
    if probes.into_iter().all(Option::is_none) {
        return (ProbeResult::good(true, true), None);
    }
    let first = ProbeResult::good(
        container.startup_probe.is_none(),
        container.startup_probe.is_none() && container.readiness_probe.is_none(),
    );
    let token = CancellationToken::new();
    let guard = token.clone().drop_guard();
    let container = container.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = token.cancelled() => {}
            () = run(&container, &target, &tell) => {}
        }
    });
    (first, Some(guard))
}

async fn run(container: &Container, target: &JoinTarget, tell: &(impl Fn(ProbeResult) -> bool + Sync)) {
    if let Some(probe) = &container.startup_probe {
        let mut count = ResultCounter::new(probe, None);
        let outcome =
            repeat(container, probe, target, |result| count.take(result.is_ok()).map(|good| (good, result)));
        let (is_good, result) = outcome.await;
        if !is_good {
            tell(failed("startup probe", "Startup", probe, result, false));
            return;
        }
    }
    let has_readiness = container.readiness_probe.is_some();
    if container.startup_probe.is_some() {
        tell(ProbeResult::good(true, !has_readiness));
    }
    let liveness = async {
        if let Some(probe) = &container.liveness_probe {
            let mut count = ResultCounter::new(probe, Some(true));
            let bad = repeat(container, probe, target, |result| match count.take(result.is_ok()) {
                Some(false) => Some(result),
                Some(true) | None => None,
            });
            tell(failed("liveness probe", "Liveness", probe, bad.await, true));
        }
    };
    let readiness = async {
        if let Some(probe) = &container.readiness_probe {
            let mut count = ResultCounter::new(probe, Some(false));
            repeat(container, probe, target, |result| {
                let changed = count.take(result.is_ok())?;
                (!tell(ProbeResult::good(true, changed))).then_some(())
            })
            .await;
        }
    };
    tokio::join!(liveness, readiness);
}

fn failed(
    name: &'static str,
    title: &str,
    probe: &Probe,
    result: Result<(), String>,
    is_started: bool,
) -> ProbeResult {
    let why = result.err().unwrap_or_default();
    ProbeResult {
        is_started,
        is_ready: false,
        failed: Some(format!("{title} probe failed: {why}")),
        probe: name,
        grace: probe.termination_grace_period_seconds.map(|seconds| seconds_of(Some(seconds), 0)),
    }
}

fn seconds_of(value: Option<i64>, default: u64) -> Duration {
    Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default))
}

/// Counts consecutive results up to the threshold of a probe.
struct ResultCounter {
    successes: i32,
    failures: i32,
    row: i32,
    last: Option<bool>,
    mind: Option<bool>,
}

impl ResultCounter {
    fn new(probe: &Probe, mind: Option<bool>) -> Self {
        let at_least_one = |value: Option<i32>, default| value.filter(|value| *value > 0).unwrap_or(default);
        Self {
            successes: at_least_one(probe.success_threshold, 1),
            failures: at_least_one(probe.failure_threshold, 3),
            row: 0,
            last: None,
            mind,
        }
    }

    /// Counts a result; returns the new state when it has changed.
    fn take(&mut self, is_good: bool) -> Option<bool> {
        self.row = if self.last == Some(is_good) { self.row.saturating_add(1) } else { 1 };
        self.last = Some(is_good);
        let needed = if is_good { self.successes } else { self.failures };
        if self.row < needed || self.mind == Some(is_good) {
            return None;
        }
        self.mind = Some(is_good);
        self.mind
    }
}

/// Probes periodically until `judge` returns a value.
async fn repeat<T>(
    container: &Container,
    probe: &Probe,
    target: &JoinTarget,
    mut judge: impl FnMut(Result<(), String>) -> Option<T>,
) -> T {
    let since = target.attempt.started_at.unwrap_or_default();
    let lasted = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
    let delay = seconds_of(probe.initial_delay_seconds.map(i64::from), 0);
    tokio::time::sleep(delay.saturating_sub(lasted)).await;
    let period = seconds_of(probe.period_seconds.filter(|period| *period > 0).map(i64::from), 10);
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(outcome) = judge(check(container, probe, target).await) {
            return outcome;
        }
    }
}

/// Runs a probe once.
async fn check(container: &Container, probe: &Probe, target: &JoinTarget) -> Result<(), String> {
    let limit = seconds_of(probe.timeout_seconds.filter(|limit| *limit > 0).map(i64::from), 1);
    let ports = container.ports.as_deref().unwrap_or_default();
    if let Some(exec) = &probe.exec {
        let args = exec.command.clone().unwrap_or_default();
        let program = Program { args, ..target.program.clone() };
        let joined = container_run::join(&target.launcher, &target.attempt, program, limit).await?;
        return match joined.code {
            Some(0) => Ok(()),
            Some(_) => Err(joined.said),
            None => Err(format!("command timed out: no end after {} s", limit.as_secs())),
        };
    }
    if let Some(get) = &probe.http_get {
        return http(get, ports, limit).await;
    }
    if let Some(socket) = &probe.tcp_socket {
        let port = port(&socket.port, ports)?;
        let host = socket.host.as_deref().filter(|host| !host.is_empty()).unwrap_or("127.0.0.1");
        return match tokio::time::timeout(limit, TcpStream::connect((host, port))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("dial tcp {host}:{port}: {error}")),
            Err(_) => Err(format!("dial tcp {host}:{port}: i/o timeout")),
        };
    }
    Err("the probe has no handler that this runtime supports".to_owned())
}

/// Sends an HTTP request; a status from 200 to 399 is a success.
pub(super) async fn http(
    get: &HTTPGetAction,
    ports: &[ContainerPort],
    limit: Duration,
) -> Result<(), String> {
    let port = port(&get.port, ports)?;
    let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or("127.0.0.1");
    let path = format!("/{}", get.path.as_deref().unwrap_or_default().trim_start_matches('/'));
    let mut headers = String::new();
    for header in get.http_headers.iter().flatten() {
        headers.push_str(&format!("{}: {}\r\n", header.name, header.value));
    }
    if headers.matches("\r\n").count() != get.http_headers.iter().flatten().count()
        || path.contains(char::is_whitespace)
    {
        return Err("a header or the path has characters that cannot be sent".to_owned());
    }
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n{headers}\r\n"
    );
    let ask = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        BufReader::new(stream.take(4096)).read_line(&mut line).await?;
        Ok::<String, std::io::Error>(line)
    };
    let name = format!("Get \"http://{host}:{port}{path}\"");
    let line = match tokio::time::timeout(limit, ask).await {
        Ok(Ok(line)) => line,
        Ok(Err(error)) => return Err(format!("{name}: {error}")),
        Err(_) => return Err(format!("{name}: context deadline exceeded")),
    };
    match line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()) {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err(format!("{name}: the answer is no HTTP")),
    }
}

fn port(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => match ports.iter().find(|port| port.name.as_ref() == Some(name)) {
            Some(port) => port.container_port,
            None => name.parse().map_err(|_| format!("couldn't find port: {name:?}"))?,
        },
    };
    u16::try_from(number).map_err(|_| format!("invalid port number: {number}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn thresholds_count_consecutive_results() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Default::default() };
        for (name, first, results, want) in [
            ("ready after two", Some(false), "11", "..1"),
            ("a failure between", Some(false), "1011", ".....1"),
            ("three failures", Some(true), "000", "...0"),
            ("no news", Some(true), "0010001", ".......0"),
        ] {
            let mut count = ResultCounter::new(&probe, first);
            let mut got = String::from(".");
            for result in results.chars() {
                match count.take(result == '1') {
                    None => got.push('.'),
                    Some(mind) => got.push(if mind { '1' } else { '0' }),
                }
            }
            let want: String = want.chars().filter(|c| *c != '.').collect();
            assert_eq!(got.replace('.', ""), want, "{name}");
        }
    }

    #[tokio::test]
    async fn http_probe_succeeds_below_status_400() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let number = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            for code in ["204 No", "404 No", "nonsense"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 1024];
                let n = stream.read(&mut buffer).await.unwrap();
                assert!(buffer[..n].starts_with(b"GET /x HTTP/1.1\r\n"));
                stream.write_all(format!("HTTP/1.1 {code}\r\n\r\n").as_bytes()).await.unwrap();
            }
        });
        let ports = [ContainerPort {
            name: Some("web".into()),
            container_port: i32::from(number),
            ..Default::default()
        }];
        let get = HTTPGetAction {
            path: Some("/x".into()),
            port: IntOrString::String("web".into()),
            ..Default::default()
        };
        let limit = Duration::from_secs(5);
        http(&get, &ports, limit).await.unwrap();
        assert_eq!(http(&get, &ports, limit).await.unwrap_err(), "HTTP probe failed with statuscode: 404");
        assert!(http(&get, &ports, limit).await.unwrap_err().contains("no HTTP"));
        let none = HTTPGetAction { port: IntOrString::String("db".into()), ..get };
        assert_eq!(http(&none, &ports, limit).await.unwrap_err(), "couldn't find port: \"db\"");
    }
}
