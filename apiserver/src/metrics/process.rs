//! Metrics of the process itself, with their customary Prometheus names. The values are read from `/proc` on each
//! scrape; on other systems than Linux the metrics are omitted.

use prometheus::{Counter, Gauge, Registry};

/// Ticks per second in `/proc/self/stat`; Linux always reports 100 to programs.
const TICKS: f64 = 100.0;

/// The gauges of the process.
pub(super) struct Process {
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    start: Gauge,
    open_files: Gauge,
}

/// The values of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_s: f64,
    /// Seconds since boot.
    started_s: f64,
}

impl Process {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| -> Result<Gauge, prometheus::Error> {
            let gauge = Gauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let cpu = Counter::new("process_cpu_seconds_total", "Seconds of processor time that were used.")?;
        registry.register(Box::new(cpu.clone()))?;
        Ok(Process {
            cpu,
            resident: gauge("process_resident_memory_bytes", "Bytes of memory that are held.")?,
            virtual_memory: gauge("process_virtual_memory_bytes", "Bytes of addresses that are mapped.")?,
            start: gauge(
                "process_start_time_seconds",
                "When the process was started, in seconds since 1970.",
            )?,
            open_files: gauge("process_open_fds", "Open files and connections.")?,
        })
    }

    /// Updates the gauges.
    pub(super) fn read(&self) {
        let Some(stat) = std::fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(parse) else {
            return;
        };
        self.cpu.inc_by((stat.cpu_s - self.cpu.get()).max(0.0));
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        self.resident.set(size(&status, "VmRSS:").unwrap_or_default());
        self.virtual_memory.set(size(&status, "VmSize:").unwrap_or_default());
        if let Some(boot) = std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time) {
            self.start.set(boot + stat.started_s);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_files.set(f64::from(u32::try_from(files.count()).unwrap_or(u32::MAX)));
        }
    }
}

/// The second field is a name in parentheses and may contain any character; all other fields are numbers.
fn parse(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // `fields` starts with the third field of proc(5).
    let number = |at: usize| fields.get(at - 3)?.parse::<f64>().ok();
    Some(Stat { cpu_s: (number(14)? + number(15)?) / TICKS, started_s: number(22)? / TICKS })
}

/// The value of a line of `/proc/self/status`, such as `VmRSS:  1024 kB`, in bytes.
fn size(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_spaces_and_parentheses_is_skipped() {
        let text = "12 (a) b) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 9 0 4200 8192 3 0";
        let want = Stat { cpu_s: 3.0, started_s: 42.0 };
        assert_eq!(parse(text), Some(want));
        assert_eq!(parse("12 (a) S 1"), None);
        assert_eq!(parse(""), None);
        assert_eq!(size("VmSize:\t  20 kB\nVmRSS:\t  3 kB\n", "VmRSS:"), Some(3072.0));
        assert_eq!(size("VmSize:\t  20 kB\n", "VmRSS:"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000.0));
        assert_eq!(boot_time(""), None);
    }
}
