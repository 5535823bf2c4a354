//! One run of a container: its start, its exit, and its termination. All functions also work on a container that
//! an earlier agent started: its record is on disk, and a [`ProcessId`] cannot be confused with a later process.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::launch_spec::{
    Container, Join, LaunchOrder, Program, RunEnd, RunRecord, attempt_file, message_file,
};
use super::process_id::{ProcessId, find, stat};
use super::supervise::kill_cgroup;
use crate::runtime::captured_output::CapturedOutput;
use crate::runtime::records;

/// How long a killed process may take to exit before an error is reported.
const GONE: Duration = Duration::from_secs(30);
/// Minimum time between SIGTERM and SIGKILL, unless the grace period is shorter, however long the preStop hook
/// took (upstream: minimumGracePeriodInSeconds).
const LAST_MOMENTS: Duration = Duration::from_secs(2);
/// Delay before a failed watch of a process is retried.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The number of bytes that are kept of each output stream of a program that joins a container.
const SAID: usize = 10 * 1024;

/// Prepares the directories of a run, and deletes the files of the run before the previous one.
fn prepare(plan: &Container) -> io::Result<()> {
    records::make_dir(&plan.dir.join("rootfs"))?;
    records::make_dir(&plan.logs)?;
    let Some(old) = plan.restart.checked_sub(2) else { return Ok(()) };
    records::gone(std::fs::remove_file(attempt_file(&plan.dir, old)))?;
    records::gone(std::fs::remove_file(message_file(&plan.dir, old)))?;
    for file in super::log::files(&plan.logs, old) {
        records::gone(std::fs::remove_file(file))?;
    }
    Ok(())
}

/// Starts a supervisor, which starts the container. Returns when the program of the container runs or has failed
/// to start.
pub(super) async fn start(plan: Container) -> Result<RunRecord, String> {
    prepare(&plan).map_err(|error| format!("{}: {error}", plan.dir.display()))?;
    let (dir, restart) = (plan.dir.clone(), plan.restart);
    let launcher = plan.launcher.clone();
    let (mut child, mut pipe) =
        launch(&launcher, LaunchOrder::Supervise(Box::new(plan)), false, Stdio::null(), Stdio::null())
            .await?;
    // Only reaps the supervisor, which may outlive this agent.
    tokio::spawn(async move {
        let _ = child.wait().await;
    });
    let mut said = Vec::new();
    let mut buffer = [0; 256];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => said.extend_from_slice(&buffer[..n]),
        }
        if said.contains(&b'\n') {
            break;
        }
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    match read(&dir, restart) {
        Ok(Some(attempt)) => Ok(attempt),
        Ok(None) => Err(format!("the supervisor of the container has exited: {said}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Starts this binary in its hidden mode and sends it an order. `kept`: the process is killed when its handle is
/// dropped.
async fn launch(
    launcher: &[String],
    order: LaunchOrder,
    kept: bool,
    out: Stdio,
    err: Stdio,
) -> Result<(tokio::process::Child, UnixStream), String> {
    let words = |error: io::Error| error.to_string();
    let (program, args) = launcher.split_first().ok_or("no way to start a process")?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(words)?;
    ours.set_nonblocking(true).map_err(words)?;
    let child = tokio::process::Command::new(program)
        .args(args)
        .stdin(OwnedFd::from(theirs))
        .stdout(out)
        .stderr(err)
        .kill_on_drop(kept)
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let order = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
    let mut pipe = UnixStream::from_std(ours).map_err(words)?;
    pipe.write_all(&order).await.map_err(words)?;
    pipe.shutdown().await.map_err(words)?;
    Ok((child, pipe))
}

/// Reads the record of a run.
pub(super) fn read(dir: &Path, restart: u32) -> io::Result<Option<RunRecord>> {
    records::read(&attempt_file(dir, restart))
}

/// The last two runs of a container, the newest first.
pub(super) fn runs(dir: &Path) -> io::Result<Vec<(u32, RunRecord)>> {
    let number = |name: &String| name.strip_suffix(".json")?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = records::names(dir)?.iter().filter_map(number).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let mut runs = Vec::new();
    for restart in numbers.into_iter().take(2) {
        if let Some(attempt) = read(dir, restart)? {
            runs.push((restart, attempt));
        }
    }
    Ok(runs)
}

/// Waits until a process has exited. A failed watch does not count as an exit, because the rest of a container is
/// killed afterwards.
pub(super) async fn gone(identity: &ProcessId) {
    while let Err(error) = watched(identity).await {
        tracing::error!("process {} cannot be watched: {error}", identity.pid);
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[allow(deprecated, reason = "unsound for types that lie about their file alone; an OwnedFd does not")]
async fn watched(identity: &ProcessId) -> io::Result<()> {
    let Some(fd) = identity.open()? else { return Ok(()) };
    AsyncFd::with_interest(fd, Interest::READABLE)?.readable().await.map(drop)
}

/// Waits for the end of a run and returns its record. A supervisor that was killed did not write one; the
/// remaining processes of the container are then killed.
pub(super) async fn ended(dir: &Path, restart: u32, attempt: &RunRecord) -> Result<RunRecord, String> {
    gone(&attempt.supervisor).await;
    let mut last = read(dir, restart).map_err(|error| error.to_string())?.unwrap_or_else(|| attempt.clone());
    if last.end.is_some() {
        return Ok(last);
    }
    kill_rest(&last).await?;
    last.end = Some(RunEnd {
        code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: "The supervisor of the container was killed, so the exit code of the container is unknown"
            .to_owned(),
        at: Timestamp::now(),
    });
    records::write(&attempt_file(dir, restart), &last).map_err(|error| error.to_string())?;
    Ok(last)
}

/// Kills the processes that a supervisor left behind: the first process, its session, its cgroup. After a reboot
/// none is left, and the process IDs belong to other processes.
async fn kill_rest(attempt: &RunRecord) -> Result<(), String> {
    if !attempt.supervisor.is_of_this_boot().map_err(|error| error.to_string())? {
        return Ok(());
    }
    if let Some(cgroup) = &attempt.cgroup {
        kill_cgroup(cgroup);
    }
    let Some(main) = &attempt.main else { return Ok(()) };
    let _ = main.signal(Signal::KILL);
    // A session ID is not reused while the session has a process: the session is the container's if its first
    // process is still the same, or has exited.
    let is_ours = stat(main.pid).map_or(true, |now| now.start == main.start);
    let mut left = vec![main.clone()];
    if is_ours {
        let of_session = find(|stat| stat.session == main.pid && stat.start >= main.start && !stat.is_over);
        left.extend(
            of_session
                .map_err(|error| error.to_string())?
                .into_iter()
                .filter_map(|pid| ProcessId::of(pid).ok()),
        );
    }
    for one in &left {
        let _ = one.signal(Signal::KILL);
        if tokio::time::timeout(GONE, gone(one)).await.is_err() {
            return Err(format!(
                "process {} was killed and does not end: it is blocked in the kernel",
                one.pid
            ));
        }
    }
    if let Some(cgroup) = &attempt.cgroup {
        let _ = std::fs::remove_dir(cgroup);
    }
    Ok(())
}

/// Waits for a deadline that may change.
async fn passed(until: &mut watch::Receiver<Instant>) {
    loop {
        let at = *until.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(at) => return,
            moved = until.changed() => if moved.is_err() {
                return tokio::time::sleep_until(at).await;
            },
        }
    }
}

/// Terminates a run: waits for `before` (the preStop hook, and other containers that stop first), then sends
/// SIGTERM, and SIGKILL at the deadline. Returns when the supervisor has exited.
///
/// # Errors
/// A process does not exit; the caller retries.
pub(super) async fn kill(
    dir: &Path,
    restart: u32,
    before: impl Future<Output = ()>,
    mut until: watch::Receiver<Instant>,
) -> Result<RunRecord, String> {
    let grace = until.borrow().saturating_duration_since(Instant::now());
    let attempt = read(dir, restart).map_err(|error| error.to_string())?;
    let attempt =
        attempt.ok_or_else(|| format!("{} does not exist", attempt_file(dir, restart).display()))?;
    // If the container exits by itself, there is nothing more to wait for.
    tokio::select! {
        () = before => {}
        () = passed(&mut until) => {}
        () = gone(&attempt.supervisor) => {}
    }
    if let Some(main) = &attempt.main {
        // The process may just have exited.
        let _ = main.signal(Signal::TERM);
    }
    let least = Instant::now() + grace.min(LAST_MOMENTS);
    let is_over = tokio::select! {
        biased;
        () = gone(&attempt.supervisor) => true,
        () = async { passed(&mut until).await; tokio::time::sleep_until(least).await } => false,
    };
    if !is_over {
        // The program may have started after the record was read.
        let attempt =
            read(dir, restart).map_err(|error| error.to_string())?.unwrap_or_else(|| attempt.clone());
        match &attempt.main {
            Some(main) => main.signal(Signal::KILL),
            None => attempt.supervisor.signal(Signal::KILL),
        }
        .map_err(|error| error.to_string())?;
        if tokio::time::timeout(GONE, gone(&attempt.supervisor)).await.is_err() {
            return Err(
                "a process of the container was killed and does not end: it is blocked in the kernel"
                    .to_owned(),
            );
        }
    }
    ended(dir, restart, &attempt).await
}

/// The result of a program that joined a container.
#[derive(Debug)]
pub(super) struct JoinedProgram {
    /// Its exit code; `None` when it timed out.
    pub(super) code: Option<i32>,
    /// Its output.
    pub(super) said: String,
}

/// Runs a program in a running container.
///
/// # Errors
/// The program cannot be started.
pub(super) async fn join(
    launcher: &[String],
    attempt: &RunRecord,
    program: Program,
    limit: Duration,
) -> Result<JoinedProgram, String> {
    let main = attempt.main.clone().ok_or("the container has no process")?;
    let order = LaunchOrder::Join(Box::new(Join { main, cgroup: attempt.cgroup.clone(), program }));
    let (mut child, mut pipe) = launch(launcher, order, true, Stdio::piped(), Stdio::piped()).await?;
    let out = child.stdout.take().map(|stream| CapturedOutput::of(stream, SAID));
    let err = child.stderr.take().map(|stream| CapturedOutput::of(stream, SAID));
    let mut refusal = String::new();
    let status = tokio::time::timeout(limit, async {
        let _ = pipe.read_to_string(&mut refusal).await;
        child.wait().await
    });
    let status = match status.await {
        Ok(status) => Some(status.map_err(|error| error.to_string())?),
        Err(_) => {
            let _ = child.kill().await;
            None
        }
    };
    let mut said = String::new();
    for output in [out, err].into_iter().flatten() {
        said.push_str(&output.end().await);
    }
    if !refusal.is_empty() {
        return Err(refusal);
    }
    let code = status.map(|status| {
        use std::os::unix::process::ExitStatusExt as _;
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    });
    Ok(JoinedProgram { code, said: said.trim().to_owned() })
}

/// The parent of the cgroups of containers: the cgroup of this process, in the cgroup v2 hierarchy.
pub(super) fn cgroup_parent() -> Option<std::path::PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let tree = table.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let path = Path::new(&tree).join(own);
    // Fails in a read-only hierarchy.
    File::options().write(true).open(path.join("cgroup.procs")).is_ok().then_some(path)
}
