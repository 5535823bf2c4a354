//! The default data directory.

use std::ffi::OsString;
use std::path::PathBuf;

/// The data directory of the system, which root's servers and `packaging/orlop.service` use.
pub const SYSTEM: &str = "/var/lib/orlop";

/// The default data directory: the system's for root, else the user's. `None` if no variable names the home directory. `variable` looks
/// up an environment variable.
pub fn default(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if is_root {
        return Some(PathBuf::from(SYSTEM));
    }
    // The XDG specification requires relative paths to be ignored.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Some(data.join("orlop"));
    }
    Some(absolute("HOME")?.join(".local/share/orlop"))
}
