//! One process of the real binary: start, signals, kill, and its log.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;

use rustix::process::{Pid, Signal, kill_process};

use super::wait;

/// The binary under test: the one that cargo has just built, or the one that `ORLOP_TEST_BINARY` names (a
/// release, or a package).
pub(crate) static ORLOP: LazyLock<String> = LazyLock::new(|| {
    std::env::var("ORLOP_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_orlop").to_owned())
});

/// A running (or exited) process. Dropping it kills it; if the test has failed, its log is printed.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// The length of the log before this process started.
    before: u64,
    ended: Option<ExitStatus>,
}

/// A command without the environment of the test run.
pub(crate) fn command(program: impl AsRef<OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("RUST_BACKTRACE", "1");
    for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

impl Process {
    /// Starts `orlop ARGS`; its output is appended to `DIR/NAME.log` over all restarts.
    pub(crate) fn start(name: &str, dir: &Path, args: &[String]) -> Self {
        Self::start_with::<String>(name, dir, args, &[])
    }

    /// The same with a prefix before `orlop`, such as a program that enters a namespace and executes the rest.
    pub(crate) fn start_in(prefix: &[String], name: &str, dir: &Path, args: &[String]) -> Self {
        Self::start_as::<String>(prefix, name, dir, args, &[])
    }

    /// The same, with environment variables.
    pub(crate) fn start_with<V: AsRef<OsStr>>(
        name: &str,
        dir: &Path,
        args: &[String],
        variables: &[(&str, V)],
    ) -> Self {
        Self::start_as(&[], name, dir, args, variables)
    }

    fn start_as<V: AsRef<OsStr>>(
        prefix: &[String],
        name: &str,
        dir: &Path,
        args: &[String],
        variables: &[(&str, V)],
    ) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let before = file.metadata().unwrap().len();
        let mut words = prefix.iter().cloned().chain([ORLOP.clone()]);
        let program = words.next().expect("there is at least orlop");
        let child = command(program, dir)
            .args(words)
            .args(args)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", *ORLOP));
        Process { name: name.to_owned(), child, log, before, ended: None }
    }

    /// Its whole output so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether this process, and not an earlier one, has printed anything yet.
    pub(crate) fn has_begun(&self) -> bool {
        std::fs::metadata(&self.log).is_ok_and(|log| log.len() > self.before)
    }

    /// Its exit status, if it has exited.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended
    }

    /// Its resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The part of its resident memory that shows files, such as its program, in bytes.
    pub(crate) fn resident_file_bytes(&self) -> u64 {
        self.memory("RssFile:")
    }

    /// The most resident memory that it had, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kibibytes = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        kibibytes.and_then(|number| number.parse::<u64>().ok()).expect("it is a number") << 10
    }

    /// Sends a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_some() {
            return;
        }
        let pid = Pid::from_child(&self.child);
        // The process may exit by itself meanwhile; the code that waits for it reads the exit status.
        let _ = kill_process(pid, signal);
    }

    /// Waits for it to exit; returns the exit code, or 128 and the signal's number, as shells do.
    pub(crate) async fn exit_code(&mut self) -> i32 {
        let name = self.name.clone();
        let status = wait::until(&format!("{name} ends"), async || {
            self.ended().ok_or_else(|| format!("still running; its log:\n{}", self.log()))
        })
        .await;
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
    }

    /// kill -9: nothing is flushed or logged.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.exit_code().await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}--- end of the log of {} ---", self.name, self.log(), self.name);
        }
    }
}
