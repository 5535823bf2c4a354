//! The amount of work of each row. Pure.

use std::time::Duration;

use crate::args::Scale;

/// All counts, derived from the scale and the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Appends with fdatasync that measure the cost of a sync.
    pub(crate) syncs: usize,
    /// Requests of the warm-up, which are not measured.
    pub(crate) warm_up: usize,
    /// Creates with 64 in flight.
    pub(crate) creates: usize,
    /// Creates one at a time.
    pub(crate) creates_in_turn: usize,
    /// Reads of single volumes.
    pub(crate) gets: usize,
    /// Patches.
    pub(crate) patches: usize,
    /// Existing volumes for reads, lists and patches.
    pub(crate) volumes: usize,
    /// Lists of all volumes.
    pub(crate) lists: usize,
    pub(crate) watchers: usize,
    pub(crate) watched_writes: usize,
    pub(crate) watched_writes_per_second: u32,
    /// Pairs of claim and volume, one case for each number.
    pub(crate) pairs: Vec<usize>,
    /// Additional Released volumes of the last case.
    pub(crate) released: usize,
    /// Claims of a CSI StorageClass, and pods that use them.
    pub(crate) driven: usize,
    /// Pods of a node, with one volume each.
    pub(crate) mounted: usize,
    /// Moves of a pod between nodes.
    pub(crate) moves: usize,
    /// Numbers of volumes at which memory is measured, ascending. `start` starts with the last number.
    pub(crate) kept: Vec<usize>,
    /// Starts per case.
    pub(crate) starts: usize,
    /// Seconds to observe an idle server; at full scale longer than the binder's resync period of 15 s.
    pub(crate) idle_seconds: u64,
    /// Seconds to observe an idle agent; longer than the longest of its short periods, 10 s.
    pub(crate) agent_idle_seconds: u64,
    /// How long a server settles before it is measured.
    pub(crate) quiet: Duration,
    /// The size on disk counts after no file was removed for this long.
    pub(crate) calm: Duration,
    /// Updates of `disk`, and the number of objects that it updates.
    pub(crate) updates: usize,
    pub(crate) updated_objects: usize,
    /// Revisions that the server of `disk` retains.
    pub(crate) kept_revisions: usize,
    /// Rounds in which two servers alternate.
    pub(crate) rounds: usize,
}

impl Plan {
    /// The counts. `operations` is `-n`, `idle` is `--idle-seconds`; `two` is set if a second server gets the same
    /// work.
    pub(crate) fn new(scale: Scale, operations: Option<u32>, idle: Option<u32>, two: bool) -> Self {
        let mut plan = match scale {
            Scale::Small => Plan {
                syncs: 20,
                warm_up: 50,
                creates: 300,
                creates_in_turn: 50,
                gets: 500,
                patches: 300,
                volumes: 200,
                lists: 5,
                watchers: 30,
                watched_writes: 100,
                watched_writes_per_second: 100,
                pairs: vec![20, 50],
                released: 50,
                driven: 20,
                mounted: 5,
                moves: 3,
                kept: vec![100, 300],
                starts: 1,
                idle_seconds: 1,
                agent_idle_seconds: 1,
                quiet: Duration::from_millis(200),
                calm: Duration::from_secs(1),
                updates: 1_000,
                updated_objects: 50,
                kept_revisions: 200,
                rounds: 2,
            },
            Scale::Full => Plan {
                syncs: 500,
                warm_up: 2_000,
                creates: 30_000,
                creates_in_turn: 2_000,
                gets: 100_000,
                patches: 30_000,
                volumes: 5_000,
                lists: 60,
                watchers: 1_000,
                watched_writes: 4_000,
                watched_writes_per_second: 200,
                pairs: vec![1_000, 10_000],
                released: 10_000,
                driven: 1_000,
                mounted: 100,
                moves: 50,
                kept: vec![10_000, 100_000],
                starts: 3,
                idle_seconds: 16,
                agent_idle_seconds: 30,
                quiet: Duration::from_secs(2),
                calm: Duration::from_secs(5),
                updates: 200_000,
                updated_objects: 5_000,
                kept_revisions: 10_000,
                rounds: 4,
            },
        };
        if let Some(n) = operations {
            let n = n as usize;
            plan.creates = n;
            plan.creates_in_turn = n;
            plan.gets = n;
            plan.patches = n;
            plan.watched_writes = n;
            plan.pairs = vec![n];
            plan.driven = n;
            plan.mounted = n;
            plan.released = plan.released.min(n);
        }
        if let Some(seconds) = idle.map(u64::from) {
            plan.idle_seconds = seconds;
            plan.agent_idle_seconds = seconds;
        }
        if !two {
            plan.rounds = 1;
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_scale_has_the_documented_counts() {
        let plan = Plan::new(Scale::Full, None, None, false);
        assert_eq!((plan.volumes, plan.watchers, plan.watched_writes_per_second), (5_000, 1_000, 200));
        assert_eq!((plan.pairs, plan.kept), (vec![1_000, 10_000], vec![10_000, 100_000]));
        assert_eq!((plan.updates, plan.updated_objects, plan.rounds), (200_000, 5_000, 1));
    }

    #[test]
    fn operations_replace_the_counts_of_the_scale() {
        let plan = Plan::new(Scale::Small, Some(7), Some(3), true);
        assert_eq!((plan.creates, plan.gets, plan.patches, plan.pairs), (7, 7, 7, vec![7]));
        assert_eq!((plan.mounted, plan.idle_seconds, plan.agent_idle_seconds), (7, 3, 3));
        assert_eq!(plan.rounds, 2);
        assert_eq!(plan.volumes, Plan::new(Scale::Small, None, None, true).volumes);
    }
}
