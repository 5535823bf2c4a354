//! A definition in the store, read without its versions.

use std::sync::Arc;

use orlop_store::Record;

use crate::encode::stored;
use crate::projection::Projection;
use orlop_api::object::Object;

/// A definition in the store.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(super) record: Arc<Record<Projection>>,
    /// The definition without its versions, which are most of its size. Names, conditions and finalizers are read
    /// far more often.
    pub(crate) head: Arc<Object>,
}

impl Listed {
    pub(super) fn of(record: &Arc<Record<Projection>>) -> Self {
        let mut head = stored::decode(record);
        head.remove(&["spec", "versions"]);
        Listed { record: record.clone(), head: Arc::new(head) }
    }

    /// Returns the whole definition, with the status of `head`.
    pub(crate) fn whole(&self) -> Object {
        let mut whole = stored::decode(&self.record);
        whole.copy_member(&self.head, "status");
        whole
    }
}
