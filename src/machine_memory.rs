//! The memory that this process may use: that of the machine, or of its control group if that is less.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes; `None` if the system does not report it.
pub(crate) fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = files_of_groups(Path::new(CGROUPS), &own);
    let groups = files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    machine.into_iter().chain(groups).min()
}

/// Parses `MemTotal` of /proc/meminfo.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The files with the limits of the groups in /proc/self/cgroup and of their parents, in version 1 or 2.
fn files_of_groups(root: &Path, own: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container, the path may be that of the host and not exist; the root is that of the container then.
        let path = Path::new(path.trim_start_matches('/'));
        files.extend(path.ancestors().map(|group| base.join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn limits_of_machine_and_groups_are_found() {
        assert_eq!(of_machine("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(of_machine("MemFree: 1 kB\n"), None);
        let files = |own: &str| -> Vec<String> {
            files_of_groups(Path::new("/c"), own).iter().map(|file| file.display().to_string()).collect()
        };
        assert_eq!(files("0::/a/b\n"), ["/c/a/b/memory.max", "/c/a/memory.max", "/c/memory.max"]);
        let first = "5:cpu,memory:/a\n1:name=systemd:/x\nnonsense\n";
        assert_eq!(files(first), ["/c/memory/a/memory.limit_in_bytes", "/c/memory/memory.limit_in_bytes"]);
        assert!(bytes().unwrap() > 0);
    }
}
