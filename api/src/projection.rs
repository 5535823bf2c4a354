//! The projection of a stored object: what selectors and responses read without decoding it, computed once per
//! write.

use serde_json::Value;

use crate::object::Object;
use crate::registry::{self, Kind};

/// The view that the API server stores beside each record. Every object has one, so it is small:
/// all strings share one allocation.
#[derive(Default)]
pub struct Projection {
    /// The offset in the value where the resourceVersion is inserted: between two fields of
    /// `metadata`, with a field after it.
    pub splice: usize,
    /// The kind that the fields belong to.
    kind: Option<&'static dyn Kind>,
    /// The keys and values of the labels, alternating, then the fields in the order of [`field_names`].
    text: Box<str>,
    /// The end of each of them in `text`.
    ends: Box<[u32]>,
}

/// The selectable fields of a kind.
fn field_names(kind: &dyn Kind) -> impl Iterator<Item = &'static str> {
    kind.selectable().iter().chain(kind.extra_selectable()).copied()
}

impl Projection {
    /// The view of an object whose stored bytes have their insertion point at `splice`.
    pub fn new(kind: &dyn Kind, object: &Object, splice: usize) -> Self {
        // Custom kinds are added and removed at run time, so `verbs::filter` reads their selectable fields from the
        // objects.
        Projection::of_stored(registry::by_storage_prefix(kind.storage_prefix()), object, splice)
    }

    /// The view of stored bytes below a storage prefix such as `/registry/pods/`.
    pub fn read(prefix: &str, value: &[u8]) -> Self {
        let object = serde_json::from_slice::<Value>(value).map(Object::from_value).unwrap_or_default();
        let splice = splice_point(value);
        // An unknown kind has no fields: CustomResourceDefinition and the custom kinds.
        Projection::of_stored(registry::by_storage_prefix(prefix), &object, splice)
    }

    fn of_stored(kind: Option<&'static dyn Kind>, object: &Object, splice: usize) -> Self {
        let mut text = String::with_capacity(128);
        let mut ends = Vec::with_capacity(16);
        // Request bodies are bounded, so an object is far smaller than `u32::MAX` bytes.
        let mut add = |part: &str| {
            text.push_str(part);
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        };
        for (key, value) in object.labels().into_iter().flatten() {
            add(key);
            add(value.as_str().unwrap_or_default());
        }
        for kind in kind.iter() {
            for name in field_names(*kind) {
                add(&kind.field(object, name));
            }
        }
        Projection { splice, kind, text: text.into(), ends: ends.into() }
    }

    /// The keys and values of the labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.first_field()).step_by(2).map(|at| (self.part(at), self.part(at + 1)))
    }

    /// The value of a selectable field; `None` if the kind does not support the field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let at = field_names(self.kind?).position(|known| known == name)?;
        Some(self.part(self.first_field() + at))
    }

    /// The index of the first field, after the labels.
    fn first_field(&self) -> usize {
        self.ends.len() - self.kind.map_or(0, |kind| field_names(kind).count())
    }

    fn part(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.text.get(start..self.ends[at] as usize).unwrap_or_default()
    }
}

impl std::fmt::Debug for Projection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projection").field("text", &self.text).finish_non_exhaustive()
    }
}

/// The offset after `"uid":"...",`, which is written directly after the names, so that the first
/// occurrence belongs to the object itself.
fn splice_point(value: &[u8]) -> usize {
    const UID: &[u8] = b"\"uid\":\"";
    let start = value.windows(UID.len()).position(|window| window == UID).map(|at| at + UID.len());
    let end = start.and_then(|start| value[start..].iter().position(|b| *b == b'"').map(|len| start + len));
    match end {
        Some(quote) if value.get(quote + 1) == Some(&b',') => quote + 2,
        // Only a record that another program wrote has no uid: insert at the start of the metadata.
        Some(_) | None => (b"{\"metadata\":{".len()).min(value.len()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::registry::BUILTIN_KINDS;

    #[test]
    fn labels_and_fields_are_readable() {
        let kind =
            BUILTIN_KINDS.iter().find(|kind| kind.names().plural == "persistentvolumes").copied().unwrap();
        let value = serde_json::json!({
            "metadata": {"name": "v", "labels": {"a": "", "b": "1", "c/d": "x y", "metadata.name": "no"}},
            "spec": {"claimRef": {"name": "c", "namespace": "n"}},
            "status": {"phase": "Bound"},
        });
        let view = Projection::new(kind, &Object::from_value(value), 3);
        let labels: Vec<(&str, &str)> = view.labels().collect();
        assert_eq!(labels, [("a", ""), ("b", "1"), ("c/d", "x y"), ("metadata.name", "no")]);
        let fields =
            ["spec.claimRef.name", "status.phase", "spec.claimRef.namespace", "spec.storageClassName", "a"];
        assert_eq!(
            fields.map(|name| view.field(name)),
            [Some("c"), Some("Bound"), Some("n"), Some(""), None]
        );

        let nothing = Projection::default();
        assert_eq!((nothing.labels().count(), nothing.field("metadata.name")), (0, None));
        let bare = Projection::new(kind, &Object::default(), 0);
        assert_eq!((bare.labels().count(), bare.field("status.phase")), (0, Some("")));
    }

    #[test]
    fn splice_point_follows_the_uid() {
        let value = br#"{"metadata":{"name":"a","uid":"u-1","creationTimestamp":"t"}}"#;
        let at = splice_point(value);
        assert_eq!(&value[at..], br#""creationTimestamp":"t"}}"#);
    }
}
