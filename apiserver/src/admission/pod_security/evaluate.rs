//! Runs the checks of a level, as of a version.
//!
//! Upstream: `policy/registry.go`, `policy/checks.go`.

use serde_json::Value;

use super::pod::{Pod, Violation};
use super::policy::{Level, LevelVersion};
use super::{baseline, restricted};

/// The minor version of the newest checks.
const NEWEST: u32 = 35;

type Check = fn(&Pod<'_>, u32) -> Option<Violation>;

/// The checks of `baseline`, in the order of upstream's identifiers, and the minor version since which a check of
/// `restricted` replaces them there.
const BASELINE: [(Check, Option<u32>); 12] = [
    (baseline::app_armor, None),
    (baseline::capabilities, Some(22)),
    (baseline::host_namespaces, None),
    (baseline::host_paths, Some(0)),
    (baseline::host_ports, None),
    (baseline::host_probes, None),
    (baseline::privileged, None),
    (baseline::proc_mount, Some(35)),
    (baseline::se_linux, None),
    (baseline::seccomp, Some(19)),
    (baseline::sysctls, None),
    (baseline::host_process, None),
];

/// The further checks of `restricted`, and the minor version since which each exists.
const RESTRICTED: [(Check, u32); 7] = [
    (restricted::escalation, 8),
    (restricted::capabilities, 22),
    (baseline::proc_mount_always, 35),
    (restricted::volumes, 0),
    (restricted::non_root, 0),
    (restricted::root_user, 23),
    (restricted::seccomp_required, 19),
];

/// Returns the violations of a pod or a template.
pub(super) fn evaluate(policy: LevelVersion, pod: &Value) -> Vec<Violation> {
    let minor = policy.version.map_or(NEWEST, |minor| minor.min(NEWEST));
    let is_restricted = match policy.level {
        Level::Privileged => return Vec::new(),
        Level::Baseline => false,
        Level::Restricted => true,
    };
    let pod = Pod(pod);
    let replaced = |since: &Option<u32>| is_restricted && since.is_some_and(|since| since <= minor);
    let first = BASELINE.iter().filter(|(_, since)| !replaced(since)).map(|(check, _)| check);
    let second =
        RESTRICTED.iter().filter(|(_, since)| is_restricted && *since <= minor).map(|(check, _)| check);
    first.chain(second).filter_map(|check| check(&pod, minor)).collect()
}

/// The reasons of violations.
pub(super) fn reasons(violations: &[Violation]) -> String {
    let reasons: Vec<&str> = violations.iter().map(|one| one.reason.as_str()).collect();
    reasons.join(", ")
}

/// The reasons of violations, with details.
pub(super) fn details(violations: &[Violation]) -> String {
    let shown: Vec<String> = violations
        .iter()
        .map(
            |Violation { reason, detail }| {
                if detail.is_empty() { reason.clone() } else { format!("{reason} ({detail})") }
            },
        )
        .collect();
    shown.join(", ")
}
