//! Where published events go, and who is woken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::{Notify, watch};

use super::ring::Ring;
use super::{RingLimits, Scan};
use crate::key::topic_of;
use crate::{Event, Revision};

/// The ring of a topic and those who wait for it to grow.
pub(crate) struct Topic<V> {
    ring: RwLock<Ring<V>>,
    pub(super) wake: Notify,
    /// How many follow it.
    pub(super) watchers: AtomicUsize,
}

impl<V> Topic<V> {
    fn new(floor: Revision) -> Arc<Self> {
        Arc::new(Topic {
            ring: RwLock::new(Ring::new(floor)),
            wake: Notify::new(),
            watchers: AtomicUsize::new(0),
        })
    }

    pub(crate) fn scan(&self, prefix: &str, after: Revision, limit: usize) -> Scan<V> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).scan(prefix, after, limit)
    }
}

struct Topics<V> {
    named: HashMap<Box<str>, Arc<Topic<V>>>,
    /// Events of all topics, for prefixes that are shorter than one. Kept once somebody asked.
    wide: Option<Arc<Topic<V>>>,
}

/// The topics of a store, and the revision up to which they are complete.
pub(crate) struct Hub<V> {
    /// Rings are complete from here on: where the store stood when it was opened.
    start: Revision,
    limits: RingLimits,
    /// Held while a group is spread over the rings, so that a new wide ring misses no part of one.
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
            topics: Mutex::new(Topics { named: HashMap::new(), wide: None }),
            published: AtomicU64::new(start.0),
            reached: watch::Sender::new(start.0),
            closed: AtomicBool::new(false),
        }
    }

    /// Every event up to this revision is in the rings (or was dropped from them).
    pub(crate) fn published(&self) -> Revision {
        Revision(self.published.load(Ordering::Acquire))
    }

    /// Puts the events of one group, in revision order, into the rings, and then says that they
    /// are there. Whom to wake is returned, for [`wake`](Self::wake).
    pub(crate) fn publish(&self, events: &[Arc<Event<V>>]) -> Vec<Arc<Topic<V>>> {
        let Some(last) = events.last() else { return Vec::new() };
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        // One group rarely touches more than a handful of topics: a list beats a map.
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
            topic.extend(list.into_iter(), self.limits);
            touched.push(topic);
        }
        if let Some(wide) = &topics.wide {
            wide.extend(events.iter(), self.limits);
            touched.push(wide.clone());
        }
        self.published.store(last.revision.0, Ordering::Release);
        drop(topics);
        touched
    }

    /// Wakes those who wait for these topics, and those who wait for a revision.
    pub(crate) fn wake(&self, touched: &[Arc<Topic<V>>]) {
        self.reached.send_replace(self.published().0);
        for topic in touched {
            topic.wake.notify_waiters();
        }
    }

    /// The topic that holds the events below a prefix.
    pub(crate) fn topic(&self, prefix: &str) -> Arc<Topic<V>> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let name = topic_of(prefix);
        if is_topic(name) {
            return topics.named(name, self.start);
        }
        let floor = self.published();
        topics.wide.get_or_insert_with(|| Topic::new(floor)).clone()
    }

    /// The events below a prefix in `(after, upto]`, when the rings still hold all of them.
    pub(crate) fn recent(&self, prefix: &str, after: Revision, upto: Revision) -> Option<Vec<Arc<Event<V>>>> {
        if self.published() < upto {
            return None;
        }
        let topic = {
            let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
            let name = topic_of(prefix);
            match topics.named.get(name) {
                Some(topic) if is_topic(name) => Some(topic.clone()),
                // A topic without a ring has had no event since the store was opened.
                None if is_topic(name) && after >= self.start => return Some(Vec::new()),
                Some(_) | None => topics.wide.clone(),
            }
        };
        match topic?.scan(prefix, after, usize::MAX) {
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
            // The sender lives as long as `self`; were it gone, the revision would never come.
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends all watches once they have delivered what the rings hold.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        for topic in topics.named.values().chain(&topics.wide) {
            topic.wake.notify_waiters();
        }
    }
}

/// Whether a name is that of a whole topic, and not of something wider.
fn is_topic(name: &str) -> bool {
    name.matches('/').count() == 3
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
}

impl<V> Topic<V> {
    fn extend<'a>(&self, events: impl Iterator<Item = &'a Arc<Event<V>>>, limits: RingLimits)
    where
        V: 'a,
    {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            ring.push(event.clone(), limits);
        }
    }
}
