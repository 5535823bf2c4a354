//! What the kernel says of a process: memory and processor time. Linux only, as the rest of orlop.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// Processor time of all threads that are still there. Nanoseconds where the kernel counts them, which
/// an idle server needs; else ticks of 10 ms.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    threads_cpu(pid).or_else(|| stat_cpu(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
}

fn threads_cpu(pid: u32) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may end while it is looked at.
        let Ok(text) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
        sum += Duration::from_nanos(nanos);
    }
    (!sum.is_zero()).then_some(sum)
}

/// A line such as `VmRSS:     1234 kB`.
fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// User and system time of `/proc/PID/stat`: fields 14 and 15, in ticks of 10 ms.
fn stat_cpu(stat: &str) -> Option<Duration> {
    // The name in parentheses may hold anything, spaces and parentheses too.
    let behind_name = stat.rsplit_once(')')?.1;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// Bytes that are allocated below a directory. Files that vanish meanwhile do not count.
pub(crate) fn allocated(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        let below = if metadata.is_dir() { allocated(&entry.path()) } else { 0 };
        // st_blocks counts 512 bytes whatever the file system's block size is.
        Some(metadata.blocks() * 512 + below)
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let status = "Name:\torlop\nVmHWM:\t  2000 kB\nVmRSS:\t  1234 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1234 * 1024));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 3 0 0 20 0 4 0 100 1 2";
        assert_eq!(stat_cpu(stat), Some(Duration::from_millis(150)));
        assert_eq!(stat_cpu("nonsense"), None);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(resident(pid).is_some_and(|bytes| bytes > 100_000));
        assert!(cpu(pid).is_some());
        assert_eq!(resident(u32::MAX), None);
        assert_eq!(cpu(u32::MAX), None);
    }
}
