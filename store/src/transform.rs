//! Transforms values between memory and disk, for encryption at rest: records in memory contain the values, and every file contains
//! their stored form.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Key, Record, Revision, Stored, TransformError, View};

/// A value that was read from its stored form.
#[derive(Debug)]
pub struct Decoded {
    /// The value; `None` if the stored form is the value itself.
    pub value: Option<Bytes>,
    /// A write today would use another stored form, for example another key.
    pub is_stale: bool,
}

/// Transforms values. `key` is the key of the record, which an implementation may authenticate.
pub trait Transformer: Send + Sync {
    /// The stored form of a value; `None` if it is the value itself.
    ///
    /// # Errors
    /// The value cannot be transformed; it is then not written.
    fn encode(&self, key: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError>;

    /// The value of a stored form.
    ///
    /// # Errors
    /// The stored form cannot be read. If the failure is temporary, the store retains a former version that it has to erase until it can
    /// read it.
    fn decode(&self, key: &Key, stored: &Bytes) -> Result<Decoded, TransformError>;

    /// Whether a write today would use another stored form. Requests call it, so it must not block; [`decode`](Self::decode) may.
    fn is_stale(&self, key: &Key, stored: &Bytes) -> bool {
        self.decode(key, stored).map_or(true, |read| read.is_stale)
    }
}

/// The transformer of a store, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Transform(pub(crate) Option<Arc<dyn Transformer>>);

impl Transform {
    /// The stored form of a value.
    pub(crate) fn stored(&self, key: &Key, value: &Bytes) -> Result<Stored, TransformError> {
        let Some(transformer) = &self.0 else { return Ok(Stored::Plain) };
        Ok(transformer.encode(key, value)?.map_or(Stored::Plain, Stored::Transformed))
    }

    /// Builds a record from the stored form of its value.
    pub(crate) fn record<V: View>(
        &self,
        key: Key,
        stored: Bytes,
        create_revision: Revision,
        mod_revision: Revision,
        time_ms: i64,
    ) -> Record<V> {
        let (value, stored) = self.value(&key, stored);
        Record { view: V::of(&key, &value), key, value, stored, create_revision, mod_revision, time_ms }
    }

    /// Builds a record from the stored form of a redacted former version.
    pub(crate) fn erased_record<V: View>(
        &self,
        key: Key,
        stored: Bytes,
        create_revision: Revision,
        mod_revision: Revision,
        time_ms: i64,
    ) -> Record<V> {
        let value = if stored.is_empty() { stored } else { self.value(&key, stored).0 };
        let stored = Stored::Erased;
        Record { view: V::of(&key, &value), key, value, stored, create_revision, mod_revision, time_ms }
    }

    /// The value of a stored form, and the form.
    pub(crate) fn value(&self, key: &Key, stored: Bytes) -> (Bytes, Stored) {
        let Some(transformer) = &self.0 else { return (stored, Stored::Plain) };
        match transformer.decode(key, &stored) {
            Ok(Decoded { value: None, .. }) => (stored, Stored::Plain),
            Ok(Decoded { value: Some(value), .. }) => (value, Stored::Transformed(stored)),
            Err(why) => (Bytes::new(), Stored::Unreadable { bytes: stored, why }),
        }
    }

    /// Whether a write today would use another stored form.
    pub(crate) fn is_stale<V>(&self, record: &Record<V>) -> bool {
        let Some(transformer) = &self.0 else { return false };
        transformer.is_stale(&record.key, record.stored_bytes())
    }
}

/// The records of a topic whose values cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable<'r> {
    pub(crate) count: usize,
    /// The first one, and the reason.
    pub(crate) first: (&'r Key, &'r TransformError),
}

/// The unreadable records by topic.
pub(crate) fn unreadable<'r, V: 'r>(
    records: impl Iterator<Item = &'r Arc<Record<V>>>,
) -> BTreeMap<&'r str, Unreadable<'r>> {
    let mut topics = BTreeMap::new();
    for record in records {
        if let Stored::Unreadable { why, .. } = &record.stored {
            let first = (&record.key, why);
            topics.entry(record.key.topic()).or_insert(Unreadable { count: 0, first }).count += 1;
        }
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads only values that do not start with `?`.
    struct Known;

    impl Transformer for Known {
        fn encode(&self, _: &Key, _: &Bytes) -> Result<Option<Bytes>, TransformError> {
            Ok(None)
        }

        fn decode(&self, _: &Key, stored: &Bytes) -> Result<Decoded, TransformError> {
            if stored.starts_with(b"?") {
                return Err("no key".into());
            }
            Ok(Decoded { value: None, is_stale: false })
        }
    }

    #[test]
    fn unreadable_records_are_counted_by_topic() {
        let transform = Transform(Some(Arc::new(Known)));
        let record = |key: &str, stored: &'static str| {
            Arc::new(transform.record::<()>(Key::from(key), stored.into(), Revision(1), Revision(1), 0))
        };
        let records = [
            record("/r/maps/a", "value"),
            record("/r/maps/b", "?"),
            record("/r/secrets/a", "?"),
            record("/r/secrets/b", "value"),
            record("/r/secrets/c", "?"),
            record("/r/volumes/a", "value"),
        ];
        let found = unreadable(records.iter());
        let found: Vec<_> =
            found.iter().map(|(topic, found)| (*topic, found.count, found.first.0.as_str())).collect();
        assert_eq!(found, [("/r/maps/", 1, "/r/maps/b"), ("/r/secrets/", 2, "/r/secrets/a")]);
        assert_eq!(records[1].size(), "/r/maps/b".len() + 1, "the stored form is in memory");
    }
}
