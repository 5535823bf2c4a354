//! Sensitive records, such as Secrets: selects them, redacts their former versions, and decides when these are removed. Pure.
//!
//! A *former version* is a value that a later event has replaced or deleted. The history of other records is retained
//! ([`Retention`](super::Retention)); that of sensitive records is hidden from readers after [`Sensitive::age`], and then erased from
//! all files (`erase`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::transform::Transform;
use crate::{Event, Key, Record, Revision, Stored, TransformError, View};

/// How long watches and lists in progress need former versions.
pub const CONTINUITY: Duration = Duration::from_secs(60);

/// The retention of sensitive records.
#[derive(Clone, Debug)]
pub struct Sensitive {
    /// The prefixes of their keys. Empty: no record is sensitive.
    pub prefixes: Vec<String>,
    /// How long former versions stay readable, because watches and lists in progress need them.
    pub age: Duration,
    /// The minimum interval between two erasures.
    pub erase_every: Duration,
    /// Removes the sensitive parts of a former version.
    pub redact: Redact,
}

/// Computes the redacted form of a former version from the key and the value. If it returns `None`, only the key and the times remain.
#[derive(Clone)]
pub struct Redact(pub Arc<RedactFn>);

/// The function of a [`Redact`].
pub type RedactFn = dyn Fn(&Key, &Bytes) -> Option<Bytes> + Send + Sync;

impl Default for Redact {
    /// Removes the whole value.
    fn default() -> Self {
        Redact(Arc::new(|_: &Key, _: &Bytes| None))
    }
}

impl std::fmt::Debug for Redact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redact")
    }
}

impl Default for Sensitive {
    fn default() -> Self {
        Sensitive {
            prefixes: Vec::new(),
            age: CONTINUITY,
            erase_every: Duration::from_secs(600),
            redact: Redact::default(),
        }
    }
}

impl Sensitive {
    /// Whether a key is that of a sensitive record.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }

    /// Whether an event makes a version of a sensitive record a former one.
    pub(crate) fn makes_former<V>(&self, event: &Event<V>) -> bool {
        event.prev.is_some() && self.contains(event.key.as_str())
    }

    /// Whether events of sensitive records can be in a topic.
    pub(crate) fn touches(&self, topic: &str) -> bool {
        self.prefixes.iter().any(|prefix| topic.starts_with(prefix.as_str()) || prefix.starts_with(topic))
    }

    /// The redacted form of the value of a former version.
    pub(crate) fn redacted(&self, key: &Key, value: &Bytes) -> Bytes {
        (self.redact.0)(key, value).unwrap_or_default()
    }

    /// The redacted form of a former version.
    pub(crate) fn erased<V: View>(&self, record: &Record<V>) -> Arc<Record<V>> {
        let Record { key, create_revision, mod_revision, time_ms, .. } = record;
        let value = match &record.stored {
            Stored::Plain | Stored::Transformed(_) => self.redacted(key, &record.value),
            Stored::Unreadable { .. } => Bytes::new(),
            Stored::Erased => record.value.clone(),
        };
        Arc::new(Record {
            view: V::of(key, &value),
            key: key.clone(),
            value,
            stored: Stored::Erased,
            create_revision: *create_revision,
            mod_revision: *mod_revision,
            time_ms: *time_ms,
        })
    }

    /// The stored form of a redacted former version, from the stored form of the version. Empty if the version cannot be read, and never
    /// will be.
    ///
    /// # Errors
    /// The version cannot be transformed now, but may be later.
    pub(crate) fn redacted_form(
        &self,
        transform: &Transform,
        key: &Key,
        stored: &Bytes,
    ) -> Result<Bytes, TransformError> {
        let (value, form) = transform.value(key, stored.clone());
        match form {
            Stored::Unreadable { why, .. } if why.is_temporary() => return Err(why),
            Stored::Unreadable { .. } => return Ok(Bytes::new()),
            Stored::Plain | Stored::Transformed(_) | Stored::Erased => {}
        }
        let left = self.redacted(key, &value);
        if left.is_empty() {
            return Ok(left);
        }
        match transform.stored(key, &left) {
            Ok(Stored::Transformed(stored)) => Ok(stored),
            Ok(Stored::Plain | Stored::Unreadable { .. } | Stored::Erased) => Ok(left),
            Err(why) if why.is_temporary() => Err(why),
            // It must not be stored in another form than its value would be.
            Err(_) => Ok(Bytes::new()),
        }
    }

    /// `age` in milliseconds.
    pub(crate) fn age_ms(&self) -> i64 {
        i64::try_from(self.age.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The events that replaced or deleted versions of sensitive records, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormerMarks(VecDeque<(Revision, i64)>);

impl FormerMarks {
    /// Adds the next event and its time. Neither decreases.
    pub(crate) fn push(&mut self, revision: Revision, time_ms: i64) {
        self.0.push_back((revision, time_ms));
    }

    /// The newest event that is at least `age_ms` old.
    pub(crate) fn target(&self, now_ms: i64, age_ms: i64) -> Option<Revision> {
        let until = now_ms.saturating_sub(age_ms);
        self.last_of(self.0.partition_point(|(_, time_ms)| *time_ms <= until))
    }

    /// The newest event that is at least [`CONTINUITY`] old; `floor` if the events up to it were removed.
    pub(crate) fn continuity(&self, now_ms: i64, floor: Revision) -> Revision {
        let age_ms = i64::try_from(CONTINUITY.as_millis()).unwrap_or(i64::MAX);
        self.target(now_ms, age_ms).unwrap_or_default().max(floor)
    }

    /// The newest event up to a revision.
    pub(crate) fn newest_through(&self, revision: Revision) -> Option<Revision> {
        self.last_of(self.0.partition_point(|(at, _)| *at <= revision))
    }

    /// The last of the oldest `count` events.
    fn last_of(&self, count: usize) -> Option<Revision> {
        self.0.get(count.checked_sub(1)?).map(|(revision, _)| *revision)
    }

    /// The events up to a revision.
    pub(crate) fn through(&self, revision: Revision) -> impl Iterator<Item = Revision> {
        self.0.iter().map(|(at, _)| *at).take_while(move |at| *at <= revision)
    }

    /// Removes the events up to a revision.
    pub(crate) fn forget(&mut self, revision: Revision) {
        while self.0.front().is_some_and(|(at, _)| *at <= revision) {
            self.0.pop_front();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoded, Transformer};

    /// Fails to encode or to decode every value.
    struct Failing {
        encode: Option<TransformError>,
        decode: Option<TransformError>,
    }

    impl Transformer for Failing {
        fn encode(&self, _: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError> {
            self.encode.clone().map_or_else(|| Ok(Some([&b"enc:"[..], value].concat().into())), Err)
        }

        fn decode(&self, _: &Key, stored: &Bytes) -> Result<Decoded, TransformError> {
            let value = Some(stored.slice(4..));
            self.decode.clone().map_or_else(|| Ok(Decoded { value, is_stale: false }), Err)
        }
    }

    #[test]
    fn only_temporary_failures_retain_a_former_version() {
        let redact = Redact(Arc::new(|_: &Key, _: &Bytes| Some(Bytes::from_static(b"rest"))));
        let sensitive = Sensitive { redact, ..Sensitive::default() };
        let (now, never) = (TransformError::temporary("no plugin"), TransformError::from("no key"));
        for (encode, decode, want) in [
            (None, None, Ok("enc:rest")),
            (None, Some(&never), Ok("")),
            (None, Some(&now), Err(now.clone())),
            (Some(&never), None, Ok("")),
            (Some(&now), None, Err(now.clone())),
        ] {
            let failing = Failing { encode: encode.cloned(), decode: decode.cloned() };
            let transform = Transform(Some(Arc::new(failing)));
            let got = sensitive.redacted_form(&transform, &Key::from("/r/secrets/a"), &"enc:value".into());
            assert_eq!(got, want.map(Bytes::from), "{encode:?}, {decode:?}");
        }
    }

    #[test]
    fn former_versions_are_due_by_age() {
        let mut marks = FormerMarks::default();
        for (revision, time_ms) in [(3, 1000), (7, 2000), (8, 2000), (20, 5000)] {
            marks.push(Revision(revision), time_ms);
        }
        for (now_ms, want) in [(0, None), (1999, None), (2000, Some(3)), (3000, Some(8)), (9000, Some(20))] {
            assert_eq!(marks.target(now_ms, 1000), want.map(Revision), "{now_ms}");
        }
        for (revision, want) in [(2, None), (3, Some(3)), (19, Some(8)), (99, Some(20))] {
            assert_eq!(marks.newest_through(Revision(revision)), want.map(Revision), "{revision}");
        }
        assert_eq!(marks.through(Revision(7)).collect::<Vec<_>>(), [Revision(3), Revision(7)]);
        marks.forget(Revision(8));
        assert_eq!(marks.through(Revision(99)).collect::<Vec<_>>(), [Revision(20)]);
        marks.forget(Revision(99));
        assert!(marks.is_empty() && marks.target(i64::MAX, 0).is_none());
    }

    #[test]
    fn versions_are_needed_for_a_minute() {
        let mut marks = FormerMarks::default();
        for (revision, time_ms) in [(3, 1000), (7, 2000)] {
            marks.push(Revision(revision), time_ms);
        }
        for (now_ms, floor, want) in
            [(60_999, 0, 0), (61_000, 0, 3), (61_000, 5, 5), (62_000, 5, 7), (60_999, 2, 2)]
        {
            assert_eq!(marks.continuity(now_ms, Revision(floor)), Revision(want), "{now_ms} {floor}");
        }
    }

    #[test]
    fn prefixes_select_keys_and_topics() {
        let prefixes = vec!["/r/secrets/".to_owned(), "/r/keys.x/a".to_owned()];
        let sensitive = Sensitive { prefixes, ..Sensitive::default() };
        for (key, want) in
            [("/r/secrets/a", true), ("/r/secret", false), ("/r/keys.x/ab", true), ("/r/maps/a", false)]
        {
            assert_eq!(sensitive.contains(key), want, "{key}");
        }
        for (topic, want) in [("/r/secrets/", true), ("/r/keys.x/", true), ("/r/maps/", false), ("", true)] {
            assert_eq!(sensitive.touches(topic), want, "{topic}");
        }
    }
}
