//! Finds the users of a busy mount for error messages: mounts below it, and processes with open files on it. The
//! search is limited in time and does not access the mounted file system.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of names in a message.
const MOST_NAMES: usize = 4;
/// The time limit of the search.
const LONGEST: Duration = Duration::from_millis(250);

/// The text after `<target> is busy:`.
pub(super) fn holders(target: &Path, mounts_below: &[&Path]) -> String {
    if let Some(first) = mounts_below.first() {
        return format!("{} mounts are below it, among them {}", mounts_below.len(), first.display());
    }
    let until = Instant::now() + LONGEST;
    let mut names = Vec::new();
    let mut is_all = true;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = process.file_name();
        let Some(id) = id.to_str().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        if Instant::now() > until || names.len() == MOST_NAMES {
            is_all = false;
            break;
        }
        if holds(&process.path(), target) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            names.push(format!("{} ({id})", name.trim().escape_debug()));
        }
    }
    match (names.is_empty(), is_all) {
        (true, _) => "something has it open".to_owned(),
        (false, true) => format!("open in {}", names.join(", ")),
        (false, false) => format!("open in {} and perhaps others", names.join(", ")),
    }
}

/// Whether a process has its working directory or an open file below the target. Links in /proc are read, not
/// followed.
fn holds(process: &Path, target: &Path) -> bool {
    let is_in = |link: &Path| fs::read_link(link).is_ok_and(|open| open.starts_with(target));
    if ["cwd", "root", "exe"].iter().any(|name| is_in(&process.join(name))) {
        return true;
    }
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.take(4096).any(|file| is_in(&file.path()))
}
