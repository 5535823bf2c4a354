//! Identifies processes: a pid is reused, so the start time and the boot ID belong to the identity. A pidfd is
//! opened first and compared afterwards, so a signal reaches this process or none.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// Its pid.
    pub(crate) pid: i32,
    /// Clock ticks between the boot and its start.
    pub(crate) start: u64,
    /// The boot ID.
    pub(crate) boot: String,
}

impl ProcessId {
    /// The process that has this pid now.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Ok(Self { pid, start: stat(pid)?.start, boot: boot()? })
    }

    /// This process.
    pub(crate) fn own() -> io::Result<Self> {
        Self::of(rustix::process::getpid().as_raw_pid())
    }

    /// Whether it was started since the last boot; an earlier process no longer exists.
    pub(crate) fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(self.boot == boot()?)
    }

    /// A pidfd of it; `None` when it no longer exists.
    ///
    /// # Errors
    /// It is unknown whether the process exists, for example because too many files are open.
    pub(crate) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let fd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match stat(self.pid) {
            Ok(now) => Ok((now.start == self.start && self.is_of_this_boot()?).then_some(fd)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a signal; returns whether the process exists.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(fd) = self.open()? else { return Ok(false) };
        match pidfd_send_signal(&fd, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Whether an error from /proc means that the process does not exist.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The required fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The parent pid.
    pub(crate) parent: i32,
    /// The session ID.
    pub(crate) session: i32,
    /// Clock ticks between the boot and its start.
    pub(crate) start: u64,
    /// It is a zombie.
    pub(crate) is_over: bool,
}

/// Reads `/proc/PID/stat`.
pub(crate) fn stat(pid: i32) -> io::Result<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse(&text).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not understood")))
}

/// Parses the file. The second field is the program name in parentheses, which may contain any character.
fn parse(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        is_over: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// The pids of all processes for which `wanted` returns true.
pub(crate) fn find(wanted: impl Fn(&Stat) -> bool) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // It may have exited in the meantime.
        if stat(pid).is_ok_and(|stat| wanted(&stat)) {
            found.push(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn program_name_with_parentheses_is_parsed() {
        let text = "7 (a) R 1 (b) S 3 7 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        assert_eq!(parse(text), Some(Stat { parent: 3, session: 9, start: 12345, is_over: false }));
        for text in ["", "7 (a", "7 (a) R", "7 (a) R x 7 9"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn reused_pid_is_another_process() {
        let own = ProcessId::own().unwrap();
        assert!(own.open().unwrap().is_some());
        let earlier = ProcessId { start: own.start - 1, ..own.clone() };
        let other_boot = ProcessId { boot: "x".into(), ..own.clone() };
        let none = ProcessId { pid: 0, ..own };
        for identity in [earlier, other_boot, none] {
            assert!(identity.open().unwrap().is_none(), "{identity:?}");
            assert!(!identity.signal(Signal::KILL).unwrap());
        }
    }
}
