//! Files that a command replaces by renaming a new one.
//!
//! A rename replaces whatever has the name. The superuser would replace a device such as `/dev/null` for all processes of the machine, and
//! readers of a named pipe would wait for nothing.

use std::io;
use std::path::Path;

use orlop_apimachinery::input_file;

/// Checks that a rename to this path replaces nothing but a regular file, a link to one, or a link that leads nowhere.
///
/// # Errors
/// The path leads to something else. The text continues a sentence about the file.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    // The link of /dev/stdout leads to a regular file when the output of the process is redirected to one.
    if std::fs::read_link(path).is_ok_and(|to| to.starts_with("/proc")) {
        let why = "it leads to an open file of a process; choose another file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let checked = match std::fs::metadata(path) {
        Ok(found) => input_file::check_type(found.file_type()),
        // Nothing to replace, or a link that leads nowhere. Another error is reported when the file is written.
        Err(_) => Ok(()),
    };
    checked.map_err(|error| io::Error::new(error.kind(), format!("{error}; choose another file")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn only_regular_files_may_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        std::fs::create_dir(at("dir")).unwrap();
        for (link, to) in [
            ("to file", "file"),
            ("to pipe", "pipe"),
            ("to nothing", "nowhere"),
            ("to device", "/dev/null"),
            ("stdout", "/proc/self/status"),
        ] {
            symlink(to, at(link)).unwrap();
        }
        for (name, expected) in [
            ("new", None),
            ("file", None),
            ("to file", None),
            ("to nothing", None),
            ("pipe", Some("a named pipe")),
            ("to pipe", Some("a named pipe")),
            ("/dev/null", Some("a character device")),
            ("to device", Some("a character device")),
            ("dir", Some("directory")),
            ("stdout", Some("an open file of a process")),
        ] {
            // An absolute name replaces the directory.
            let refused = check_replaceable(&at(name)).err().map(|error| error.to_string());
            match (&refused, expected) {
                (None, None) => {}
                (Some(why), Some(part)) => {
                    assert!(why.contains(part) && why.ends_with("choose another file"), "{name}: {why}");
                }
                (Some(_), None) | (None, Some(_)) => panic!("{name}: {refused:?}"),
            }
        }
    }
}
