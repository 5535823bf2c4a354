//! Memory and processor time of a process, as reported by the kernel. Linux only, like the rest of orlop.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// Memory of a process by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// Resident memory.
    pub(crate) resident: u64,
    /// Proportional set size: resident memory, with shared pages divided among the processes that share them.
    pub(crate) proportional: u64,
    /// Anonymous memory: heap and stacks.
    pub(crate) anonymous: u64,
}

impl ProcessMemory {
    /// Reads the memory of a process.
    pub(crate) fn of(pid: u32) -> Option<ProcessMemory> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        Some(ProcessMemory {
            resident: status_bytes(&text, "Rss:")?,
            proportional: status_bytes(&text, "Pss:")?,
            anonymous: status_bytes(&text, "Anonymous:")?,
        })
    }

    /// File-backed memory: mostly the program's, which the kernel can drop and read again.
    pub(crate) fn of_files(self) -> u64 {
        self.resident.saturating_sub(self.anonymous)
    }
}

/// How often each thread of a process was scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wakeups(BTreeMap<u32, u64>);

impl Wakeups {
    /// Reads the counters of a process.
    pub(crate) fn of(pid: u32) -> Option<Wakeups> {
        let mut threads = BTreeMap::new();
        for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            // A thread may exit in the meantime.
            let Ok(text) = fs::read_to_string(thread.path().join("status")) else { continue };
            let switches = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                line.trim().parse::<u64>().ok()
            };
            let sum = switches("voluntary_ctxt_switches:")? + switches("nonvoluntary_ctxt_switches:")?;
            threads.insert(thread.file_name().to_str()?.parse().ok()?, sum);
        }
        Some(Wakeups(threads))
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.len()
    }

    /// The wakeups since `before`, without those of exited threads.
    pub(crate) fn since(&self, before: &Wakeups) -> u64 {
        let of = |(thread, count): (&u32, &u64)| {
            count.saturating_sub(before.0.get(thread).copied().unwrap_or_default())
        };
        self.0.iter().map(of).sum()
    }
}

/// Processor time at one point in time, by thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpu(BTreeMap<u32, Duration>);

impl Cpu {
    /// Reads the processor time of a process: in nanoseconds if the kernel reports them, which an idle server
    /// requires; otherwise in ticks of 10 ms, for the process as a whole.
    pub(crate) fn of(pid: u32) -> Option<Cpu> {
        let threads = threads_cpu(pid).filter(|threads| threads.values().any(|spent| !spent.is_zero()));
        let whole = || Some(BTreeMap::from([(pid, whole_cpu(pid)?)]));
        threads.or_else(whole).map(Cpu)
    }

    /// The processor time spent since `before`. The time of threads that have exited since is lost; thread pools
    /// stop only idle threads.
    pub(crate) fn since(&self, before: &Cpu) -> Duration {
        let spent = self.0.iter().map(|(thread, spent)| {
            let earlier = before.0.get(thread).copied().unwrap_or_default();
            spent.saturating_sub(earlier)
        });
        spent.sum()
    }
}

/// Processor time of a process and all its threads, exited ones included, in steps of 10 ms.
pub(crate) fn whole_cpu(pid: u32) -> Option<Duration> {
    stat_cpu(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Open sockets of a process.
pub(crate) fn sockets(pid: u32) -> usize {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// Mount points below a directory, in the order of the kernel's mount table.
pub(crate) fn mounted(below: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // Directory names of a run contain no characters that the mount table escapes.
    let targets = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    targets.filter(|target| target.starts_with(below)).collect()
}

fn threads_cpu(pid: u32) -> Option<BTreeMap<u32, Duration>> {
    let mut threads = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may exit in the meantime.
        let Ok(thread) = thread else { continue };
        let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
        threads.insert(thread.file_name().to_str()?.parse().ok()?, Duration::from_nanos(nanos));
    }
    Some(threads)
}

/// Bytes of a line such as `VmRSS:     1234 kB`.
fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// User and system time of `/proc/PID/stat`: fields 14 and 15, in ticks of 10 ms.
fn stat_cpu(stat: &str) -> Option<Duration> {
    // The name in parentheses may contain spaces and parentheses.
    let behind_name = stat.rsplit_once(')')?.1;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// Bytes allocated below a directory. Files that disappear in the meantime do not count.
pub(crate) fn allocated(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        let below = if metadata.is_dir() { allocated(&entry.path()) } else { 0 };
        // st_blocks counts units of 512 bytes on every file system.
        Some(metadata.blocks() * 512 + below)
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_cpu_lines_are_parsed() {
        let status = "Name:\torlop\nVmHWM:\t  2000 kB\nVmRSS:\t  1234 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(1234 * 1024));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 3 0 0 20 0 4 0 100 1 2";
        assert_eq!(stat_cpu(stat), Some(Duration::from_millis(150)));
        assert_eq!(stat_cpu("nonsense"), None);
    }

    #[test]
    fn cpu_time_survives_thread_exit_and_id_reuse() {
        let cpu = |threads: &[(u32, u64)]| {
            Cpu(threads.iter().map(|(thread, millis)| (*thread, Duration::from_millis(*millis))).collect())
        };
        for (case, before, after, millis) in [
            ("1 the same threads", &[(1, 5), (2, 7)][..], &[(1, 6), (2, 10)][..], 4),
            ("2 one ended", &[(1, 5), (2, 700)], &[(1, 6)], 1),
            ("3 one is new", &[(1, 5)], &[(1, 5), (3, 2)], 2),
            ("4 its number was used again", &[(1, 5), (2, 700)], &[(1, 6), (2, 1)], 1),
        ] {
            assert_eq!(cpu(after).since(&cpu(before)), Duration::from_millis(millis), "{case}");
        }
    }

    #[test]
    fn own_process_reports_memory_and_cpu_time() {
        let pid = std::process::id();
        assert!(resident(pid).is_some_and(|bytes| bytes > 100_000));
        let before = Cpu::of(pid).expect("this process");
        let sum: u64 = (0..3_000_000u64).map(std::hint::black_box).sum();
        let spent = Cpu::of(pid).expect("this process").since(&before);
        assert!(sum > 0 && spent < Duration::from_secs(60), "{spent:?}");
        assert_eq!(resident(u32::MAX), None);
        assert_eq!(Cpu::of(u32::MAX), None);
        let memory = ProcessMemory::of(pid).expect("this process");
        assert!(memory.anonymous > 0 && memory.of_files() > 0, "{memory:?}");
        assert!(memory.proportional <= memory.resident, "{memory:?}");
        let wakeups = Wakeups::of(pid).expect("this process");
        assert!(wakeups.threads() > 0 && wakeups.since(&wakeups) == 0, "{wakeups:?}");
    }
}
