//! Removes the former versions of sensitive records from a store in memory.

use std::sync::Arc;

use crate::embedded::{FormerMarks, Sensitive};
use crate::{Event, ReadError, Revision, View};

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
        for event in events.iter().filter(|event| self.sensitive.makes_former(event)) {
            self.marks.push(event.revision, event.time_ms);
        }
    }

    /// Whether the state below a prefix at a revision is readable.
    pub(crate) fn check(&self, prefix: &str, wanted: Revision) -> Result<(), ReadError> {
        if wanted < self.floor && self.sensitive.contains(prefix) {
            return Err(ReadError::Expired { wanted, oldest: self.floor });
        }
        Ok(())
    }

    /// The newest event that replaced or deleted a version at least [`CONTINUITY`](crate::CONTINUITY) ago.
    pub(crate) fn continuity(&self, now_ms: i64) -> Revision {
        self.marks.continuity(now_ms, self.floor)
    }

    /// Removes the versions that are old enough from the events. Returns the new floor if there are any.
    pub(crate) fn remove<V: View>(&mut self, now_ms: i64, events: &mut [Arc<Event<V>>]) -> Option<Revision> {
        let floor = self.marks.target(now_ms, self.sensitive.age_ms())?;
        let made_former: Vec<Revision> = self.marks.through(floor).collect();
        self.marks.forget(floor);
        self.floor = floor;
        for revision in made_former {
            self.erase(revision, events);
        }
        Some(floor)
    }

    /// Removes the version that an event has made a former one: from the event, and from the one that wrote it.
    fn erase<V: View>(&self, revision: Revision, events: &mut [Arc<Event<V>>]) {
        let find = |events: &[Arc<Event<V>>], revision| {
            events.binary_search_by_key(&revision, |event| event.revision).ok()
        };
        // Compacted events contain no former version.
        let Some(at) = find(events, revision) else { return };
        let Event { revision, ref key, time_ms, ref record, ref prev } = *events[at];
        let Some(prev) = prev else { return };
        let (former, left) = (prev.mod_revision, self.sensitive.erased(prev));
        let (key, record, prev) = (key.clone(), record.clone(), Some(left.clone()));
        events[at] = Arc::new(Event { revision, key, time_ms, record, prev });
        if let Some(at) = find(events, former) {
            let Event { revision, ref key, time_ms, ref prev, .. } = *events[at];
            let (key, prev) = (key.clone(), prev.clone());
            events[at] = Arc::new(Event { revision, key, time_ms, record: Some(left), prev });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::embedded::Redact;
    use crate::{Key, Record, Stored};

    #[test]
    fn each_former_version_is_erased_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let redact = Redact(Arc::new(move |_: &Key, value: &bytes::Bytes| {
            assert!(value.starts_with(b"value"), "what remains is not erased again");
            counted.fetch_add(1, Ordering::SeqCst);
            Some(bytes::Bytes::from_static(b"rest"))
        }));
        let prefixes = vec!["/r/p/".to_owned()];
        let sensitive = Sensitive { prefixes, redact, age: Duration::from_secs(60), ..Sensitive::default() };
        let mut former = MemoryFormer::new(sensitive);
        let (mut events, mut prev) = (Vec::new(), None);
        for revision in 1..=100 {
            let record = Arc::new(Record {
                key: Key::from("/r/p/a"),
                value: format!("value {revision}").into(),
                stored: Stored::Plain,
                view: (),
                create_revision: Revision(1),
                mod_revision: Revision(revision),
                time_ms: 0,
            });
            let (key, time_ms) = (Key::from("/r/p/a"), revision as i64 * 1000);
            let record = Some(record);
            let event = Event { revision: Revision(revision), key, time_ms, record: record.clone(), prev };
            events.push(Arc::new(event));
            prev = record;
        }
        former.push(&events);
        for revision in 2..=100_u64 {
            let now_ms = revision as i64 * 1000 + 60_000;
            assert_eq!(former.remove(now_ms, &mut events), Some(Revision(revision)));
            assert_eq!(calls.load(Ordering::SeqCst) as u64, revision - 1);
        }
        let values = |record: &Option<Arc<Record<()>>>| record.as_ref().map(|record| record.value.clone());
        let (newest, older) = events.split_last().unwrap();
        assert_eq!(values(&newest.record).unwrap(), "value 100");
        assert!(older.iter().all(|event| values(&event.record).unwrap() == "rest"));
        assert!(events.iter().skip(1).all(|event| values(&event.prev).unwrap() == "rest"));
    }
}
