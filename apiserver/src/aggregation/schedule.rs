//! The times at which the servers are checked. Pure.
//!
//! A server is checked when it is new, when it changes, and every 30 seconds. Each has times of its own, so that a server that does not
//! respond delays no other. Frequent changes of one server delay only its own checks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_store::Key;
use tokio::time::Instant;

/// The time between two checks of a server (upstream: the resync of the controller).
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(30);
/// The least time between two checks of a server. It doubles with each further change, up to [`CHECK_EVERY`].
const SPACING: Duration = Duration::from_secs(1);
/// Maximum number of servers that are checked at the same time.
const AT_ONCE: usize = 32;

/// When the server of each APIService is checked.
#[derive(Default)]
pub(super) struct Schedule {
    servers: BTreeMap<Key, CheckTimes>,
    /// Checks in progress, also of servers that have been removed in the meantime.
    running: BTreeSet<Key>,
}

struct CheckTimes {
    due: Instant,
    /// Whether the server is new or has changed since its last check began.
    has_changed: bool,
    /// When the last check began.
    last: Option<Instant>,
    /// The least time between the last check and the next one.
    spacing: Duration,
}

impl Schedule {
    /// Requests a check of a server that is new or has changed.
    pub(super) fn changed(&mut self, key: &Key, now: Instant) {
        let new = || CheckTimes { due: now, has_changed: true, last: None, spacing: SPACING };
        let times = self.servers.entry(key.clone()).or_insert_with(new);
        let earliest = times.last.map_or(now, |last| last + times.spacing);
        times.due = times.due.min(earliest.max(now));
        times.has_changed = true;
    }

    /// Forgets a server.
    pub(super) fn remove(&mut self, key: &Key) {
        self.servers.remove(key);
    }

    /// The servers whose checks begin now: new and changed ones first, then those that have waited longest. None of them is checked a
    /// second time before [`Schedule::finished`].
    pub(super) fn start(&mut self, now: Instant) -> Vec<Key> {
        let is_due = |key: &Key, times: &CheckTimes| times.due <= now && !self.running.contains(key);
        let mut due: Vec<(bool, Instant, Key)> = self
            .servers
            .iter()
            .filter(|(key, times)| is_due(key, times))
            .map(|(key, times)| (!times.has_changed, times.due, key.clone()))
            .collect();
        due.sort();
        due.truncate(AT_ONCE.saturating_sub(self.running.len()));
        let keys: Vec<Key> = due.into_iter().map(|(_, _, key)| key).collect();
        for key in &keys {
            if let Some(times) = self.servers.get_mut(key) {
                times.begin(now);
            }
            self.running.insert(key.clone());
        }
        keys
    }

    /// The check of a server has ended.
    pub(super) fn finished(&mut self, key: &Key) {
        self.running.remove(key);
    }

    /// The time of the next check; `None` if there is none before another check ends.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.running.len() >= AT_ONCE {
            return None;
        }
        let waiting = self.servers.iter().filter(|(key, _)| !self.running.contains(*key));
        waiting.map(|(_, times)| times.due).min()
    }
}

impl CheckTimes {
    fn begin(&mut self, now: Instant) {
        // A server whose changes have ceased is checked soon after its next change.
        let is_frequent = self.has_changed && self.last.is_some_and(|last| now < last + self.spacing * 2);
        self.spacing = if is_frequent { (self.spacing * 2).min(CHECK_EVERY) } else { SPACING };
        self.has_changed = false;
        self.last = Some(now);
        self.due = now + CHECK_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(format!("/registry/apiregistration.k8s.io/apiservices/{name}"))
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().filter_map(|key| key.as_str().rsplit('/').next()).collect()
    }

    /// The seconds at which a server is checked that changes at these times, if each check takes 100 ms.
    fn checks(changes_ms: &[u64], until_s: u64) -> Vec<u64> {
        let start = Instant::now();
        let (mut schedule, mut checks) = (Schedule::default(), Vec::new());
        for ms in (0..until_s * 1000).step_by(100) {
            let now = start + Duration::from_millis(ms);
            schedule.finished(&key("a"));
            if changes_ms.contains(&ms) {
                schedule.changed(&key("a"), now);
            }
            checks.extend(schedule.start(now).iter().map(|_| ms / 1000));
        }
        checks
    }

    #[test]
    fn checks_follow_changes_and_the_timer() {
        let always: Vec<u64> = (0..90_000).step_by(100).collect();
        for (case, changes, until, want) in [
            ("1 no change", vec![0], 95, vec![0, 30, 60, 90]),
            ("2 one change later", vec![0, 10_000], 75, vec![0, 10, 40, 70]),
            ("3 several changes within a second", vec![0, 200, 300, 900], 35, vec![0, 1, 31]),
            ("4 changes without end", always, 90, vec![0, 1, 3, 7, 15, 31, 61]),
            ("5 a change after frequent ones", vec![0, 1_000, 3_000, 40_000], 45, vec![0, 1, 3, 33, 40]),
        ] {
            assert_eq!(checks(&changes, until), want, "{case}");
        }
    }

    #[test]
    fn new_and_changed_servers_are_first() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        for n in 0..AT_ONCE + 8 {
            schedule.changed(&key(&format!("hangs-{n:02}")), now);
        }
        let started = schedule.start(now);
        assert_eq!(started.len(), AT_ONCE);
        assert_eq!(schedule.next(), None, "no check begins before another ends");
        let later = now + CHECK_EVERY;
        schedule.changed(&key("new"), later);
        schedule.changed(&started[1], later);
        assert!(schedule.start(later).is_empty());
        for key in &started[..10] {
            schedule.finished(key);
        }
        assert_eq!(schedule.next(), Some(now));
        let next = schedule.start(later);
        let want: Vec<String> = (AT_ONCE..AT_ONCE + 8).map(|n| format!("hangs-{n}")).collect();
        let want: Vec<&str> = want.iter().map(String::as_str).chain([names(&started)[1], "new"]).collect();
        assert_eq!(names(&next), want, "not those that are due by the timer");
    }

    #[test]
    fn change_during_a_check_leads_to_another_check() {
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut schedule = Schedule::default();
        schedule.changed(&key("a"), now);
        assert_eq!(names(&schedule.start(now)), ["a"]);
        schedule.changed(&key("a"), at(100));
        assert_eq!(schedule.next(), None);
        assert!(schedule.start(at(4_000)).is_empty());
        schedule.finished(&key("a"));
        assert_eq!(schedule.next(), Some(at(1_000)));
        assert_eq!(names(&schedule.start(at(5_000))), ["a"]);
    }

    #[test]
    fn removed_server_is_not_checked() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        for name in ["a", "b"] {
            schedule.changed(&key(name), now);
        }
        schedule.remove(&key("a"));
        assert_eq!(names(&schedule.start(now)), ["b"]);
        schedule.remove(&key("b"));
        // It is registered again while the check of its predecessor is in progress.
        schedule.changed(&key("b"), now);
        assert!(schedule.start(now).is_empty());
        schedule.finished(&key("b"));
        assert_eq!(names(&schedule.start(now)), ["b"]);
    }
}
