//! Decides which events become new objects, which raise a count, and which are dropped. The rules and figures are
//! those of upstream's client-go (tools/record/events_cache.go): equal events share one object; from the tenth
//! different message of one kind within ten minutes on, one combined event represents the rest; one object may
//! cause 25 writes, then one per 5 minutes.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{cut, event_name};
use crate::meta::whole_seconds;

/// Prefix of the message of a combined event.
pub const COMBINED: &str = "(combined from similar events): ";
/// Maximum number of entries in each table.
const REMEMBERED: usize = 4096;
/// The number of different messages from which similar events are combined.
const SIMILAR: usize = 10;
/// The maximum interval between similar events, in seconds.
const SIMILAR_FOR: i64 = 600;
const SPAM_BURST: f64 = 25.0;
/// Tokens added per second.
const SPAM_REFILL: f64 = 1.0 / 300.0;

/// The action for an event. `key` is for [`Correlator::written`].
#[derive(Debug)]
pub enum Outcome {
    /// Write a new object.
    Create {
        /// The object.
        event: Event,
        /// The key that equal events share.
        key: String,
    },
    /// Update the count, last time and message of an existing object.
    Update {
        /// The object with the new values.
        event: Event,
        /// The key that equal events share.
        key: String,
    },
    /// The object caused too many events.
    Drop,
}

/// Earlier events.
#[derive(Default)]
pub struct Correlator {
    similar: Recent<String, Similar>,
    equal: Recent<String, Equal>,
    spam: Recent<String, Tokens>,
    hasher: RandomState,
}

#[derive(Clone)]
struct Similar {
    /// Hashes of the messages. Equal hashes count as one message.
    messages: BTreeSet<u64>,
    last: Timestamp,
}

#[derive(Clone)]
struct Equal {
    name: String,
    count: i32,
    first: Option<Time>,
}

#[derive(Clone, Copy)]
struct Tokens {
    left: f64,
    at: Timestamp,
}

impl Correlator {
    /// Decides what to do with a new event at the time `now`.
    pub fn observe(&mut self, event: Event, now: Timestamp) -> Outcome {
        let (mut event, key) = self.aggregate(event, now);
        let known = self.equal.get(&key).cloned();
        if let Some(known) = &known {
            event.metadata.name = Some(known.name.clone());
            event.count = Some(known.count.saturating_add(1));
            event.first_timestamp = known.first.clone();
        }
        self.remember(key.clone(), &event);
        if !self.allowed(&event, now) {
            return Outcome::Drop;
        }
        if known.is_some() { Outcome::Update { event, key } } else { Outcome::Create { event, key } }
    }

    /// The event was written, and this is its state on the server.
    pub fn written(&mut self, key: String, event: &Event) {
        self.remember(key, event);
    }

    fn remember(&mut self, key: String, event: &Event) {
        let name = event.metadata.name.clone().unwrap_or_default();
        let equal = Equal { name, count: event.count.unwrap_or(1), first: event.first_timestamp.clone() };
        self.equal.put(key, equal);
    }

    fn aggregate(&mut self, mut event: Event, now: Timestamp) -> (Event, String) {
        let group = group_key(&event);
        let message = event.message.clone().unwrap_or_default();
        let mut similar = match self.similar.get(&group) {
            Some(known) if now.as_second() - known.last.as_second() <= SIMILAR_FOR => known.clone(),
            Some(_) | None => Similar { messages: BTreeSet::new(), last: now },
        };
        similar.messages.insert(self.hasher.hash_one(&message));
        similar.last = now;
        let combine = similar.messages.len() >= SIMILAR;
        if combine {
            // Stays below the limit, so that the table is bounded.
            similar.messages.pop_first();
        }
        self.similar.put(group.clone(), similar);
        if !combine {
            let key = format!("{group}\u{1f}{message}");
            return (event, key);
        }
        event.metadata.name = Some(event_name(&event.involved_object, now));
        event.message = Some(cut(format!("{COMBINED}{message}")));
        event.first_timestamp = Some(whole_seconds(now));
        event.last_timestamp = Some(whole_seconds(now));
        event.count = Some(1);
        (event, group)
    }

    fn allowed(&mut self, event: &Event, now: Timestamp) -> bool {
        let key = spam_key(event);
        let mut tokens = self.spam.get(&key).copied().unwrap_or(Tokens { left: SPAM_BURST, at: now });
        let passed = now.duration_since(tokens.at).as_secs_f64().max(0.0);
        tokens.left = (tokens.left + passed * SPAM_REFILL).min(SPAM_BURST);
        tokens.at = now;
        let allowed = tokens.left >= 1.0;
        if allowed {
            tokens.left -= 1.0;
        }
        self.spam.put(key, tokens);
        allowed
    }
}

fn joined(parts: &[Option<&str>]) -> String {
    parts.iter().map(|part| part.unwrap_or_default()).collect::<Vec<_>>().join("\u{1f}")
}

fn spam_key(event: &Event) -> String {
    let ObjectReference { kind, namespace, name, uid, api_version, .. } = &event.involved_object;
    let component = event.source.as_ref().and_then(|s| s.component.as_deref());
    let object = [kind, namespace, name, uid, api_version].map(Option::as_deref);
    joined(&[component, object[0], object[1], object[2], object[3], object[4]])
}

fn group_key(event: &Event) -> String {
    joined(&[Some(&spam_key(event)), event.type_.as_deref(), event.reason.as_deref()])
}

/// A map that drops the least recently used entry. Small and simple: the oldest entry is searched only when the map is full.
struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    ticks: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), ticks: 0 }
    }
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    fn get(&mut self, key: &K) -> Option<&V> {
        self.ticks += 1;
        let entry = self.entries.get_mut(key)?;
        entry.0 = self.ticks;
        Some(&entry.1)
    }

    fn put(&mut self, key: K, value: V) {
        self.ticks += 1;
        self.entries.insert(key, (self.ticks, value));
        if self.entries.len() > REMEMBERED {
            // Evicts half of the entries, so that the search is rare.
            let mut ages: Vec<u64> = self.entries.values().map(|(tick, _)| *tick).collect();
            ages.sort_unstable();
            let limit = ages[ages.len() / 2];
            self.entries.retain(|_, (tick, _)| *tick >= limit);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{EventType, new_event};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn event(name: &str, message: &str, now: i64) -> Event {
        let involved =
            ObjectReference { name: Some(name.into()), namespace: Some("ns".into()), ..Default::default() };
        new_event("test", at(now), involved, EventType::Normal, "Reason", message.to_owned())
    }

    #[test]
    fn equal_events_increase_the_count_of_the_first() {
        let mut c = Correlator::default();
        let Outcome::Create { event: first, key } = c.observe(event("a", "m", 100), at(100)) else {
            panic!("new")
        };
        c.written(key, &first);
        let Outcome::Update { event: second, .. } = c.observe(event("a", "m", 130), at(130)) else {
            panic!("again")
        };
        assert_eq!((second.count, &second.metadata.name), (Some(2), &first.metadata.name));
        assert_eq!(second.first_timestamp, first.first_timestamp);
        assert_eq!(second.last_timestamp.unwrap().0, at(130));
        assert!(matches!(c.observe(event("b", "m", 130), at(130)), Outcome::Create { .. }), "other object");
    }

    #[test]
    fn tenth_similar_message_starts_a_combined_event() {
        let mut c = Correlator::default();
        let mut outcomes = Vec::new();
        for n in 0..13 {
            outcomes.push(match c.observe(event("a", &format!("m{n}"), 100 + n), at(100 + n)) {
                Outcome::Create { event, .. } => ("create", event),
                Outcome::Update { event, .. } => ("update", event),
                Outcome::Drop => panic!("dropped"),
            });
        }
        let kinds: Vec<&str> = outcomes.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds[..10], ["create"; 10]);
        assert_eq!(kinds[10..], ["update"; 3]);
        assert_eq!(outcomes[8].1.message.as_deref(), Some("m8"));
        assert_eq!(outcomes[12].1.message.as_deref(), Some("(combined from similar events): m12"));
        assert_eq!(outcomes[12].1.count, Some(4));
    }

    #[test]
    fn similar_events_far_apart_are_not_combined() {
        let mut c = Correlator::default();
        for n in 0..20 {
            let now = 100 + n * 700;
            let Outcome::Create { event, .. } = c.observe(event("a", &format!("m{n}"), now), at(now)) else {
                panic!("each is new")
            };
            assert_eq!(event.message, Some(format!("m{n}")));
        }
    }

    #[test]
    fn object_may_cause_25_writes_and_then_one_per_five_minutes() {
        let mut c = Correlator::default();
        let mut kept = |now: i64| !matches!(c.observe(event("a", "m", now), at(now)), Outcome::Drop);
        assert_eq!((0..30).filter(|_| kept(100)).count(), 25);
        assert!(!kept(399));
        assert!(kept(400));
        assert!(!kept(500));
    }

    #[test]
    fn tables_are_bounded() {
        let mut recent = Recent::default();
        for n in 0..100_000 {
            recent.put(n, n);
            assert!(recent.entries.len() <= REMEMBERED);
        }
        assert_eq!(recent.get(&99_999), Some(&99_999));
    }
}
