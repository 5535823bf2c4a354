//! Removes the former versions of sensitive records from a store in memory.

use std::sync::Arc;

use crate::embedded::{FormerMarks, Sensitive};
use crate::snapshot::Index;
use crate::{Event, ReadError, Record, Revision, View};

/// The former versions of a store in memory.
pub(crate) struct MemoryFormer {
    sensitive: Sensitive,
    marks: FormerMarks,
    /// Versions that an event at or before this revision has replaced or deleted are removed.
    floor: Revision,
}

impl MemoryFormer {
    pub(crate) fn new(sensitive: Sensitive) -> Self {
        MemoryFormer { sensitive, marks: FormerMarks::default(), floor: Revision::ZERO }
    }

    pub(crate) fn sensitive(&self) -> &Sensitive {
        &self.sensitive
    }

    /// Notes new events.
    pub(crate) fn push<V>(&mut self, events: &[Arc<Event<V>>]) {
        for event in events {
            if event.prev.is_some() && self.sensitive.contains(event.key.as_str()) {
                self.marks.push(event.revision, event.time_ms);
            }
        }
    }

    /// Whether the state below a prefix at a revision is readable.
    pub(crate) fn check(&self, prefix: &str, wanted: Revision) -> Result<(), ReadError> {
        if wanted < self.floor && self.sensitive.contains(prefix) {
            return Err(ReadError::Expired { wanted, oldest: self.floor });
        }
        Ok(())
    }

    /// Removes the versions that are old enough from the events. Returns the new floor if there are any.
    pub(crate) fn remove<V: View>(
        &mut self,
        now_ms: i64,
        records: &Index<V>,
        events: &mut [Arc<Event<V>>],
    ) -> Option<Revision> {
        let floor = self.marks.target(now_ms, self.sensitive.age_ms())?;
        self.marks.forget(floor);
        self.floor = floor;
        let is_current = |record: &Record<V>| {
            records.get(&record.key).is_some_and(|current| current.mod_revision == record.mod_revision)
        };
        for event in events.iter_mut().take_while(|event| event.revision <= floor) {
            if !self.sensitive.contains(event.key.as_str()) {
                continue;
            }
            let record = event.record.as_ref().map(|record| {
                if is_current(record) { record.clone() } else { self.sensitive.erased(record) }
            });
            let prev = event.prev.as_ref().map(|record| self.sensitive.erased(record));
            let (revision, key, time_ms) = (event.revision, event.key.clone(), event.time_ms);
            *event = Arc::new(Event { revision, key, time_ms, record, prev });
        }
        Some(floor)
    }
}
