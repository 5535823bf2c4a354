//! The head of a stored object: what requests about other objects read of it without decoding it.

use std::sync::Arc;

use orlop_codec::encode::partial::{self, Identity};
use orlop_store::Record;
use serde_json::Value;

use super::stored;
use crate::projection::Projection;
use orlop_api::status::ApiError;

/// The identity, the labels and the selectable fields of a stored object.
#[derive(Clone, Debug)]
pub struct ObjectHead {
    record: Arc<Record<Projection>>,
    identity: Identity,
}

impl ObjectHead {
    /// The head of a record.
    ///
    /// # Errors
    /// The value of the record cannot be read.
    pub(crate) fn of(record: &Arc<Record<Projection>>) -> Result<Self, ApiError> {
        stored::readable(record)?;
        Ok(ObjectHead { record: record.clone(), identity: partial::identity(&record.value) })
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.identity.uid
    }

    /// `metadata.deletionTimestamp`, if deletion has begun.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.identity.deletion_timestamp.as_deref()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.record.view.labels().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The value of a field that the kind can select by; `""` without one.
    pub fn field(&self, name: &str) -> &str {
        let field = self.record.view.field(name);
        debug_assert!(field.is_some(), "the kind cannot select by {name}");
        field.unwrap_or_default()
    }

    /// Decodes a member such as `spec`. Unlike the rest, this takes longer for a large object.
    pub fn member(&self, name: &str) -> Option<Value> {
        partial::member(&self.record.value, name)
    }

    /// Decodes a member of a member, such as `data` and `token`. This takes longer for a large object, too.
    pub fn nested_member(&self, outer: &str, name: &str) -> Option<Value> {
        partial::nested_member(&self.record.value, outer, name)
    }

    /// The record.
    pub(crate) fn record(&self) -> &Arc<Record<Projection>> {
        &self.record
    }
}

/// For tests: heads of objects that are in no store.
#[cfg(test)]
pub(crate) mod testing {
    use orlop_api::object::Object;
    use orlop_api::registry::by_resource;
    use orlop_store::{Key, Revision, Stored};

    use super::*;
    use crate::dispatch;

    /// The head of an object of the core group, at revision 1.
    pub(crate) fn head(plural: &str, object: Value) -> ObjectHead {
        head_at(by_resource("", "v1", plural).expect("a kind"), object, 1)
    }

    /// The head of an object at a revision.
    pub(crate) fn head_at(kind: &dyn crate::registry::Kind, object: Value, revision: u64) -> ObjectHead {
        let object = Object::from_value(object);
        let (value, view) = stored::encode(kind, &object);
        let record = Record {
            key: Key::new(dispatch::key(kind, object.namespace(), object.name())),
            stored: Stored::Plain,
            create_revision: Revision(1),
            mod_revision: Revision(revision),
            time_ms: 0,
            value,
            view,
        };
        ObjectHead::of(&Arc::new(record)).expect("it is readable")
    }
}
