//! The distribution of published events to topics, and the wakeup of their watchers.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

use super::ring::Ring;
use super::{RingLimits, Scan};
use crate::key::{is_topic, topic_of};
use crate::{Event, Revision};

/// The ring of a topic, and the watchers that wait for it to grow.
pub(crate) struct Topic<V> {
    ring: RwLock<Ring<V>>,
    pub(super) wake: Notify,
    /// The revision of the newest event; at first, that from which on the ring is complete.
    newest: AtomicU64,
    /// The number of watchers.
    pub(super) watchers: AtomicUsize,
}

impl<V> Topic<V> {
    fn new(floor: Revision) -> Arc<Self> {
        Arc::new(Topic {
            ring: RwLock::new(Ring::new(floor)),
            wake: Notify::new(),
            newest: AtomicU64::new(floor.0),
            watchers: AtomicUsize::new(0),
        })
    }

    pub(crate) fn scan(&self, prefix: &str, after: Revision, limit: usize, bytes: usize) -> Scan<V> {
        self.ring.read().scan(prefix, after, limit, bytes)
    }

    /// Whether the topic has no event after a revision, up to the revision that was published before the call.
    pub(super) fn is_quiet_after(&self, revision: Revision) -> bool {
        self.newest.load(Ordering::Acquire) <= revision.0
    }
}

struct Topics<V> {
    named: HashMap<Box<str>, Arc<Topic<V>>>,
    /// Events of all topics, for prefixes shorter than a topic. Created on first use.
    wide: Option<Arc<Topic<V>>>,
    /// The bytes of all rings.
    bytes: usize,
}

/// The topics of a store, and the revision up to which they are complete.
pub(crate) struct Hub<V> {
    /// The rings are complete from this revision on: the head when the store was opened.
    start: Revision,
    limits: RingLimits,
    /// Locked while a group is distributed to the rings, so that a new wide ring misses no part of a group.
    topics: Mutex<Topics<V>>,
    published: AtomicU64,
    reached: watch::Sender<u64>,
    closed: AtomicBool,
}

impl<V> Hub<V> {
    pub(crate) fn new(start: Revision, limits: RingLimits) -> Self {
        Hub {
            start,
            limits,
            topics: Mutex::new(Topics { named: HashMap::new(), wide: None, bytes: 0 }),
            published: AtomicU64::new(start.0),
            reached: watch::Sender::new(start.0),
            closed: AtomicBool::new(false),
        }
    }

    /// Every event up to this revision is in the rings (or was dropped from them).
    pub(crate) fn published(&self) -> Revision {
        Revision(self.published.load(Ordering::Acquire))
    }

    /// Adds the events of one group, in revision order, to the rings, and then publishes the revision. Returns the
    /// topics to [`wake`](Self::wake).
    pub(crate) fn publish(&self, events: &[Arc<Event<V>>]) -> Vec<Arc<Topic<V>>> {
        let Some(last) = events.last() else { return Vec::new() };
        let mut topics = self.topics.lock();
        // One group rarely touches more than a few topics: a list is faster than a map.
        let mut parts: Vec<(&str, Vec<&Arc<Event<V>>>)> = Vec::new();
        for event in events {
            let name = event.key.topic();
            match parts.iter_mut().find(|(part, _)| *part == name) {
                Some((_, list)) => list.push(event),
                None => parts.push((name, vec![event])),
            }
        }
        let mut touched = Vec::with_capacity(parts.len() + 1);
        for (name, list) in parts {
            let topic = topics.named(name, self.start);
            topics.extend(&topic, list.into_iter(), self.limits);
            touched.push(topic);
        }
        if let Some(wide) = topics.wide.clone() {
            topics.extend(&wide, events.iter(), self.limits);
            touched.push(wide);
        }
        topics.fit(self.limits.total);
        self.published.store(last.revision.0, Ordering::Release);
        drop(topics);
        touched
    }

    /// Wakes the watchers of these topics, and the tasks that wait for a revision.
    pub(crate) fn wake(&self, touched: &[Arc<Topic<V>>]) {
        self.reached.send_replace(self.published().0);
        for topic in touched {
            topic.wake.notify_waiters();
        }
    }

    /// Drops the events up to a revision from the selected rings, and from the one of all topics.
    pub(crate) fn forget(&self, through: Revision, selected: impl Fn(&str) -> bool) {
        let mut topics = self.topics.lock();
        let named = topics.named.iter().filter(|(name, _)| selected(name)).map(|(_, topic)| topic);
        let touched: Vec<_> = named.chain(&topics.wide).cloned().collect();
        for topic in touched {
            let mut ring = topic.ring.write();
            let before = ring.bytes();
            ring.forget(through);
            topics.bytes = (topics.bytes + ring.bytes()) - before;
        }
    }

    /// The topic with the events below a prefix.
    pub(crate) fn topic(&self, prefix: &str) -> Arc<Topic<V>> {
        let mut topics = self.topics.lock();
        let name = topic_of(prefix);
        if is_topic(name) {
            return topics.named(name, self.start);
        }
        let floor = self.published();
        topics.wide.get_or_insert_with(|| Topic::new(floor)).clone()
    }

    /// The events below a prefix in `(after, upto]`, if the rings still have all of them.
    pub(crate) fn recent(&self, prefix: &str, after: Revision, upto: Revision) -> Option<Vec<Arc<Event<V>>>> {
        if self.published() < upto {
            return None;
        }
        let topic = {
            let topics = self.topics.lock();
            let name = topic_of(prefix);
            match topics.named.get(name) {
                Some(topic) if is_topic(name) => Some(topic.clone()),
                // A topic without a ring has had no event since the store was opened.
                None if is_topic(name) && after >= self.start => return Some(Vec::new()),
                Some(_) | None => topics.wide.clone(),
            }
        };
        match topic?.scan(prefix, after, usize::MAX, usize::MAX) {
            Scan::Behind => None,
            Scan::Events { mut events, .. } => {
                events.retain(|event| event.revision <= upto);
                Some(events)
            }
        }
    }

    /// Waits until this revision is published.
    pub(crate) async fn reached(&self, revision: Revision) {
        let mut reached = self.reached.subscribe();
        if reached.wait_for(|at| *at >= revision.0).await.is_err() {
            // The sender lives as long as `self`; without it, the revision would never be published.
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends all watches after they have delivered the events in the rings.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let topics = self.topics.lock();
        for topic in topics.named.values().chain(&topics.wide) {
            topic.wake.notify_waiters();
        }
    }
}

impl<V> Topics<V> {
    fn named(&mut self, name: &str, floor: Revision) -> Arc<Topic<V>> {
        if let Some(topic) = self.named.get(name) {
            return topic.clone();
        }
        let topic = Topic::new(floor);
        self.named.insert(name.into(), topic.clone());
        topic
    }

    fn extend<'a>(
        &mut self,
        topic: &Topic<V>,
        events: impl Iterator<Item = &'a Arc<Event<V>>>,
        limits: RingLimits,
    ) where
        V: 'a,
    {
        let mut ring = topic.ring.write();
        let before = ring.bytes();
        for event in events {
            ring.push(event.clone(), limits);
            topic.newest.store(event.revision.0, Ordering::Release);
        }
        self.bytes = (self.bytes + ring.bytes()) - before;
    }

    /// Shrinks the largest rings until all together have at most three quarters of `total`, if they have more than `total`:
    /// there are as many rings as kinds, and a client may define kinds.
    fn fit(&mut self, total: usize) {
        if self.bytes <= total {
            return;
        }
        let mut rings: Vec<_> =
            self.named.values().chain(&self.wide).map(|topic| topic.ring.write()).collect();
        rings.sort_by_key(|ring| ring.bytes());
        let mut left = total / 4 * 3;
        let count = rings.len();
        self.bytes = 0;
        for (at, ring) in rings.iter_mut().enumerate() {
            let share = left / (count - at);
            ring.shrink(usize::MAX, share);
            left -= ring.bytes();
            self.bytes += ring.bytes();
        }
    }
}
