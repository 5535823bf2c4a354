//! The size of the current records, and its limit. All current records are in memory, so the limit also bounds the memory of the
//! store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Key, Record, Stored};

/// An update may grow by this many bytes at the limit: a deletion adds its time and its grace period to an object, and must be
/// possible.
const SLACK: u64 = 256;

/// The bytes of the keys and values of records in memory. A value that is encrypted on the disk counts with both forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataBytes {
    /// Of all current records.
    pub current: u64,
    /// Of all records that were replaced or deleted since the store was opened. Snapshots may still hold them.
    pub replaced: u64,
}

/// [`DataBytes`], readable from other threads.
#[derive(Debug, Default)]
pub(crate) struct PublishedDataBytes {
    current: AtomicU64,
    replaced: AtomicU64,
}

impl PublishedDataBytes {
    pub(crate) fn get(&self) -> DataBytes {
        DataBytes {
            current: self.current.load(Ordering::Relaxed),
            replaced: self.replaced.load(Ordering::Relaxed),
        }
    }
}

/// A commit exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataLimitReached {
    /// The size with the commit.
    pub(crate) needed: u64,
    /// The limit.
    pub(crate) limit: u64,
}

/// The size of a value in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueSize {
    value: usize,
    /// Its stored form, if that is in memory beside it.
    apart: usize,
}

impl ValueSize {
    pub(crate) fn new(value: usize, stored: &Stored) -> Self {
        ValueSize { value, apart: stored.apart() }
    }

    pub(crate) fn of<V>(record: &Record<V>) -> Self {
        ValueSize::new(record.value.len(), &record.stored)
    }

    /// The bytes on the disk.
    pub(crate) fn on_disk(self) -> usize {
        if self.apart > 0 { self.apart } else { self.value }
    }

    fn in_memory(self) -> usize {
        self.value + self.apart
    }
}

/// The size of a write's key and of its current and its new value.
pub(crate) type WriteSize<'w> = (&'w Key, Option<ValueSize>, Option<ValueSize>);

/// Counts the data, and decides which commits fit.
#[derive(Debug)]
pub(crate) struct DataSize {
    bytes: u64,
    limit: u64,
    shed_first: Vec<String>,
    alarm: Alarm,
    published: Arc<PublishedDataBytes>,
}

/// The last alarm that was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    None,
    /// Four fifths of the limit are used.
    High,
    /// Writes below the `shed_first` prefixes are refused.
    Sheds,
}

impl DataSize {
    /// Starts with data of this size. A limit of 0 means no limit.
    pub(crate) fn new(bytes: u64, limit: u64, shed_first: Vec<String>) -> Self {
        let limit = if limit == 0 { u64::MAX } else { limit };
        let mut size = DataSize { bytes, limit, shed_first, alarm: Alarm::None, published: Arc::default() };
        size.set(bytes);
        size
    }

    pub(crate) fn published(&self) -> Arc<PublishedDataBytes> {
        self.published.clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts a commit, unless it grows the data beyond the limit.
    pub(crate) fn admit(&mut self, writes: &[WriteSize<'_>]) -> Result<(), DataLimitReached> {
        let size = |key: &Key, value: &Option<ValueSize>, of: fn(ValueSize) -> usize| {
            value.map_or(0, |value| (key.as_str().len() + of(value)) as u64)
        };
        let (mut before, mut after) = (0, 0);
        // An object that is encrypted grows by what its value grows.
        let (mut shorter, mut longer) = (0, 0);
        for (key, old, new) in writes {
            before += size(key, old, ValueSize::in_memory);
            after += size(key, new, ValueSize::in_memory);
            shorter += size(key, old, ValueSize::on_disk);
            longer += size(key, new, ValueSize::on_disk);
        }
        let needed = (self.bytes + after).saturating_sub(before);
        let slack = SLACK * writes.iter().filter(|(_, old, _)| old.is_some()).count() as u64;
        let is_shed = |(key, ..): &WriteSize<'_>| {
            self.shed_first.iter().any(|prefix| key.as_str().starts_with(prefix.as_str()))
        };
        let limit = if writes.iter().all(is_shed) { self.sheds_at() } else { self.limit };
        if needed > limit && longer > shorter + slack {
            return Err(DataLimitReached { needed, limit });
        }
        self.published.replaced.fetch_add(before, Ordering::Relaxed);
        self.set(needed);
        Ok(())
    }

    /// Corrects the size after commits were taken back.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.published.current.store(bytes, Ordering::Relaxed);
        let alarm = match bytes {
            _ if bytes > self.sheds_at() => Alarm::Sheds,
            _ if bytes > self.limit / 5 * 4 => Alarm::High,
            _ => Alarm::None,
        };
        // With hysteresis: an alarm is withdrawn as a whole.
        if alarm > self.alarm {
            tracing::warn!(
                bytes,
                limit = self.limit,
                "the data of the store approaches its size limit; delete objects, or raise --store-max-bytes"
            );
            self.alarm = alarm;
        } else if bytes < self.limit / 4 * 3 && self.alarm > Alarm::None {
            tracing::info!(bytes, limit = self.limit, "the data of the store is below its size limit again");
            self.alarm = Alarm::None;
        }
    }

    /// The size above which writes below the `shed_first` prefixes are refused.
    fn sheds_at(&self) -> u64 {
        self.limit / 16 * 15
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(value: Option<usize>) -> Option<ValueSize> {
        value.map(|value| ValueSize::new(value, &Stored::Plain))
    }

    #[test]
    fn growth_beyond_the_limit_is_refused() {
        let (key, event) = (Key::new("/r/c/a"), Key::new("/r/e/a"));
        let mut size = DataSize::new(0, 16_000, vec!["/r/e/".to_owned()]);
        let key_size = 6;
        for (name, writes, wanted, bytes) in [
            ("create", vec![(&key, None, Some(14_000 - key_size))], true, 14_000),
            ("create beyond", vec![(&key, None, Some(2_001))], false, 14_000),
            ("event", vec![(&event, None, Some(1_000 - key_size))], true, 15_000),
            ("event above 15/16", vec![(&event, None, Some(1))], false, 15_000),
            ("create up to the limit", vec![(&key, None, Some(1_000 - key_size))], true, 16_000),
            ("update that does not grow", vec![(&key, Some(10), Some(10))], true, 16_000),
            ("update that grows little", vec![(&key, Some(10), Some(266))], true, 16_256),
            ("update that grows", vec![(&key, Some(10), Some(267))], false, 16_256),
            ("update that shrinks above the limit", vec![(&key, Some(100), Some(50))], true, 16_206),
            ("delete", vec![(&key, Some(6_000), None)], true, 10_200),
            ("create again", vec![(&key, None, Some(94))], true, 10_300),
        ] {
            let writes: Vec<_> =
                writes.into_iter().map(|(key, old, new)| (key, plain(old), plain(new))).collect();
            assert_eq!((size.admit(&writes).is_ok(), size.bytes()), (wanted, bytes), "{name}");
        }
        let replaced = 10 + 10 + 100 + 6_000 + 4 * key_size as u64;
        assert_eq!(size.published().get(), DataBytes { current: 10_300, replaced });
    }

    #[test]
    fn encrypted_value_counts_with_both_forms() {
        let key = Key::new("/r/c/a");
        let encrypted = |value: usize| {
            let stored = Stored::Transformed(vec![0; value + 50].into());
            Some(ValueSize::new(value, &stored))
        };
        let mut size = DataSize::new(0, 2_000, Vec::new());
        for (name, old, new, wanted, bytes) in [
            ("both forms do not fit", None, encrypted(1_000), false, 0),
            ("both fit", None, encrypted(900), true, 6 + 900 + 950),
            ("an update that grows little", encrypted(900), encrypted(1_156), true, 6 + 1_156 + 1_206),
            ("one that grows", encrypted(1_156), encrypted(1_413), false, 6 + 1_156 + 1_206),
            ("the same without encryption", encrypted(1_156), plain(Some(1_156)), true, 6 + 1_156),
        ] {
            assert_eq!((size.admit(&[(&key, old, new)]).is_ok(), size.bytes()), (wanted, bytes), "{name}");
        }
        assert_eq!(encrypted(7).map(ValueSize::on_disk), Some(57));
    }

    #[test]
    fn zero_is_no_limit() {
        let key = Key::new("/r/c/a");
        let mut size = DataSize::new(1 << 50, 0, Vec::new());
        assert_eq!(size.admit(&[(&key, None, plain(Some(1 << 40)))]), Ok(()));
    }
}
