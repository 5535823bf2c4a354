//! The projection of an object that the store keeps next to its record.

use std::ops::Deref;

use bytes::Bytes;
use orlop_store::{Key, View};

/// The projection that the store keeps next to each record: [`orlop_api::projection::Projection`], read from the
/// stored bytes.
#[derive(Debug, Default)]
pub struct Projection(pub(crate) orlop_api::projection::Projection);

impl Deref for Projection {
    type Target = orlop_api::projection::Projection;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl View for Projection {
    fn of(key: &Key, value: &Bytes) -> Self {
        Projection(orlop_api::projection::Projection::read(key.topic(), value))
    }
}
