//! Fault injection for tests: kills the agent with `kill -9` at every step, one step per run.
//!
//! With `ORLOP_NODE_CRASH_POINTS=FILE` in its environment the agent kills itself (SIGKILL, without writing or
//! cleaning up) when it reaches a step that has no line in FILE; it writes the line first. When it is restarted
//! repeatedly with the same file, it dies exactly once at each step that it reaches, and then keeps running. FILE
//! then lists these steps. A step is identified by its operation and its path; generated parts of names are left
//! out. Without the variable, as everywhere but in tests, a step costs one check of a constant.
//!
//! There is a step before and after every change outside the process: mounts, directories, records, links, calls of
//! drivers, writes to the API.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{Signal, getpid, kill_process};

/// The environment variable with the path of the file.
const VARIABLE: &str = "ORLOP_NODE_CRASH_POINTS";

/// The steps at which the agent has died.
struct CrashPlan {
    file: File,
    known: BTreeSet<String>,
}

impl CrashPlan {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::options().create(true).append(true).read(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(Self { file, known: text.lines().map(str::to_owned).collect() })
    }

    /// Records a step. Returns whether it is new.
    fn note(&mut self, step: &str) -> io::Result<bool> {
        if self.known.contains(step) {
            return Ok(false);
        }
        self.file.write_all(format!("{step}\n").as_bytes())?;
        Ok(self.known.insert(step.to_owned()))
    }
}

fn book() -> Option<&'static Mutex<CrashPlan>> {
    static BOOK: OnceLock<Option<Mutex<CrashPlan>>> = OnceLock::new();
    let open = || {
        let path = PathBuf::from(std::env::var_os(VARIABLE)?);
        match CrashPlan::open(&path) {
            Ok(book) => Some(Mutex::new(book)),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the file of {VARIABLE} cannot be used: no faults are injected");
                None
            }
        }
    };
    BOOK.get_or_init(open).as_ref()
}

/// Marks a step: `what` is the operation, `place` its path.
pub fn reached(what: &str, place: impl AsRef<Path>) {
    let Some(book) = book() else { return };
    // Locked until the end: each run dies at one step.
    let mut book = book.lock();
    match book.note(&format_step(what, place.as_ref())) {
        Ok(false) => {}
        Ok(true) => loop {
            // Does not return.
            let _ = kill_process(getpid(), Signal::KILL);
        },
        Err(error) => tracing::error!(%error, "a step cannot be written down: no fault is injected"),
    }
}

/// Formats a step as one line.
fn format_step(what: &str, place: &Path) -> String {
    let names = place.iter().map(|name| name.to_string_lossy());
    let place: PathBuf =
        names.map(|name| if is_made_up(&name) { "*".to_owned() } else { name.into_owned() }).collect();
    format!("{what} {}", place.display().to_string().escape_debug())
}

/// Whether a name is generated: of a staging directory, of a directory of new content, of a pod.
fn is_made_up(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_uid = || name.len() == 36 && name.split('-').count() == 5 && name.split('-').all(is_hex);
    name.starts_with("..2") || name.len() == 16 && is_hex(name) || is_uid()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_new_only_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps");
        let mut book = CrashPlan::open(&path).unwrap();
        assert!(book.note("a").unwrap());
        assert!(!book.note("a").unwrap());
        assert!(book.note("b c").unwrap());
        let mut again = CrashPlan::open(&path).unwrap();
        assert!(!again.note("b c").unwrap());
        assert!(again.note("d").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb c\nd\n");
    }

    #[test]
    fn generated_names_are_replaced() {
        for (place, expected) in [
            ("/r/mounting/0123456789abcdef", "x /r/mounting/*"),
            ("/r/v/..2026_01_31_10_00_00.0123456789abcdef", "x /r/v/*"),
            ("/r/v/..data", "x /r/v/..data"),
            ("/r/pods/7d6e25fb-82d9-4ad9-97fd-3a94c7538198/v", "x /r/pods/*/v"),
            ("/r/pvc-7d6e25fb-82d9-4ad9-97fd-3a94c7538198", "x /r/pvc-7d6e25fb-82d9-4ad9-97fd-3a94c7538198"),
            ("/r/new\nline", "x /r/new\\nline"),
        ] {
            assert_eq!(format_step("x", Path::new(place)), expected);
        }
    }
}
