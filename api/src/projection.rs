//! What readers need to know of a stored object without decoding it: made once per write.

use serde_json::Value;

use crate::object::Object;
use crate::registry::{self, Kind};

/// The view that the API server keeps beside each record. There is one for every object, so it is small:
/// all texts stand in one piece of memory.
#[derive(Default)]
pub struct Projection {
    /// Where in the value the resourceVersion is spliced in: an offset between two members of
    /// `metadata`, with a member following.
    pub splice: usize,
    /// Whose fields they are.
    kind: Option<&'static dyn Kind>,
    /// Keys and values of the labels by turns, then the fields in the order of [`field_names`].
    text: Box<str>,
    /// Where in `text` each of them ends.
    ends: Box<[u32]>,
}

/// The fields that objects of a kind are selected by.
fn field_names(kind: &dyn Kind) -> impl Iterator<Item = &'static str> {
    kind.selectable().iter().chain(kind.extra_selectable()).copied()
}

impl Projection {
    /// The view of an object whose stored bytes have their splice point at `splice`.
    pub fn new(kind: &dyn Kind, object: &Object, splice: usize) -> Self {
        // Custom kinds come and go, so what they select by is read from the objects (`verbs::filter`).
        Projection::of_stored(registry::by_storage_prefix(kind.storage_prefix()), object, splice)
    }

    /// The view of stored bytes below a storage prefix such as `/registry/pods/`.
    pub fn read(prefix: &str, value: &[u8]) -> Self {
        let object = serde_json::from_slice::<Value>(value).map(Object::from_value).unwrap_or_default();
        let splice = splice_point(value);
        // A kind that is not found has no fields: the definitions' own kind, and those they bring.
        Projection::of_stored(registry::by_storage_prefix(prefix), &object, splice)
    }

    fn of_stored(kind: Option<&'static dyn Kind>, object: &Object, splice: usize) -> Self {
        let mut text = String::with_capacity(128);
        let mut ends = Vec::with_capacity(16);
        // An object is far smaller than what a u32 can count: bodies are bounded.
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

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let mut labels = (0..self.first_field()).step_by(2);
        labels.find(|at| self.part(*at) == key).map(|at| self.part(at + 1))
    }

    /// The value of a selectable field; `None` when the kind does not select by it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let at = field_names(self.kind?).position(|known| known == name)?;
        Some(self.part(self.first_field() + at))
    }

    /// Where the labels end and the fields begin.
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

/// The offset behind `"uid":"...",`, which is written right behind the names, so that the first
/// occurrence is the object's own.
fn splice_point(value: &[u8]) -> usize {
    const UID: &[u8] = b"\"uid\":\"";
    let start = value.windows(UID.len()).position(|window| window == UID).map(|at| at + UID.len());
    let end = start.and_then(|start| value[start..].iter().position(|b| *b == b'"').map(|len| start + len));
    match end {
        Some(quote) if value.get(quote + 1) == Some(&b',') => quote + 2,
        // Only a record that this server did not write has no uid; put it first in the metadata.
        Some(_) | None => (b"{\"metadata\":{".len()).min(value.len()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::registry::BUILTIN_KINDS;

    #[test]
    fn labels_and_fields_are_found() {
        let kind =
            BUILTIN_KINDS.iter().find(|kind| kind.names().plural == "persistentvolumes").copied().unwrap();
        let value = serde_json::json!({
            "metadata": {"name": "v", "labels": {"a": "", "b": "1", "c/d": "x y", "metadata.name": "no"}},
            "spec": {"claimRef": {"name": "c", "namespace": "n"}},
            "status": {"phase": "Bound"},
        });
        let view = Projection::new(kind, &Object::from_value(value), 3);
        let labels = ["a", "b", "c/d", "metadata.name", "1", "", "n"].map(|key| view.label(key));
        assert_eq!(labels, [Some(""), Some("1"), Some("x y"), Some("no"), None, None, None]);
        let fields =
            ["spec.claimRef.name", "status.phase", "spec.claimRef.namespace", "spec.storageClassName", "a"];
        assert_eq!(
            fields.map(|name| view.field(name)),
            [Some("c"), Some("Bound"), Some("n"), Some(""), None]
        );

        let nothing = Projection::default();
        assert_eq!((nothing.label("a"), nothing.field("metadata.name")), (None, None));
        let bare = Projection::new(kind, &Object::default(), 0);
        assert_eq!((bare.label("a"), bare.field("status.phase")), (None, Some("")));
    }

    #[test]
    fn the_splice_point_is_behind_the_uid() {
        let value = br#"{"metadata":{"name":"a","uid":"u-1","creationTimestamp":"t"}}"#;
        let at = splice_point(value);
        assert_eq!(&value[at..], br#""creationTimestamp":"t"}}"#);
    }
}
