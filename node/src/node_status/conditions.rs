//! The conditions of a Node. Pure (upstream: pkg/kubelet/nodestatus/setters.go).
//!
//! | condition | true when less is left than its threshold ([`crate::eviction`]) |
//! |---|---|
//! | MemoryPressure | memory available without swapping |
//! | DiskPressure | bytes or inodes on the file system of the agent's directory |
//! | PIDPressure | threads that can still be started |
//!
//! A condition that was true stays true for five minutes, so that a node near the threshold does not flap. A
//! condition causes no evictions: its taint keeps new pods away.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::machine::Machine;
use crate::eviction::{ThresholdValue, Thresholds};

/// Upstream: eviction-pressure-transition-period.
const HOLD: Duration = Duration::from_secs(300);

/// The resources under pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureSignals {
    /// Memory.
    pub memory: bool,
    /// Disk space or inodes.
    pub disk: bool,
    /// Threads.
    pub threads: bool,
}

impl PressureSignals {
    /// Compares a machine with the thresholds. An unknown value is no pressure.
    pub fn of(machine: &Machine, thresholds: &Thresholds) -> Self {
        let Machine { memory, free_memory, threads, max_threads, root, .. } = machine;
        let missed = |least: Option<ThresholdValue>, left, whole| {
            least.is_some_and(|least| least.is_missed(left, whole))
        };
        Self {
            memory: missed(thresholds.memory, *free_memory, *memory),
            disk: root.is_some_and(|root| {
                missed(thresholds.disk, root.free_bytes, root.bytes)
                    || missed(thresholds.inodes, root.free_inodes, root.inodes)
            }),
            threads: missed(thresholds.threads, max_threads.saturating_sub(*threads), *max_threads),
        }
    }
}

/// When each signal was last seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pressures {
    memory: Option<Instant>,
    disk: Option<Instant>,
    threads: Option<Instant>,
}

impl Pressures {
    /// Records the signals and returns the conditions that count as true now.
    pub fn observe(&mut self, signs: PressureSignals, now: Instant) -> PressureSignals {
        let hold = |last: &mut Option<Instant>, sign: bool| {
            if sign {
                *last = Some(now);
            }
            last.is_some_and(|last| now.saturating_duration_since(last) < HOLD)
        };
        PressureSignals {
            memory: hold(&mut self.memory, signs.memory),
            disk: hold(&mut self.disk, signs.disk),
            threads: hold(&mut self.threads, signs.threads),
        }
    }
}

/// The desired condition: type, value, reason, message, and the reason of the event for a change.
struct DesiredCondition {
    type_: &'static str,
    value: bool,
    reason: &'static str,
    message: String,
    event: &'static str,
}

/// All conditions of a node: those of other writers are unchanged, those of the agent have the time of this
/// check. Second, the reasons of the events for changes.
pub fn conditions(
    old: &[NodeCondition],
    signs: PressureSignals,
    problems: &[String],
    now: Timestamp,
) -> (Vec<NodeCondition>, Vec<&'static str>) {
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let (mut all, mut events) = (old.to_vec(), Vec::new());
    for wanted in wanted(signs, problems) {
        let status = if wanted.value { "True" } else { "False" };
        let known = all.iter().position(|condition| condition.type_ == wanted.type_);
        let since = known.map(|at| &all[at]).filter(|condition| condition.status == status);
        let since = since.map(|condition| condition.last_transition_time.clone());
        if since.is_none() {
            events.push(wanted.event);
        }
        let condition = NodeCondition {
            type_: wanted.type_.to_owned(),
            status: status.to_owned(),
            reason: Some(wanted.reason.to_owned()),
            message: Some(wanted.message),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: since.unwrap_or_else(|| Some(now.clone())),
        };
        match known {
            Some(at) => all[at] = condition,
            None => all.push(condition),
        }
    }
    (all, events)
}

fn wanted(signs: PressureSignals, problems: &[String]) -> [DesiredCondition; 4] {
    let pressure = |type_, value: bool, bad: [&'static str; 3], good: [&'static str; 3]| {
        let [reason, message, event] = if value { bad } else { good };
        DesiredCondition { type_, value, reason, message: message.to_owned(), event }
    };
    let ready = if problems.is_empty() {
        let message = "kubelet is posting ready status".to_owned();
        DesiredCondition { type_: "Ready", value: true, reason: "KubeletReady", message, event: "NodeReady" }
    } else {
        let message = match problems {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        DesiredCondition {
            type_: "Ready",
            value: false,
            reason: "KubeletNotReady",
            message,
            event: "NodeNotReady",
        }
    };
    [
        pressure(
            "MemoryPressure",
            signs.memory,
            [
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
                "NodeHasInsufficientMemory",
            ],
            [
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
                "NodeHasSufficientMemory",
            ],
        ),
        pressure(
            "DiskPressure",
            signs.disk,
            ["KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"],
            ["KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"],
        ),
        pressure(
            "PIDPressure",
            signs.threads,
            ["KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"],
            ["KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"],
        ),
        ready,
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::machine::DiskCapacity;
    use super::*;

    const LEAST_MEMORY: u64 = 100 << 20;

    #[test]
    fn pressure_is_detected_from_machine_values() {
        let room = DiskCapacity { bytes: 1000, free_bytes: 100, inodes: 100, free_inodes: 5 };
        let well = Machine {
            memory: 1 << 30,
            free_memory: LEAST_MEMORY,
            threads: 90,
            max_threads: 100,
            root: Some(room),
            ..Machine::default()
        };
        let none = PressureSignals::default();
        let disk = PressureSignals { disk: true, ..none };
        for (name, machine, wanted) in [
            ("well", well.clone(), none),
            ("says nothing", Machine::default(), none),
            (
                "memory",
                Machine { free_memory: LEAST_MEMORY - 1, ..well.clone() },
                PressureSignals { memory: true, ..none },
            ),
            ("threads", Machine { threads: 91, ..well.clone() }, PressureSignals { threads: true, ..none }),
            ("bytes", Machine { root: Some(DiskCapacity { free_bytes: 99, ..room }), ..well.clone() }, disk),
            ("inodes", Machine { root: Some(DiskCapacity { free_inodes: 4, ..room }), ..well.clone() }, disk),
            (
                "no bound of inodes",
                Machine { root: Some(DiskCapacity { inodes: 0, free_inodes: 0, ..room }), ..well },
                none,
            ),
        ] {
            assert_eq!(PressureSignals::of(&machine, &Thresholds::usual()), wanted, "{name}");
            assert_eq!(
                PressureSignals::of(&machine, &Thresholds::default()),
                none,
                "{name}, and nothing is asked"
            );
        }
    }

    #[test]
    fn pressure_lasts_for_five_minutes() {
        let (mut pressures, began) = (Pressures::default(), Instant::now());
        let (disk, none) =
            (PressureSignals { disk: true, ..PressureSignals::default() }, PressureSignals::default());
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut seen = |signs, seconds| pressures.observe(signs, at(seconds));
        assert_eq!(
            [seen(none, 0), seen(disk, 10), seen(none, 309), seen(none, 310)],
            [none, disk, disk, none]
        );
    }

    fn time(text: &str) -> Option<Time> {
        Some(Time(text.parse().unwrap()))
    }

    #[test]
    fn first_conditions_of_a_node() {
        let now = "2026-01-01T00:00:07.9Z".parse().unwrap();
        let (found, events) = conditions(&[], PressureSignals::default(), &[], now);
        let line = |c: &NodeCondition| {
            format!("{} {} {} {}", c.type_, c.status, c.reason.as_ref().unwrap(), c.message.as_ref().unwrap())
        };
        assert_eq!(
            found.iter().map(line).collect::<Vec<_>>(),
            [
                "MemoryPressure False KubeletHasSufficientMemory kubelet has sufficient memory available",
                "DiskPressure False KubeletHasNoDiskPressure kubelet has no disk pressure",
                "PIDPressure False KubeletHasSufficientPID kubelet has sufficient PID available",
                "Ready True KubeletReady kubelet is posting ready status",
            ]
        );
        assert_eq!(
            events,
            ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
        );
        assert!(found.iter().all(|c| c.last_heartbeat_time == time("2026-01-01T00:00:07Z")));
        assert!(found.iter().all(|c| c.last_transition_time == time("2026-01-01T00:00:07Z")));
    }

    #[test]
    fn later_conditions_retain_unchanged_transition_times() {
        let (mut old, _) =
            conditions(&[], PressureSignals::default(), &[], "2026-01-01T00:00:00Z".parse().unwrap());
        let network = NodeCondition {
            type_: "NetworkUnavailable".into(),
            status: "False".into(),
            ..NodeCondition::default()
        };
        old.insert(1, network.clone());
        old[4].status = "Unknown".to_owned();
        let problems = ["the disk does not answer".to_owned(), "and so on".to_owned()];
        let later = "2026-01-01T00:05:00Z".parse().unwrap();
        let (found, events) =
            conditions(&old, PressureSignals { disk: true, ..PressureSignals::default() }, &problems, later);
        assert_eq!(events, ["NodeHasDiskPressure", "NodeNotReady"]);
        assert_eq!(found[1], network, "not ours");
        let ready = &found[4];
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("KubeletNotReady")));
        assert_eq!(ready.message.as_deref(), Some("[the disk does not answer, and so on]"));
        assert_eq!(ready.last_transition_time, time("2026-01-01T00:05:00Z"));
        let memory = &found[0];
        assert_eq!(memory.last_transition_time, time("2026-01-01T00:00:00Z"), "it is as it was");
        assert_eq!(memory.last_heartbeat_time, time("2026-01-01T00:05:00Z"));
        let (found, events) = conditions(&found, PressureSignals::default(), &problems[..1], later);
        assert_eq!(events, ["NodeHasNoDiskPressure"]);
        assert_eq!(found[4].message.as_deref(), Some("the disk does not answer"));
    }
}
