//! The oracle: the simplest implementation of the contract, with one mutex and one list of all events.
//!
//! Its contents are lost when it is dropped. Tests compare the embedded store with it, so the two share only
//! the basic types and the watch hub.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::commit::check_sizes;
use crate::data_size::{DataBytes, DataLimitReached, DataSize, ValueSize};
use crate::embedded::{Retention, RetentionMarks, Sensitive};
use crate::future::BoxFuture;
use crate::guard;
use crate::memory_former::MemoryFormer;
use crate::snapshot::Index;
use crate::watch::{BATCH, Hub, Log, Page, RingLimits};
use crate::{
    CommitError, Committed, Event, Expect, Guard, Key, Kv, Op, ReadError, Record, Revision, Snapshot, Stored,
    Usage, View, WatchError, Watcher, Write,
};

/// Options of a memory store.
#[derive(Clone)]
pub struct MemoryOptions {
    /// The maximum size of a value in bytes.
    pub max_value: usize,
    /// The maximum size of all current keys and values in bytes; 0 means no limit.
    pub max_data: u64,
    /// The limits of the watch rings.
    pub rings: RingLimits,
    /// The clock that stamps the records.
    pub clock: Arc<dyn Clock>,
    /// How much history is retained.
    pub retention: Retention,
    /// The retention of sensitive records, such as Secrets.
    pub sensitive: Sensitive,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions {
            max_value: 2 << 20,
            max_data: 0,
            rings: RingLimits::default(),
            clock: Arc::new(SystemClock::default()),
            retention: Retention::default(),
            sensitive: Sensitive::default(),
        }
    }
}

/// An in-memory store.
pub struct Memory<V: View> {
    options: MemoryOptions,
    shared: Arc<Shared<V>>,
    hub: Arc<Hub<V>>,
}

struct Shared<V>(Mutex<MemoryState<V>>);

struct MemoryState<V> {
    records: Index<V>,
    /// Every event after `oldest`, preceded by those of the records that were current then.
    events: Vec<Arc<Event<V>>>,
    marks: RetentionMarks,
    former: MemoryFormer,
    head: Revision,
    oldest: Revision,
    time_ms: i64,
    closed: bool,
    data: DataSize,
}

impl<V: View> Memory<V> {
    /// Creates an empty store.
    pub fn new() -> Self {
        Memory::with(MemoryOptions::default())
    }

    /// Creates an empty store with options.
    pub fn with(options: MemoryOptions) -> Self {
        let state = MemoryState {
            records: Index::new(),
            events: Vec::new(),
            marks: RetentionMarks::default(),
            former: MemoryFormer::new(options.sensitive.clone()),
            head: Revision::ZERO,
            oldest: Revision::ZERO,
            time_ms: i64::MIN,
            closed: false,
            data: DataSize::new(0, options.max_data, Vec::new()),
        };
        Memory {
            hub: Arc::new(Hub::new(Revision::ZERO, options.rings)),
            shared: Arc::new(Shared(Mutex::new(state))),
            options,
        }
    }

    /// The state, without the former versions that are old enough to be removed.
    fn state(&self) -> MutexGuard<'_, MemoryState<V>> {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let now_ms = self.options.clock.now_ms().max(state.time_ms);
        if let Some(floor) = state.former.remove(now_ms, &mut state.events) {
            self.hub.forget(floor, |topic| state.former.sensitive().touches(topic));
        }
        guard
    }

    fn commit_now(&self, guards: &[Guard], writes: Vec<Write<V>>) -> Result<Committed<V>, CommitError<V>> {
        let mut state = self.state();
        if state.closed {
            return Err(CommitError::Closed);
        }
        check_sizes(&writes, self.options.max_value)?;
        guard::check(guards, &state.records)?;
        let time_ms = self.options.clock.now_ms().max(state.time_ms);
        let mut records = state.records.clone();
        let mut revision = state.head;
        let mut events = Vec::new();
        for Write { key, expect, op } in writes {
            let prev = records.get(&key).cloned();
            let holds = match (&op, expect) {
                (Op::Put { .. }, Expect::Absent) => prev.is_none(),
                // A delete needs an existing record.
                (Op::Delete, Expect::Absent) => false,
                (_, Expect::Revision(wanted)) => {
                    prev.as_ref().is_some_and(|prev| prev.mod_revision == wanted)
                }
            };
            if !holds {
                return Err(CommitError::Conflict { actual: state.records.get(&key).cloned(), key });
            }
            revision = revision.next();
            let record = match op {
                Op::Put { value, view } => {
                    let create_revision = prev.as_ref().map_or(revision, |prev| prev.create_revision);
                    let key = key.clone();
                    Some(Arc::new(Record {
                        key,
                        value,
                        stored: Stored::Plain,
                        view,
                        create_revision,
                        mod_revision: revision,
                        time_ms,
                    }))
                }
                Op::Delete => None,
            };
            match &record {
                Some(record) => records.insert(key.clone(), record.clone()),
                None => records.remove(&key),
            };
            events.push(Arc::new(Event { revision, key, time_ms, record, prev }));
        }
        let size = |record: &Option<Arc<Record<V>>>| record.as_ref().map(|record| ValueSize::of(record));
        let sizes: Vec<_> =
            events.iter().map(|event| (&event.key, size(&event.prev), size(&event.record))).collect();
        let too_large = |DataLimitReached { needed, limit }| CommitError::DataLimit { needed, limit };
        state.data.admit(&sizes).map_err(too_large)?;
        state.records = records;
        state.head = revision;
        state.time_ms = time_ms;
        state.events.extend(events.iter().cloned());
        for event in &events {
            state.marks.push(event.revision, time_ms, event.size());
        }
        state.former.push(&events);
        state.retain(self.options.retention);
        // Still under the lock: events are published in revision order.
        let touched = self.hub.publish(&events);
        self.hub.wake(&touched);
        Ok(Committed { events })
    }
}

impl<V: View> Default for Memory<V> {
    fn default() -> Self {
        Memory::new()
    }
}

impl<V: View> Kv<V> for Memory<V> {
    fn commit_if(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write<V>>,
    ) -> BoxFuture<'_, Result<Committed<V>, CommitError<V>>> {
        let result = self.commit_now(&guards, writes);
        Box::pin(async move { result })
    }

    fn head(&self) -> Snapshot<V> {
        let state = self.shared.lock();
        Snapshot::new(state.head, state.records.clone(), BTreeMap::new())
    }

    fn at<'a>(
        &'a self,
        revision: Revision,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Snapshot<V>, ReadError>> {
        let state = self.state();
        let result = state.former.check(prefix, revision).and_then(|()| state.at(revision, prefix));
        Box::pin(async move { result })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher<V>, WatchError> {
        drop(self.state());
        Watcher::start(&self.hub, self.shared.clone(), prefix, after)
    }

    fn history_before<'a>(
        &'a self,
        key: &'a Key,
        before: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<Event<V>>>, ReadError>> {
        let state = self.state();
        let earlier = state.events.iter().rev().filter(|event| event.revision < before);
        let events = earlier.filter(|event| event.key == *key).take(limit).cloned().collect();
        Box::pin(async move { Ok(events) })
    }

    fn events(&self, after: Revision, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Event<V>>>, ReadError>> {
        let result = self.state().events_after(after, limit.min(BATCH));
        Box::pin(async move { result })
    }

    fn time_of(&self, revision: Revision) -> BoxFuture<'_, Result<Option<i64>, ReadError>> {
        let result = self.shared.lock().time_of(revision);
        Box::pin(async move { result })
    }

    fn reached(&self, revision: Revision) -> BoxFuture<'_, ()> {
        Box::pin(self.hub.reached(revision))
    }

    fn compact(&self, before: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        let result = self.shared.lock().compact(before);
        Box::pin(async move { result })
    }

    fn oldest(&self) -> Revision {
        self.shared.lock().oldest
    }

    fn former_floor(&self) -> Revision {
        let state = self.shared.lock();
        state.former.continuity(self.options.clock.now_ms().max(state.time_ms))
    }

    fn poisoned(&self) -> Option<String> {
        None
    }

    fn now_ms(&self) -> i64 {
        self.options.clock.now_ms()
    }

    fn size_on_disk(&self) -> u64 {
        0
    }

    fn data(&self) -> DataBytes {
        self.shared.lock().data.published().get()
    }

    fn usage(&self) -> Usage {
        Usage { data: self.shared.lock().data.bytes(), max_data: self.options.max_data, ..Usage::default() }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.shared.lock().closed = true;
        self.hub.close();
        Box::pin(async {})
    }
}

impl<V> Shared<V> {
    fn lock(&self) -> MutexGuard<'_, MemoryState<V>> {
        self.0.lock()
    }
}

impl<V: View> Log<V> for Shared<V> {
    fn page<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<V>, ReadError>> {
        let state = self.lock();
        let oldest = state.oldest;
        let result = if after < oldest {
            Err(ReadError::Expired { wanted: after, oldest })
        } else if let Err(error) = state.former.check(prefix, after) {
            Err(error)
        } else {
            let later = state.events.iter().filter(|event| event.revision > after && event.revision <= upto);
            let matching = later.filter(|event| event.key.as_str().starts_with(prefix));
            let events: Vec<_> = matching.take(limit).cloned().collect();
            let cut = events.last().filter(|_| events.len() == limit);
            let scanned = cut.map_or(upto, |last| last.revision);
            Ok(Page { events, scanned })
        };
        Box::pin(async move { result })
    }

    fn oldest(&self) -> Revision {
        self.lock().oldest
    }
}

impl<V> MemoryState<V> {
    /// Whether the state at a revision is retained.
    fn check(&self, wanted: Revision) -> Result<(), ReadError> {
        if wanted > self.head {
            return Err(ReadError::Future { wanted, head: self.head });
        }
        if wanted < self.oldest {
            return Err(ReadError::Expired { wanted, oldest: self.oldest });
        }
        Ok(())
    }

    fn events_after(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Event<V>>>, ReadError> {
        self.check(after)?;
        let start = self.events.partition_point(|event| event.revision <= after);
        Ok(self.events.iter().skip(start).take(limit).cloned().collect())
    }

    fn time_of(&self, revision: Revision) -> Result<Option<i64>, ReadError> {
        self.check(revision)?;
        let at = self.events.binary_search_by_key(&revision, |event| event.revision).ok();
        let event = at.and_then(|at| self.events.get(at));
        // A deletion at the oldest revision is not retained.
        let known = event.filter(|event| revision > self.oldest || event.record.is_some());
        Ok(known.map(|event| event.time_ms))
    }

    /// Replays all events up to the revision.
    fn at(&self, revision: Revision, prefix: &str) -> Result<Snapshot<V>, ReadError> {
        self.check(revision)?;
        let mut index = Index::new();
        for event in &self.events {
            if event.revision > revision || !event.key.as_str().starts_with(prefix) {
                continue;
            }
            match &event.record {
                Some(record) => index.insert(event.key.clone(), record.clone()),
                None => index.remove(&event.key),
            };
        }
        Ok(Snapshot::new(revision, index, BTreeMap::new()))
    }

    /// Forgets old history. A compaction visits all events, so it waits until it drops a share of them, or much memory.
    fn retain(&mut self, retention: Retention) {
        let Some(target) = self.marks.target(self.time_ms, retention) else { return };
        let dropped = target.0.saturating_sub(self.oldest.0);
        let is_large = self.marks.bytes() > retention.bytes.saturating_mul(2);
        if !is_large && dropped < (self.events.len() / 4) as u64 {
            return;
        }
        // The target is not above the head.
        let _ = self.compact(target);
        self.marks.forget(target);
    }

    fn compact(&mut self, before: Revision) -> Result<(), ReadError> {
        if before > self.head {
            return Err(ReadError::Future { wanted: before, head: self.head });
        }
        if before <= self.oldest {
            return Ok(());
        }
        let mut last: HashMap<Key, Revision> = HashMap::new();
        for event in self.events.iter().filter(|event| event.revision <= before) {
            last.insert(event.key.clone(), event.revision);
        }
        let mut kept = Vec::new();
        for event in &self.events {
            if event.revision > before {
                kept.push(event.clone());
                continue;
            }
            // The replaced record is dropped; the event stays only if its record was current.
            let Some(record) = &event.record else { continue };
            if last.get(&event.key) == Some(&event.revision) {
                kept.push(Arc::new(Event {
                    revision: event.revision,
                    key: event.key.clone(),
                    time_ms: event.time_ms,
                    record: Some(record.clone()),
                    prev: None,
                }));
            }
        }
        self.events = kept;
        self.oldest = before;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;

    /// A store after `count` writes of one key, with history of about 10 values.
    async fn rewritten(count: usize, value: usize) -> Memory<()> {
        let retention =
            Retention { age: Duration::from_secs(3600), revisions: 10_000, bytes: 10 * value as u64 };
        let store = Memory::with(MemoryOptions { retention, ..MemoryOptions::default() });
        let mut expect = Expect::Absent;
        for _ in 0..count {
            let op = Op::Put { value: vec![0; value].into(), view: () };
            let write = Write { key: Key::from("/r/p/a"), expect, op };
            expect = Expect::Revision(store.commit(vec![write]).await.unwrap().revision());
        }
        store
    }

    #[tokio::test]
    async fn former_versions_of_sensitive_records_are_removed() {
        let clock = Arc::new(crate::ManualClock::new(0));
        let sensitive = Sensitive { prefixes: vec!["/r/p/".to_owned()], ..Sensitive::default() };
        let store =
            Memory::with(MemoryOptions { clock: clock.clone(), sensitive, ..MemoryOptions::default() });
        let write = |key: &str, expect, op| vec![Write { key: Key::from(key), expect, op }];
        let op = |value: &'static str| Op::Put { value: value.into(), view: () };
        store.commit(write("/r/p/a", Expect::Absent, op("one"))).await.unwrap();
        store.commit(write("/r/q/a", Expect::Absent, op("other"))).await.unwrap();
        store.commit(write("/r/p/a", Expect::Revision(Revision(1)), op("two"))).await.unwrap();
        store.commit(write("/r/p/b", Expect::Absent, op("current"))).await.unwrap();
        assert_eq!(store.at(Revision(1), "/r/p/").await.unwrap().get("/r/p/a").unwrap().value, "one");
        clock.set(60_000);
        assert!(matches!(
            store.at(Revision(1), "/r/p/").await,
            Err(ReadError::Expired { oldest: Revision(3), .. })
        ));
        let late = store.watch("/r/p/", Revision(1)).unwrap().next().await;
        assert!(matches!(late, Err(WatchError::Expired { .. })));
        let state = store.at(Revision(2), "").await.unwrap();
        assert!(state.get("/r/p/a").unwrap().value.is_empty());
        let values: Vec<_> = store.events(Revision::ZERO, 9).await.unwrap();
        let values: Vec<_> =
            values.iter().map(|event| event.record.as_ref().unwrap().value.clone()).collect();
        assert_eq!(values, ["", "other", "two", "current"]);
    }

    #[tokio::test]
    async fn history_is_bounded() {
        let store = rewritten(1000, 10_000).await;
        let kept = store.shared.lock().events.len();
        assert!(kept < 200, "{kept} of 1000 versions are kept");
        let oldest = store.oldest();
        assert!(store.at(oldest, "/r/p/").await.is_ok());
        assert!(store.at(Revision(oldest.0 - 1), "/r/p/").await.is_err());
        assert_eq!(store.head().range("/r/", None).count(), 1);
    }
}
