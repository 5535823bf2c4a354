//! Runs programs: mount(8) and the tools of file systems. They have no input and a process group of their own
//! (signals to the agent do not reach them), and their output is captured up to a limit.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The maximum of captured output in bytes.
const MOST_WORDS: usize = 1024;

/// The paths of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// mount(8).
    pub mount: PathBuf,
    /// The directories of all other programs, in search order.
    pub search: Vec<PathBuf>,
}

impl Default for Programs {
    /// `mount` from the PATH, and the PATH plus the sbin directories, which are often missing in the PATH of
    /// services.
    fn default() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut search: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
        for dir in ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"] {
            if !search.iter().any(|known| known == Path::new(dir)) {
                search.push(PathBuf::from(dir));
            }
        }
        let mut programs = Self { mount: PathBuf::from("mount"), search };
        if let Some(found) = programs.find("mount") {
            programs.mount = found;
        }
        programs
    }
}

impl Programs {
    /// The path of a program; none if it is not found.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.search.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    /// A command for a program, without arguments.
    ///
    /// # Errors
    /// The program is not installed; the text names the package to install.
    pub(crate) fn command(&self, name: &str) -> Result<Command, String> {
        match self.find(name) {
            Some(path) => Ok(Command::new(path)),
            None => Err(missing(name)),
        }
    }
}

/// The error text for a missing program, with the name of its package.
pub(crate) fn missing(name: &str) -> String {
    let package = match name {
        "mount.nfs" | "mount.nfs4" => "nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, RHEL, SUSE)",
        "mount.cifs" | "mount.smb3" => "cifs-utils",
        "mount.ceph" => "ceph-common",
        "mount.glusterfs" => "glusterfs-client (Debian, Ubuntu) or glusterfs-fuse (Fedora, RHEL)",
        "mkfs.ext2" | "mkfs.ext3" | "mkfs.ext4" | "resize2fs" | "e2fsck" => "e2fsprogs",
        "mkfs.xfs" | "xfs_growfs" => "xfsprogs",
        "mkfs.btrfs" | "btrfs" => "btrfs-progs",
        "mount" | "losetup" | "blkid" => "util-linux (mount on Debian and Ubuntu)",
        _ => return format!("the program {name} is not installed on this node"),
    };
    format!("the program {name} is not installed on this node; it is in the package {package}")
}

/// Runs a program to its end and returns its output from both streams.
///
/// # Errors
/// It could not be started, or failed: the error is its output or, without output, its exit status.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("?")).to_owned();
    let name = name.to_string_lossy().into_owned();
    let (status, said) = output(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(&name),
        _ => format!("{name} could not be run: {error}"),
    })?;
    let said = readable(&said);
    match (status.success(), said.is_empty()) {
        (true, _) => Ok(said),
        (false, false) => Err(said),
        (false, true) => Err(format!("{name} failed without output ({status})")),
    }
}

/// Runs a program and returns its exit status and output, for programs with meaningful exit statuses.
pub(crate) fn output(command: &mut Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .env("LC_ALL", "C")
        .current_dir("/")
        .process_group(0);
    let mut child = command.spawn()?;
    // The command owns the write ends of the pipe.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let said = listen(&child, reader);
    let status = child.wait()?;
    Ok((status, said?))
}

/// Reads until the program has ended, and no longer: daemons that it started may still have its output streams
/// open.
fn listen(child: &Child, mut reader: PipeReader) -> io::Result<Vec<u8>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    ioctl_fionbio(&reader, true)?;
    let mut said = Vec::new();
    let mut part = [0; 4096];
    let mut is_open = true;
    loop {
        let mut asked = vec![PollFd::new(&end, PollFlags::IN)];
        if is_open {
            asked.push(PollFd::new(&reader, PollFlags::IN));
        }
        match poll(&mut asked, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let has_ended = asked[0].revents().contains(PollFlags::IN);
        drop(asked);
        // A bounded number of reads: constant output of a daemon must not delay noticing the end of the program. A pipe
        // buffers less than this.
        for _ in 0..64 {
            match reader.read(&mut part) {
                Ok(0) => {
                    is_open = false;
                    break;
                }
                Ok(length) => {
                    let room = MOST_WORDS.saturating_sub(said.len()).min(length);
                    said.extend_from_slice(&part[..room]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if has_ended {
            return Ok(said);
        }
    }
}

/// Formats the output of a program as one line.
pub(crate) fn readable(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn sh(script: &str) -> Result<String, String> {
        run(Command::new("/bin/sh").args(["-c", script]))
    }

    #[test]
    fn program_output_is_returned() {
        assert_eq!(sh("echo a; echo b >&2"), Ok("a; b".to_owned()));
        assert_eq!(sh("echo why >&2; exit 32"), Err("why".to_owned()));
        assert_eq!(sh("exit 3"), Err("sh failed without output (exit status: 3)".to_owned()));
        assert_eq!(sh("cat"), Ok(String::new()), "there is nothing to read");
        let flood = sh(
            "i=0; while [ $i -lt 5000 ]; do echo 0123456789012345678901234567890; i=$((i+1)); done; exit 1",
        );
        assert!(flood.as_ref().is_err_and(|said| said.len() <= MOST_WORDS + 100), "{flood:?}");
        let missing = run(&mut Command::new("/nowhere/mkfs.xfs")).expect_err("it is not there");
        assert!(missing.contains("xfsprogs"), "{missing}");
    }

    #[test]
    fn daemons_of_a_program_are_not_waited_for() {
        let start = Instant::now();
        assert_eq!(sh("sleep 20 & echo done"), Ok("done".to_owned()));
        assert!(start.elapsed() < Duration::from_secs(15));
    }
}
