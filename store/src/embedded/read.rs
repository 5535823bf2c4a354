//! Reading the log: the backlog and the served copy as one sequence of events.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::backlog::Backlog;
use super::former::FormerVersions;
use super::frame::StoreId;
use super::rows::{self, CurrentRow, LogRow};
use super::sled::{Served, ServedError};
use super::slot::Slot;
use crate::commit::{Head, Published};
use crate::future::BoxFuture;
use crate::transform::Transform;
use crate::watch::{BATCH, BATCH_BYTES, Log, Page};
use crate::{Event, Key, MemoryBudget, ReadError, Record, ReservedMemory, Revision, Snapshot, View};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Semaphore;

/// The number of events that are read for one page, whether they match or not, so that a reader that has gone is
/// noticed.
const PAGE_ROWS: usize = 10_000;
/// The bytes of values after which a part of a key's history ends.
const HISTORY_BYTES: usize = 8 << 20;
/// The number of concurrent reads of the log from the disk.
pub(crate) const LOG_READS: usize = 4;
/// The memory of an entry of an overlay besides its key and value, bytes.
const OVERLAY_ENTRY: usize = 256;

/// The events of the served copy from one revision to another, both inclusive, in order.
pub(crate) fn log(
    served: &Served,
    store: StoreId,
    from: Revision,
    to: Revision,
) -> impl Iterator<Item = Result<LogRow, ServedError>> + use<> {
    let mut rows = served.range(&rows::log_key(from, 0), &rows::log_key(to.next(), 0)).peekable();
    std::iter::from_fn(move || {
        let (key, first) = match rows.next()? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        let Some((revision, 0)) = rows::parse_log_key(&key) else {
            return Some(Err(format!("a row of the log is named {key:?}", key = &*key).into()));
        };
        let next_chunk = |key: &[u8]| matches!(rows::parse_log_key(key), Some((at, _)) if at == revision);
        if !matches!(rows.peek(), Some(Ok((key, _))) if next_chunk(key)) {
            return Some(rows::decode_log(store, revision, &first).map_err(Into::into));
        }
        let mut body = first.to_vec();
        while let Some(Ok((_, chunk))) = rows.next_if(|row| matches!(row, Ok((key, _)) if next_chunk(key))) {
            body.extend_from_slice(&chunk);
        }
        Some(rows::decode_log(store, revision, &body).map_err(Into::into))
    })
}

/// One event of the served copy.
pub(crate) fn log_row(
    served: &Served,
    store: StoreId,
    revision: Revision,
) -> Result<Option<LogRow>, ServedError> {
    log(served, store, revision, revision).next().transpose()
}

/// The state for reading history.
pub(crate) struct Past<V> {
    pub(crate) published: Arc<Published<V>>,
    pub(crate) backlog: Backlog<V>,
    pub(crate) served: Slot,
    pub(crate) store: StoreId,
    pub(crate) oldest: AtomicU64,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) transform: Transform,
    pub(crate) former: FormerVersions,
    /// One permit for each concurrent read of the log.
    pub(crate) log_reads: Arc<Semaphore>,
}

impl<V: View> Past<V> {
    pub(crate) fn oldest(&self) -> Revision {
        Revision(self.oldest.load(Ordering::SeqCst))
    }

    fn served(&self) -> Result<Arc<Served>, ReadError> {
        self.served.get().map_err(|why| ReadError::Damaged(why.into()))
    }

    fn check(&self, wanted: Revision) -> Result<(), ReadError> {
        let oldest = self.oldest();
        if wanted < oldest { Err(ReadError::Expired { wanted, oldest }) } else { Ok(()) }
    }

    /// The events below a prefix in `(after, upto]`, at most `limit`. A page from the disk also ends after
    /// [`BATCH_BYTES`] or [`PAGE_ROWS`], possibly without an event.
    pub(crate) fn page(
        &self,
        prefix: &str,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<Page<V>, ReadError> {
        let check = || self.check(after).and_then(|()| self.former.check(prefix, after));
        check()?;
        let page = self.try_page(prefix, after, upto, limit);
        // The events are complete only if no compaction ran meanwhile.
        check()?;
        page
    }

    fn try_page(
        &self,
        prefix: &str,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<Page<V>, ReadError> {
        let matches = |key: &Key| key.as_str().starts_with(prefix);
        if let Some(events) = self.backlog.since(after, upto, limit, matches) {
            let cut = events.last().filter(|_| events.len() == limit);
            let scanned = cut.map_or(upto, |last| last.revision);
            let head = self.published.current();
            let events = events.into_iter().map(|event| self.former.event(&head, event)).collect();
            return Ok(Page { events, scanned });
        }
        let served = self.served()?;
        let head = self.published.current();
        let upto = upto.min(self.backlog.floor());
        let mut page = Page { events: Vec::new(), scanned: after };
        let mut records = HashMap::new();
        let (mut bytes, mut rows) = (0, 0);
        for row in log(&served, self.store, after.next(), upto) {
            let row = row.map_err(damaged)?;
            if row.revision != page.scanned.next() {
                return Err(missing(page.scanned.next()));
            }
            page.scanned = row.revision;
            rows += 1;
            if matches(&row.key) {
                let event = self.event(&served, &head, &mut records, row)?;
                bytes += values(&event);
                page.events.push(event);
            }
            if page.events.len() == limit || bytes > BATCH_BYTES || rows == PAGE_ROWS {
                return Ok(page);
            }
        }
        if page.scanned != upto {
            return Err(missing(page.scanned.next()));
        }
        Ok(page)
    }

    /// Builds an event with its new and its replaced record.
    fn event(
        &self,
        served: &Served,
        head: &Head<V>,
        records: &mut HashMap<Key, Arc<Record<V>>>,
        row: LogRow,
    ) -> Result<Arc<Event<V>>, ReadError> {
        let prev = match records.get(&row.key) {
            Some(record) if row.replaced() == Some(record.mod_revision) => Some(record.clone()),
            Some(_) | None => self.replaced(served, head, &row)?,
        };
        let (revision, key, time_ms) = (row.revision, row.key.clone(), row.time_ms);
        let record = self.record(head, row);
        match &record {
            Some(record) => records.insert(key.clone(), record.clone()),
            None => records.remove(&key),
        };
        Ok(self.former.event(head, Arc::new(Event { revision, key, time_ms, record, prev })))
    }

    /// The state below a prefix at a revision: the head, overlaid with the changes since. Ends early when it is cancelled,
    /// because the result is not needed any more.
    pub(crate) fn at(
        &self,
        revision: Revision,
        prefix: &str,
        cancelled: &AtomicBool,
    ) -> Result<Snapshot<V>, ReadError> {
        let head = self.published.current();
        if revision > head.revision {
            return Err(ReadError::Future { wanted: revision, head: head.revision });
        }
        let check = || self.check(revision).and_then(|()| self.former.check(prefix, revision));
        check()?;
        let mut overlay = Overlay { records: BTreeMap::new(), reserved: self.memory.reserve(0)? };
        if let Some(events) = self.published.hub.recent(prefix, revision, head.revision) {
            for event in events {
                overlay.insert(&event.key, || Ok(self.prev_of(&event)))?;
            }
        } else {
            let mut after = revision;
            while after < head.revision && !cancelled.load(Ordering::Relaxed) {
                after = self.overlay(&mut overlay, prefix, after, &head)?;
                // The events are complete only if no compaction ran meanwhile.
                check()?;
            }
        }
        Ok(Snapshot::new(revision, head.index.clone(), overlay.records).with_reserved(overlay.reserved))
    }

    /// Adds a part of the changes after a revision, and returns the revision up to which they are complete. Reads no value
    /// that the overlay does not need.
    fn overlay(
        &self,
        overlay: &mut Overlay<V>,
        prefix: &str,
        after: Revision,
        head: &Head<V>,
    ) -> Result<Revision, ReadError> {
        let matches = |key: &Key| key.as_str().starts_with(prefix);
        if let Some(events) = self.backlog.since(after, head.revision, BATCH, matches) {
            let cut = events.last().filter(|_| events.len() == BATCH);
            let scanned = cut.map_or(head.revision, |last| last.revision);
            for event in events {
                overlay.insert(&event.key, || Ok(self.prev_of(&event)))?;
            }
            return Ok(scanned);
        }
        let served = self.served()?;
        let upto = head.revision.min(self.backlog.floor());
        let mut scanned = after;
        for row in log(&served, self.store, after.next(), upto).take(PAGE_ROWS) {
            let row = row.map_err(damaged)?;
            if row.revision != scanned.next() {
                return Err(missing(scanned.next()));
            }
            scanned = row.revision;
            if matches(&row.key) {
                overlay.insert(&row.key, || {
                    let replaced = self.replaced(&served, head, &row)?;
                    Ok(replaced.map(|record| self.former.replaced(row.revision, record)))
                })?;
            }
        }
        if scanned == after { Err(missing(after.next())) } else { Ok(scanned) }
    }

    /// The record that an event replaced or deleted.
    fn prev_of(&self, event: &Event<V>) -> Option<Arc<Record<V>>> {
        event.prev.clone().map(|record| self.former.replaced(event.revision, record))
    }

    /// The record that an event of the served copy replaced or deleted.
    fn replaced(
        &self,
        served: &Served,
        head: &Head<V>,
        row: &LogRow,
    ) -> Result<Option<Arc<Record<V>>>, ReadError> {
        let Some(prior) = row.replaced() else { return Ok(None) };
        let found = log_row(served, self.store, prior).map_err(damaged)?;
        let found = found.ok_or_else(|| missing(prior))?;
        self.record(head, found).ok_or_else(|| missing(prior)).map(Some)
    }

    /// The record of an event, from memory when it is still current.
    fn record(&self, head: &Head<V>, row: LogRow) -> Option<Arc<Record<V>>> {
        let value = row.value?;
        if let Some(current) = head.index.get(&row.key)
            && current.mod_revision == row.revision
        {
            return Some(current.clone());
        }
        if row.is_erased {
            let (create, revision) = (row.create, row.revision);
            return Some(Arc::new(self.transform.erased_record(
                row.key,
                value,
                create,
                revision,
                row.time_ms,
            )));
        }
        Some(Arc::new(self.transform.record(row.key, value, row.create, row.revision, row.time_ms)))
    }

    /// The events of all keys after a revision: at most `limit`, and never more than a batch.
    pub(crate) fn events(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Event<V>>>, ReadError> {
        let head = self.published.current().revision;
        if after > head {
            return Err(ReadError::Future { wanted: after, head });
        }
        let limit = limit.min(BATCH);
        if limit == 0 || after == head {
            return self.check(after).map(|()| Vec::new());
        }
        // Every revision has an event, so no more of the log is read than the page needs.
        let upto = head.min(Revision(after.0.saturating_add(limit as u64)));
        self.page("", after, upto, limit).map(|page| page.events)
    }

    /// When a revision was written; `None` when it is compacted.
    pub(crate) fn time_of(&self, revision: Revision) -> Result<Option<i64>, ReadError> {
        loop {
            let head = self.published.current().revision;
            if revision > head {
                return Err(ReadError::Future { wanted: revision, head });
            }
            self.check(revision)?;
            let oldest = self.oldest();
            let time = self.time_since(revision, oldest);
            // A concurrent compaction may have removed events during the read.
            if self.oldest() == oldest {
                return time;
            }
        }
    }

    fn time_since(&self, revision: Revision, oldest: Revision) -> Result<Option<i64>, ReadError> {
        if revision == Revision::ZERO {
            return Ok(None);
        }
        // A deletion at the oldest revision is compacted, whether it is swept already or not.
        let is_known = |is_put: bool| revision > oldest || is_put;
        let before = Revision(revision.0 - 1);
        if let Some(events) = self.backlog.since(before, revision, 1, |_| true) {
            let event = events.first().ok_or_else(|| missing(revision))?;
            return Ok(is_known(event.record.is_some()).then_some(event.time_ms));
        }
        match log_row(&*self.served()?, self.store, revision).map_err(damaged)? {
            Some(row) => Ok(is_known(row.value.is_some()).then_some(row.time_ms)),
            None if revision > oldest => Err(missing(revision)),
            None => Ok(None),
        }
    }

    /// The retained events of a key before a revision, newest first. Ends early after [`HISTORY_BYTES`], with at least one event.
    pub(crate) fn history(
        &self,
        key: &Key,
        before: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event<V>>>, ReadError> {
        loop {
            let oldest = self.oldest();
            let events = self.history_since(key, before, limit, oldest);
            // A concurrent compaction may have removed events during the read.
            if self.oldest() == oldest {
                return events;
            }
        }
    }

    fn history_since(
        &self,
        key: &Key,
        before: Revision,
        limit: usize,
        oldest: Revision,
    ) -> Result<Vec<Arc<Event<V>>>, ReadError> {
        let head = self.published.current();
        let (recent, floor) = self.backlog.of_key(key, head.revision);
        let mut events = Vec::new();
        let mut bytes = 0;
        for event in recent.into_iter().rev().filter(|event| event.revision < before) {
            let more = event.revision > oldest;
            bytes += values(&event);
            push_known(&mut events, self.former.event(&head, event), oldest);
            if !more || events.len() >= limit || bytes > HISTORY_BYTES {
                events.truncate(limit);
                return Ok(events);
            }
        }
        let served = self.served()?;
        let mut records = HashMap::new();
        let mut at = match served.get(&rows::current_key(key.as_str())).map_err(damaged)? {
            Some(row) => {
                CurrentRow::decode(self.store, key.as_str(), &row).map_err(ReadError::Damaged)?.revision
            }
            None => Revision::ZERO,
        };
        while at > Revision::ZERO && events.len() < limit && bytes <= HISTORY_BYTES {
            let Some(row) = log_row(&served, self.store, at).map_err(damaged)? else {
                // Compacted deletes are not stored.
                return if at <= oldest { Ok(events) } else { Err(missing(at)) };
            };
            let prior = row.prior;
            // The copy may be newer than the events read from the backlog.
            if at <= floor && at < before {
                let event = if at > oldest {
                    self.event(&served, &head, &mut records, row)?
                } else {
                    let (revision, key, time_ms) = (row.revision, row.key.clone(), row.time_ms);
                    let record = self.record(&head, row);
                    self.former.event(&head, Arc::new(Event { revision, key, time_ms, record, prev: None }))
                };
                bytes += values(&event);
                push_known(&mut events, event, oldest);
            }
            if at <= oldest {
                break;
            }
            at = prior;
        }
        Ok(events)
    }
}

/// The bytes of an event's values.
fn values<V>(event: &Event<V>) -> usize {
    let sizes = [&event.record, &event.prev]
        .into_iter()
        .flatten()
        .map(|record| record.value.len() + record.stored_apart());
    sizes.sum()
}

/// The records at an old revision of the keys that have changed since.
struct Overlay<V> {
    records: BTreeMap<Key, Option<Arc<Record<V>>>>,
    reserved: ReservedMemory,
}

impl<V> Overlay<V> {
    /// Adds a changed key. Only its first change after the revision contains the record at the revision.
    fn insert(
        &mut self,
        key: &Key,
        record: impl FnOnce() -> Result<Option<Arc<Record<V>>>, ReadError>,
    ) -> Result<(), ReadError> {
        let Entry::Vacant(vacant) = self.records.entry(key.clone()) else { return Ok(()) };
        let record = record()?;
        let bytes = OVERLAY_ENTRY + record.as_ref().map_or(key.as_str().len(), |record| record.size());
        self.reserved.grow(bytes as u64)?;
        vacant.insert(record);
        Ok(())
    }
}

/// Adds an event as far as it is retained: at or before `oldest`, a delete is dropped, and a put loses its
/// replaced record.
fn push_known<V>(events: &mut Vec<Arc<Event<V>>>, event: Arc<Event<V>>, oldest: Revision) {
    if event.revision > oldest {
        events.push(event);
        return;
    }
    if let Some(record) = &event.record {
        let (revision, key, time_ms) = (event.revision, event.key.clone(), event.time_ms);
        events.push(Arc::new(Event { revision, key, time_ms, record: Some(record.clone()), prev: None }));
    }
}

fn missing(revision: Revision) -> ReadError {
    ReadError::Damaged(format!("revision {revision} is missing"))
}

fn damaged(error: ServedError) -> ReadError {
    ReadError::Damaged(error.to_string())
}

/// History for watchers, read outside the threads that serve requests.
pub(crate) struct PastLog<V>(pub(crate) Arc<Past<V>>);

impl<V: View> Log<V> for PastLog<V> {
    fn page<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page<V>, ReadError>> {
        let (past, prefix) = (self.0.clone(), prefix.to_owned());
        Box::pin(log_read(past, move |past, _| past.page(&prefix, after, upto, limit)))
    }

    fn oldest(&self) -> Revision {
        self.0.oldest()
    }
}

/// Reads the log on a blocking thread, at most [`LOG_READS`] at a time: a read of old revisions takes long. The flag stops the
/// read when its caller has dropped the future.
pub(crate) async fn log_read<V: View, T: Send + 'static>(
    past: Arc<Past<V>>,
    read: impl FnOnce(&Past<V>, &AtomicBool) -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    // The semaphore is never closed.
    let permit = past.log_reads.clone().acquire_owned().await.ok();
    let cancelled = Arc::new(AtomicBool::new(false));
    let _guard = CancelOnDrop(cancelled.clone());
    blocking(move || {
        let _permit = permit;
        read(&past, &cancelled)
    })
    .await
}

/// Sets the flag when the caller of a read has gone.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a read on a blocking thread, or directly when there is no tokio runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return read() };
    match runtime.spawn_blocking(read).await {
        Ok(result) => result,
        Err(error) => Err(ReadError::Damaged(error.to_string())),
    }
}
