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
    /// The definition of a record; `None` if it cannot be read. Its kind is then not served.
    pub(super) fn of(record: &Arc<Record<Projection>>) -> Option<Self> {
        let mut head = stored::decode(record).ok()?;
        head.remove(&["spec", "versions"]);
        Some(Listed { record: record.clone(), head: Arc::new(head) })
    }

    /// Returns the whole definition, with the status of `head`; `None` if it cannot be read.
    pub(crate) fn whole(&self) -> Option<Object> {
        let mut whole = stored::decode(&self.record).ok()?;
        whole.copy_member(&self.head, "status");
        Some(whole)
    }
}
