//! History retention: decides what to compact from marks along the log. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Revision;

/// How much history is retained. Current records are always retained.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Younger events are retained.
    pub age: Duration,
    /// At least this many of the newest events are retained, whatever their age.
    pub revisions: u64,
    /// Above this many bytes of keys and values, older events are compacted whatever their age and number: history
    /// gives way to the size of the store.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { age: Duration::from_secs(24 * 3600), revisions: 10_000, bytes: 256 << 20 }
    }
}

/// The number of revisions per mark.
const STEP: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct RetentionMark {
    first: Revision,
    last: Revision,
    /// When `last` was written.
    time_ms: i64,
    /// The bytes of all events up to `last`, counted from the first mark.
    total: u64,
}

/// The approximate time and size of the events of the log.
#[derive(Debug, Default)]
pub(crate) struct RetentionMarks(VecDeque<RetentionMark>);

impl RetentionMarks {
    /// Records the next event.
    pub(crate) fn push(&mut self, revision: Revision, time_ms: i64, bytes: usize) {
        let total = self.0.back().map_or(0, |mark| mark.total) + bytes as u64;
        match self.0.back_mut() {
            Some(mark) if revision.0 < mark.first.0 + STEP => {
                *mark = RetentionMark { last: revision, time_ms, total, ..*mark };
            }
            Some(_) | None => {
                self.0.push_back(RetentionMark { first: revision, last: revision, time_ms, total })
            }
        }
    }

    /// The revision to compact at, if there is anything to compact.
    pub(crate) fn target(&self, now_ms: i64, retention: Retention) -> Option<Revision> {
        let newest = self.0.back()?;
        let age_ms = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        let old = now_ms.saturating_sub(age_ms);
        let forgotten = self.0.iter().take_while(|mark| {
            let spared = mark.last.0.saturating_add(retention.revisions) > newest.last.0;
            let large = newest.total - mark.total >= retention.bytes;
            large || (!spared && mark.time_ms < old)
        });
        forgotten.last().map(|mark| mark.last)
    }

    /// The bytes of the marked events.
    pub(crate) fn bytes(&self) -> u64 {
        let Some((oldest, newest)) = self.0.front().zip(self.0.back()) else { return 0 };
        newest.total - oldest.total
    }

    /// Drops the marks of compacted events.
    pub(crate) fn forget(&mut self, oldest: Revision) {
        while self.0.len() > 1 && self.0.front().is_some_and(|mark| mark.last <= oldest) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_target_respects_age_count_and_size() {
        let keep = |age: u64, revisions, bytes| Retention { age: Duration::from_secs(age), revisions, bytes };
        // 1000 events, one per second, 10 bytes each; marks end at 64, 128, ...
        let mut marks = RetentionMarks::default();
        for n in 1..=1000 {
            marks.push(Revision(n), n as i64 * 1000, 10);
        }
        for (name, now_s, retention, wanted) in [
            ("all young", 1000, keep(10_000, 0, u64::MAX), None),
            ("by age", 1000, keep(500, 0, u64::MAX), Some(448)),
            ("all old, some spared", 9000, keep(500, 300, u64::MAX), Some(640)),
            ("all old, all spared", 9000, keep(500, 1000, u64::MAX), None),
            ("too large", 1000, keep(10_000, 0, 1000), Some(896)),
            ("too large, none spared", 1000, keep(10_000, 500, 1000), Some(896)),
        ] {
            assert_eq!(marks.target(now_s * 1000, retention), wanted.map(Revision), "{name}");
        }
        marks.forget(Revision(448));
        assert_eq!(marks.target(1_000_000, keep(500, 0, u64::MAX)), None);
        assert_eq!(RetentionMarks::default().target(0, keep(0, 0, 0)), None);
    }
}
