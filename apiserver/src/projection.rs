//! What readers need to know of a stored object without decoding it: made once per write.

use bytes::Bytes;
use orlop_store::{Key, View};
use serde_json::Value;

use crate::object::Object;
use crate::registry::{self, Kind};

/// The view that the store keeps beside each record.
#[derive(Debug, Default)]
pub struct Projection {
    /// Where in the value the resourceVersion is spliced in: an offset between two members of
    /// `metadata`, with a member following.
    pub(crate) splice: usize,
    labels: Vec<(Box<str>, Box<str>)>,
    fields: Vec<(&'static str, Box<str>)>,
}

impl Projection {
    /// The view of an object whose stored bytes have their splice point at `splice`.
    pub(crate) fn new(kind: &dyn Kind, object: &Object, splice: usize) -> Self {
        let labels = object
            .labels()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
            .collect();
        let names = kind.selectable().iter().chain(kind.extra_selectable());
        let fields = names.map(|name| (*name, kind.field(object, name).into())).collect();
        Projection { splice, labels, fields }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, value)| &**value)
    }

    /// The value of a selectable field; `None` when the kind does not select by it.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| *n == name).map(|(_, value)| &**value)
    }
}

impl View for Projection {
    fn of(key: &Key, value: &Bytes) -> Self {
        let object = serde_json::from_slice::<Value>(value).map(Object::from_value).unwrap_or_default();
        let splice = splice_point(value);
        match registry::by_storage_prefix(key.topic()) {
            Some(kind) => Projection::new(kind, &object, splice),
            None => Projection { splice, ..Projection::default() },
        }
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
mod tests {
    use super::*;

    #[test]
    fn the_splice_point_is_behind_the_uid() {
        let value = br#"{"metadata":{"name":"a","uid":"u-1","creationTimestamp":"t"}}"#;
        let at = splice_point(value);
        assert_eq!(&value[at..], br#""creationTimestamp":"t"}}"#);
    }
}
