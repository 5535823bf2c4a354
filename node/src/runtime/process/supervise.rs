//! The supervisor, a small process beside each container: it starts the container, writes its logs, and records
//! its exit. It does not depend on the agent, which may be killed and restarted.
//!
//! All processes of a container end with it. While the supervisor lives, each of them is its descendant (the
//! supervisor is a subreaper), whatever session or group it creates, and is killed and reaped. A cgroup, where
//! one can be created, covers the case that the supervisor itself is killed. Hooks and probes are not
//! descendants; they are identified by the container's mount namespace.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, set_child_subreaper, setsid, wait,
};

use super::super::records;
use super::launch_spec::{Container, LaunchOrder, RunEnd, RunRecord, attempt_file, message_file};
use super::log::{Log, Stream, current, parse};
use super::process_id::{ProcessId, find};

/// Maximum size of a termination message, in bytes (upstream: MaxContainerTerminationMessageLength).
const MESSAGE: u64 = 4096;
/// The size of a message from the end of the log: lines and bytes (upstream:
/// MaxContainerTerminationMessageLogLines, ...LogLength).
const TAIL: (usize, usize) = (80, 2048);
/// How long output is still read after all processes have exited: another process may have the pipe open.
const DRAIN: Duration = Duration::from_secs(2);
/// Delay between checks whether killed processes have exited.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Runs a container until it ends. Notifies `agent` of the start; the agent may be gone.
pub(super) fn run(plan: Container, mut agent: UnixStream) -> io::Result<()> {
    setsid()?;
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let file = attempt_file(&plan.dir, plan.restart);
    let mut attempt =
        RunRecord { supervisor: ProcessId::own()?, main: None, cgroup: None, started_at: None, end: None };
    let mut plan = plan;
    plan.cgroup = plan.cgroup.as_deref().and_then(|parent| cgroup(parent, &plan));
    attempt.cgroup.clone_from(&plan.cgroup);
    records::write(&file, &attempt)?;
    // The open file of an earlier run does not prevent the next run.
    drop(std::fs::File::create(message_file(&plan.dir, plan.restart))?);
    set_mode(&message_file(&plan.dir, plan.restart))?;

    let log = Arc::new(Log::open(&plan.logs, plan.restart, plan.log_bytes, plan.log_files)?);
    let end = match start(&plan, &log, &mut attempt, &file) {
        Ok(Running { main, readers, namespace }) => {
            // The agent may be gone; the record has the same information.
            let _ = agent.write_all(b"\n");
            drop(agent);
            let status = until_end(main)?;
            clear(plan.cgroup.as_deref())?;
            if let Some(namespace) = namespace {
                namespace.clear()?;
            }
            for _ in 0..2 {
                if readers.recv_timeout(DRAIN).is_err() {
                    break;
                }
            }
            let mut end = ended(status, read_message(&plan));
            if end.code != 0 && end.message.is_empty() && plan.log_as_message {
                end.message = tail(&plan);
            }
            end
        }
        Err(why) => {
            clear(plan.cgroup.as_deref())?;
            RunEnd { code: 128, reason: "StartError".to_owned(), message: why, at: Timestamp::now() }
        }
    };
    if let Some(cgroup) = &plan.cgroup {
        // The cgroup is empty; leaving it behind is harmless.
        let _ = std::fs::remove_dir(cgroup);
    }
    attempt.end = Some(end);
    records::write(&file, &attempt)
}

struct Running {
    main: Pid,
    /// `None` when the process has already exited; nothing can join it then.
    namespace: Option<Namespace>,
    /// Receives one message from each of the two output readers at its end.
    readers: mpsc::Receiver<()>,
}

/// Starts the container's first process; the program runs when this function returns.
fn start(plan: &Container, log: &Arc<Log>, attempt: &mut RunRecord, file: &Path) -> Result<Running, String> {
    let words = |error: io::Error| error.to_string();
    let (program, args) = plan.launcher.split_first().ok_or("no way to start a process")?;
    let (mut ours, theirs) = UnixStream::pair().map_err(words)?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let raw = i32::try_from(child.id()).map_err(|error| error.to_string())?;
    let main = Pid::from_raw(raw).ok_or("a process without a number")?;
    attempt.main = Some(ProcessId::of(raw).map_err(words)?);
    // From here on the agent can kill it, even when it hangs in a mount.
    records::write(file, attempt).map_err(words)?;
    let (done, readers) = mpsc::channel();
    let out =
        child.stdout.take().map(|stream| (Stream::Stdout, Box::new(stream) as Box<dyn io::Read + Send>));
    let err =
        child.stderr.take().map(|stream| (Stream::Stderr, Box::new(stream) as Box<dyn io::Read + Send>));
    for (stream, from) in [out, err].into_iter().flatten() {
        let (log, done) = (log.clone(), done.clone());
        std::thread::spawn(move || {
            log.take(stream, from);
            let _ = done.send(());
        });
    }
    let order =
        serde_json::to_vec(&LaunchOrder::Enter(Box::new(plan.clone()))).map_err(|error| error.to_string())?;
    ours.write_all(&order).map_err(words)?;
    ours.shutdown(Shutdown::Write).map_err(words)?;
    let mut refusal = String::new();
    // Ends when exec closes the pipe, or after an error message.
    ours.read_to_string(&mut refusal).map_err(words)?;
    if !refusal.is_empty() {
        return Err(refusal);
    }
    attempt.started_at = Some(Timestamp::now());
    records::write(file, attempt).map_err(words)?;
    Ok(Running { main, readers, namespace: Namespace::of(raw) })
}

/// The mount namespace of a container, kept open so that its inode number is not reused.
struct Namespace(std::fs::File);

impl Namespace {
    /// `None` when the process has exited.
    fn of(pid: i32) -> Option<Self> {
        std::fs::File::open(Self::file(pid)).ok().map(Self).filter(|found| !found.has(std::process::id()))
    }

    fn file(pid: impl std::fmt::Display) -> String {
        format!("/proc/{pid}/ns/mnt")
    }

    fn has(&self, pid: impl std::fmt::Display) -> bool {
        let number = |found: std::fs::Metadata| (found.dev(), found.ino());
        let own = self.0.metadata().map(number);
        matches!((std::fs::metadata(Self::file(pid)).map(number), own), (Ok(its), Ok(own)) if its == own)
    }

    /// Kills all processes in the namespace, until none is left.
    fn clear(self) -> io::Result<()> {
        loop {
            let mut is_empty = true;
            for pid in find(|stat| !stat.is_over)? {
                if !self.has(pid) {
                    continue;
                }
                is_empty = false;
                // The pid may have been reused: check again for the process that is killed.
                if let Ok(one) = ProcessId::of(pid)
                    && self.has(pid)
                {
                    one.signal(Signal::KILL)?;
                }
            }
            if is_empty {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn set_mode(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // Writable by every user of the container, like upstream.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
}

/// Creates a cgroup for the container, if possible.
fn cgroup(parent: &Path, plan: &Container) -> Option<PathBuf> {
    let pod = plan.dir.ancestors().nth(2)?.file_name()?.to_str()?;
    let name = plan.dir.file_name()?.to_str()?;
    let path = parent.join(format!("orlop-{pod}-{name}-{}", plan.restart));
    std::fs::create_dir(&path).ok()?;
    Some(path)
}

/// Waits for the first process and reaps others.
fn until_end(main: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return Ok(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills all descendants and waits for them.
fn clear(cgroup: Option<&Path>) -> io::Result<()> {
    if let Some(cgroup) = cgroup {
        kill_cgroup(cgroup);
    }
    let own = rustix::process::getpid().as_raw_pid();
    loop {
        for pid in find(|stat| stat.parent == own)?.into_iter().filter_map(Pid::from_raw) {
            // The pid of a child is not reused before the child is reaped.
            let _ = kill_process(pid, Signal::KILL);
        }
        match wait(WaitOptions::empty()) {
            // All that have ended, because each search reads the whole process table.
            Ok(_) => while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {},
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills all processes in a cgroup, if the kernel supports it.
pub(super) fn kill_cgroup(cgroup: &Path) {
    // The file does not exist before kernel 5.14.
    let _ = std::fs::write(cgroup.join("cgroup.kill"), "1");
}

fn ended(status: WaitStatus, message: String) -> RunEnd {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    };
    let reason = if code == 0 { "Completed" } else { "Error" };
    RunEnd { code, reason: reason.to_owned(), message, at: Timestamp::now() }
}

/// The end of the container's log, without timestamps.
fn tail(plan: &Container) -> String {
    let text = std::fs::read(current(&plan.logs, plan.restart)).unwrap_or_default();
    let lines: Vec<&[u8]> =
        text.split(|byte| *byte == b'\n').filter_map(|line| Some(parse(line)?.text)).collect();
    let mut kept = Vec::new();
    for line in &lines[lines.len().saturating_sub(TAIL.0)..] {
        kept.extend_from_slice(line);
        kept.push(b'\n');
    }
    String::from_utf8_lossy(&kept[kept.len().saturating_sub(TAIL.1)..]).into_owned()
}

fn read_message(plan: &Container) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(message_file(&plan.dir, plan.restart)) {
        let _ = file.take(MESSAGE).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
