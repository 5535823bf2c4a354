//! Runs `iscsiadm` with a deadline, and kills it afterwards. The exit status identifies the error (iscsiadm(8),
//! EXIT STATUS).

use std::io;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::Command;

use crate::mount::Programs;

/// The session exists already.
pub(super) const SESSION_EXISTS: i32 = 15;
/// There is no such record, target or session.
pub(super) const NOTHING_FOUND: i32 = 21;
/// The maximum of its output in an error.
const MOST_WORDS: usize = 1024;

/// Why a call of `iscsiadm` failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// It is not installed.
    #[error(
        "the program iscsiadm is not installed on this node; it is in the package open-iscsi (Debian, Ubuntu, SUSE) or iscsi-initiator-utils (Fedora, RHEL)"
    )]
    Missing,
    /// It exited with an error.
    #[error("{command}: {said}")]
    Failed {
        /// The command line, without secrets.
        command: String,
        /// The exit status; none when a signal ended it.
        code: Option<i32>,
        /// The output.
        said: String,
    },
    /// It did not exit in time and was killed.
    #[error(
        "{command}: no answer for {seconds} s; see to it that the portal can be reached from this node, and that iscsid runs"
    )]
    Late {
        /// The command line, without secrets.
        command: String,
        /// The deadline.
        seconds: u64,
    },
}

impl AdminError {
    /// Whether it has this exit status.
    pub(super) fn is(&self, status: i32) -> bool {
        match self {
            Self::Failed { code, .. } => *code == Some(status),
            Self::Missing | Self::Late { .. } => false,
        }
    }
}

/// Runs `iscsiadm`.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Runs it with these arguments, and returns its output.
    ///
    /// # Errors
    /// It failed, or did not exit in time.
    async fn run(&self, args: &[&str]) -> Result<String, AdminError>;
}

/// The `iscsiadm` of this machine.
#[derive(Clone, Debug)]
pub struct Iscsiadm {
    programs: Programs,
    deadline: Duration,
}

impl Default for Iscsiadm {
    fn default() -> Self {
        Self::new(Programs::default(), Duration::from_secs(60))
    }
}

impl Iscsiadm {
    /// Searches the program in these directories, and kills it after the deadline.
    pub fn new(programs: Programs, deadline: Duration) -> Self {
        Self { programs, deadline }
    }
}

#[async_trait]
impl Admin for Iscsiadm {
    async fn run(&self, args: &[&str]) -> Result<String, AdminError> {
        let program = self.programs.find("iscsiadm").ok_or(AdminError::Missing)?;
        let failed = |code, said: String| AdminError::Failed { command: shown(args), code, said };
        let mut command = Command::new(program);
        command.args(args).current_dir("/").env("LC_ALL", "C").process_group(0).kill_on_drop(true);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => AdminError::Missing,
            _ => failed(None, format!("it could not be run: {error}")),
        })?;
        let seconds = self.deadline.as_secs();
        let output = tokio::time::timeout(self.deadline, child.wait_with_output()).await;
        let output = output
            .map_err(|_| AdminError::Late { command: shown(args), seconds })?
            .map_err(|error| failed(None, format!("its answer could not be read: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut said = readable(&output.stderr, args);
        if said.is_empty() {
            said = readable(&output.stdout, args);
        }
        if said.is_empty() {
            said = format!("it failed without output ({})", output.status);
        }
        Err(failed(output.status.code(), said))
    }
}

/// Formats its output as one line, without the secrets in the arguments.
fn readable(said: &[u8], args: &[&str]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut said: String = lines.join("; ").chars().filter(|letter| !letter.is_control()).collect();
    for (_, secret) in secrets(args) {
        said = said.replace(secret, "***");
    }
    said.chars().take(MOST_WORDS).collect()
}

/// Formats the command line for messages.
fn shown(args: &[&str]) -> String {
    let secret: Vec<usize> = secrets(args).map(|(at, _)| at).collect();
    let mut text = "iscsiadm".to_owned();
    for (at, arg) in args.iter().enumerate() {
        text.push(' ');
        text.push_str(if secret.contains(&at) { "***" } else { arg });
    }
    text
}

/// Secret values with their positions: those of `-n <name with password in it> -v <value>`.
fn secrets<'a>(args: &'a [&'a str]) -> impl Iterator<Item = (usize, &'a str)> {
    let is_secret = |words: &[&str]| words[0] == "-n" && words[1].contains("password") && words[2] == "-v";
    let found = args.windows(4).enumerate().filter(move |(_, words)| is_secret(words));
    found.map(|(at, words)| (at + 3, words[3])).filter(|(_, value)| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted() {
        let args = ["-o", "update", "-n", "node.session.auth.password", "-v", "geheim"];
        assert_eq!(shown(&args), "iscsiadm -o update -n node.session.auth.password -v ***");
        assert_eq!(readable(b"bad value geheim\n\n twice\n", &args), "bad value ***; twice");
        assert_eq!(
            shown(&["-n", "node.session.auth.username", "-v", "me"]),
            "iscsiadm -n node.session.auth.username -v me"
        );
    }
}
