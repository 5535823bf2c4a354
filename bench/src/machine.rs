//! A description of the machine. Every result includes it, because figures depend on it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use crate::error::BenchError;
use crate::samples::Samples;

/// Bytes that one measured sync appends: about as many as the create of a volume.
const APPEND: usize = 2048;

/// The machine that produced the figures.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu_model: String,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: FileSystem,
    pub(crate) sync: Sync,
}

/// The file system of the servers' data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// `ext4`, `xfs`, `tmpfs` ...
    pub(crate) kind: String,
    /// The mounted device.
    pub(crate) source: String,
}

/// Duration of one append of 2 KiB with fdatasync there, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Machine {
    /// Describes the machine, and measures the disk below `dir` with `syncs` syncs.
    pub(crate) fn look(dir: &Path, syncs: usize) -> Result<Self, BenchError> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        Ok(Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: cpu_model(&read("/proc/cpuinfo")),
            memory_bytes: memory(&read("/proc/meminfo")),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            file_system: file_system(&read("/proc/self/mountinfo"), &dir),
            sync: sync_cost(&dir, syncs)?,
        })
    }

    /// A description in one line.
    pub(crate) fn words(&self) -> String {
        format!(
            "{} cores, {}, {:.1} GB, {}; {} ({}): an append of 2 KiB with fdatasync takes {:.0} µs (p50; p99 {:.0} µs)",
            self.cores,
            self.cpu_model,
            self.memory_bytes as f64 / 1e9,
            self.kernel,
            self.file_system.kind,
            self.file_system.source,
            self.sync.p50_us,
            self.sync.p99_us
        )
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let field = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    // ARM kernels report no model name.
    field("model name").or_else(|| field("CPU part")).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kilobytes = line.split_whitespace().next().and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// The mount that contains a path: the one with the longest mount point. Of several mounts at the same point,
/// the last one counts, because it covers the others.
fn file_system(mountinfo: &str, path: &Path) -> FileSystem {
    let mut best: Option<(usize, FileSystem)> = None;
    for line in mountinfo.lines() {
        // `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        // The kernel escapes spaces as octal numbers.
        let point = point.replace("\\040", " ");
        let longer = best.as_ref().is_none_or(|(length, _)| point.len() >= *length);
        if path.starts_with(&point) && longer {
            let source = after.split(' ').nth(1).unwrap_or("unknown").to_owned();
            best = Some((point.len(), FileSystem { kind: kind.to_owned(), source }));
        }
    }
    best.map_or_else(
        || FileSystem { kind: "unknown".to_owned(), source: "unknown".to_owned() },
        |(_, found)| found,
    )
}

/// Appends and syncs `times` times in a temporary file, which it removes.
pub(crate) fn sync_samples(dir: &Path, times: usize) -> Result<Samples, BenchError> {
    let path = dir.join("sync-cost");
    let failed = |error| BenchError::File { what: "cannot write", path: path.clone(), error };
    let mut file = File::create(&path).map_err(failed)?;
    let bytes = [b'x'; APPEND];
    let mut samples = Samples::with_capacity(times);
    // The first rounds also allocate the new file, so they do not count.
    for round in 0..times + 5 {
        let start = Instant::now();
        file.write_all(&bytes).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        if round >= 5 {
            samples.record(start.elapsed());
        }
    }
    drop(file);
    fs::remove_file(&path).map_err(failed)?;
    Ok(samples)
}

fn sync_cost(dir: &Path, times: usize) -> Result<Sync, BenchError> {
    let samples = sync_samples(dir, times)?;
    let [p50_us, p99_us] = samples.percentiles([50.0, 99.0]);
    Ok(Sync { p50_us, p99_us })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:20 / /tmp rw - tmpfs tmpfs rw
23 21 8:1 / /srv rw shared:1 - ext4 /dev/sda1 rw
24 21 8:2 / /srv rw shared:2 - xfs /dev/sda2 rw
25 21 8:3 / /my\\040disk rw - btrfs /dev/sdb rw
";

    #[test]
    fn path_belongs_to_the_longest_mount_point() {
        for (path, kind, source) in [
            ("/home/a", "ext4", "/dev/vda"),
            ("/tmp/x", "tmpfs", "tmpfs"),
            ("/tmpx", "ext4", "/dev/vda"),
            ("/srv/a", "xfs", "/dev/sda2"),
            ("/my disk/a", "btrfs", "/dev/sdb"),
        ] {
            let got = file_system(MOUNTS, Path::new(path));
            assert_eq!((got.kind.as_str(), got.source.as_str()), (kind, source), "{path}");
        }
        assert_eq!(file_system("", Path::new("/x")).kind, "unknown");
    }

    #[test]
    fn cpu_model_and_memory_are_parsed() {
        assert_eq!(cpu_model("processor : 0\nmodel name\t: Xeon 7\n"), "Xeon 7");
        assert_eq!(cpu_model("CPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(cpu_model(""), std::env::consts::ARCH);
        assert_eq!(memory("MemTotal:       1024 kB\nMemFree: 1 kB\n"), 1 << 20);
    }

    #[test]
    fn sync_measurement_removes_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::look(dir.path(), 3).unwrap();
        // A sync of a file system in memory may take 0 µs.
        assert!((0.0..=machine.sync.p99_us).contains(&machine.sync.p50_us));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(machine.words().contains("fdatasync"));
    }
}
