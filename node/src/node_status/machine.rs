//! Reads facts about the machine: `/proc`, `/sys`, `/etc` and the file system of the agent's directory. A value
//! that cannot be read is empty or zero, and no error: a node without a machine id is valid.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The capacity of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCapacity {
    /// Total bytes.
    pub bytes: u64,
    /// Bytes available to unprivileged users.
    pub free_bytes: u64,
    /// Total inodes; 0 where there is no limit.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
}

/// A snapshot of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The UUID of the hardware; the machine id if there is none.
    pub system_uuid: String,
    /// Changes with every boot.
    pub boot_id: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub os_image: String,
    /// Number of online processors.
    pub cpus: u64,
    /// Total memory in bytes.
    pub memory: u64,
    /// Memory available without swapping, in bytes.
    pub free_memory: u64,
    /// Number of huge pages by page size in bytes.
    pub huge_pages: BTreeMap<u64, u64>,
    /// Number of threads.
    pub threads: u64,
    /// Maximum number of threads; 0 if unknown.
    pub max_threads: u64,
    /// The file system of the agent's directory; none if it does not respond.
    pub root: Option<DiskCapacity>,
}

impl Machine {
    /// Reads all values. `top` is `/` except in tests; `root_dir` is the agent's directory, which need not exist yet.
    /// May block for as long as the file system of `root_dir` does.
    pub fn read(top: &Path, root_dir: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(top.join(path)).unwrap_or_default();
        let word = |path: &str| text(path).trim().to_owned();
        let number = |path: &str| word(path).parse::<u64>().ok();
        let machine_id = word("etc/machine-id");
        let uuid = word("sys/class/dmi/id/product_uuid").to_ascii_lowercase();
        let memory = text("proc/meminfo");
        let least = [number("proc/sys/kernel/pid_max"), number("proc/sys/kernel/threads-max")];
        Self {
            system_uuid: if uuid.is_empty() { machine_id.clone() } else { uuid },
            machine_id,
            boot_id: word("proc/sys/kernel/random/boot_id"),
            kernel: word("proc/sys/kernel/osrelease"),
            os_image: pretty_name(&text("etc/os-release")),
            cpus: cpus(&word("sys/devices/system/cpu/online")).unwrap_or_else(processors),
            memory: memory_line(&memory, "MemTotal"),
            free_memory: memory_line(&memory, "MemAvailable"),
            huge_pages: huge_pages(&top.join("sys/kernel/mm/hugepages")),
            threads: threads(&text("proc/loadavg")),
            max_threads: least.into_iter().flatten().min().unwrap_or(0),
            root: room(root_dir),
        }
    }
}

/// Number of processors in a list: `1 + 3` for `0,2-4`.
fn cpus(list: &str) -> Option<u64> {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    });
    ranges.sum()
}

fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
}

fn memory_line(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn pretty_name(text: &str) -> String {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let quoted = value("PRETTY_NAME").or_else(|| value("NAME")).unwrap_or("Linux");
    quoted.trim().trim_matches(['"', '\'']).to_owned()
}

/// The second of the two numbers in `2/345`.
fn threads(loadavg: &str) -> u64 {
    let pair = loadavg.split_whitespace().nth(3).and_then(|pair| pair.split_once('/'));
    pair.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

fn huge_pages(dir: &Path) -> BTreeMap<u64, u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let page = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        Some((kib * 1024, count))
    };
    entries.filter_map(page).collect()
}

/// The capacity of the file system that contains the directory, or would contain it.
fn room(dir: &Path) -> Option<DiskCapacity> {
    let existing = dir.ancestors().find(|dir| dir.exists())?;
    let found = rustix::fs::statvfs(existing).ok()?;
    Some(DiskCapacity {
        bytes: found.f_blocks.saturating_mul(found.f_frsize),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        inodes: found.f_files,
        free_inodes: found.f_favail,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn machine_with_all_files_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("etc/machine-id", "m1\n");
        put("sys/class/dmi/id/product_uuid", "ABC\n");
        put("proc/sys/kernel/random/boot_id", "b1\n");
        put("proc/sys/kernel/osrelease", "6.1.0\n");
        put("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n");
        put("sys/devices/system/cpu/online", "0,2-4\n");
        put("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n");
        put("proc/loadavg", "0.1 0.2 0.3 2/345 678\n");
        put("proc/sys/kernel/pid_max", "4000\n");
        put("proc/sys/kernel/threads-max", "3000\n");
        put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
        put("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
        let machine = Machine::read(dir.path(), &dir.path().join("not/there/yet"));
        let root = machine.root.unwrap();
        assert!(root.bytes > 0 && root.free_bytes <= root.bytes, "{root:?}");
        let wanted = Machine {
            machine_id: "m1".into(),
            system_uuid: "abc".into(),
            boot_id: "b1".into(),
            kernel: "6.1.0".into(),
            os_image: "Debian GNU/Linux 13".into(),
            cpus: 4,
            memory: 1000 * 1024,
            free_memory: 400 * 1024,
            huge_pages: BTreeMap::from([(2 << 20, 3), (1 << 30, 0)]),
            threads: 345,
            max_threads: 3000,
            root: Some(root),
        };
        assert_eq!(machine, wanted);
    }

    #[test]
    fn machine_without_files_has_empty_values() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::read(dir.path(), dir.path());
        assert!(machine.cpus > 0);
        assert_eq!((machine.os_image.as_str(), machine.memory, machine.max_threads), ("Linux", 0, 0));
    }

    #[test]
    fn this_machine_is_read() {
        let machine = Machine::read(Path::new("/"), Path::new("/"));
        assert!(machine.cpus > 0 && machine.memory > machine.free_memory, "{machine:?}");
        assert!(
            !machine.kernel.is_empty() && !machine.boot_id.is_empty() && machine.threads > 0,
            "{machine:?}"
        );
    }

    #[test]
    fn processor_lists_are_counted() {
        for (list, wanted) in
            [("0", Some(1)), ("0-7", Some(8)), ("0-1,4,6-7", Some(5)), ("", None), ("3-1", None)]
        {
            assert_eq!(cpus(list), wanted, "{list:?}");
        }
    }
}
