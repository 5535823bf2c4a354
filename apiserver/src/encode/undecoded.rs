//! Objects that are decoded only if they are needed.
//!
//! Users determine the number and the size of the objects in a collection. A request of another user that looks up some of them compares
//! labels and sizes first: decoding takes 25 times as long for the smallest objects, and more for larger ones.

use orlop_apimachinery::labels::Selector;
use orlop_store::Record;

use crate::projection::Projection;
use orlop_api::object::Object;

/// A stored object that is not decoded.
pub trait Undecoded {
    /// The size in the store, bytes.
    fn bytes(&self) -> usize;
    /// Whether a selector matches the labels. It may match an unreadable object, whose labels are unknown.
    fn may_match(&self, selector: &Selector) -> bool;
    /// The object; `None` if it is unreadable.
    fn decode(&self) -> Option<Object>;
}

/// A record, and the function that decodes it.
pub(crate) struct UndecodedRecord<'a, D> {
    record: &'a Record<Projection>,
    decode: D,
}

impl<'a, D> UndecodedRecord<'a, D> {
    pub(crate) fn new(record: &'a Record<Projection>, decode: D) -> Self {
        UndecodedRecord { record, decode }
    }
}

impl<D: Fn(&Record<Projection>) -> Option<Object>> Undecoded for UndecodedRecord<'_, D> {
    fn bytes(&self) -> usize {
        self.record.value.len()
    }

    fn may_match(&self, selector: &Selector) -> bool {
        !self.record.is_whole() || selector.matches(self.record.view.labels())
    }

    fn decode(&self) -> Option<Object> {
        (self.decode)(self.record)
    }
}

/// For tests: objects that count how many of them are decoded.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    use super::*;

    /// The decoded objects and their bytes.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(crate) struct DecodeCounter {
        pub(crate) objects: Cell<usize>,
        pub(crate) bytes: Cell<usize>,
    }

    /// An object whose decoding is counted.
    pub(crate) struct Counted<'a> {
        pub(crate) object: Object,
        pub(crate) counter: &'a DecodeCounter,
    }

    impl Undecoded for Counted<'_> {
        fn bytes(&self) -> usize {
            serde_json::to_vec(&self.object.0).map_or(0, |text| text.len())
        }

        fn may_match(&self, selector: &Selector) -> bool {
            let labels = self.object.labels().into_iter().flatten();
            selector.matches(labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))))
        }

        fn decode(&self) -> Option<Object> {
            self.counter.objects.set(self.counter.objects.get() + 1);
            self.counter.bytes.set(self.counter.bytes.get() + self.bytes());
            Some(self.object.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_api::registry::by_resource;
    use orlop_store::{Key, Revision, Stored};
    use serde_json::json;

    use super::*;
    use crate::encode::stored;

    #[test]
    fn labels_are_compared_without_decoding() {
        let kind = by_resource("", "v1", "configmaps").expect("a kind");
        let object = json!({"metadata": {"name": "a", "uid": "u", "labels": {"app": "web"}}});
        let (value, view) = stored::encode(kind, &Object::from_value(object));
        let mut record = Record {
            key: Key::new("/registry/configmaps/n/a"),
            stored: Stored::Plain,
            create_revision: Revision(1),
            mod_revision: Revision(1),
            time_ms: 0,
            value,
            view,
        };
        let matches = |record: &Record<Projection>, selector: &str| {
            let selector = Selector::parse(selector).expect("a selector");
            let undecoded = UndecodedRecord::new(record, |_: &Record<Projection>| -> Option<Object> {
                panic!("a comparison of labels decodes the object")
            });
            assert_eq!(undecoded.bytes(), record.value.len());
            undecoded.may_match(&selector)
        };
        assert!(matches(&record, "app=web") && matches(&record, ""));
        assert!(!matches(&record, "app=api") && !matches(&record, "app=web,tier"));
        record.stored = Stored::Erased;
        assert!(matches(&record, "app=api"), "the labels of an unreadable object are unknown");
    }
}
