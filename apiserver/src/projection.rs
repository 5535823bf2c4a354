//! The projection of an object as the view that the store keeps beside its record.

use std::ops::Deref;

use bytes::Bytes;
use orlop_store::{Key, View};

/// The view that the store keeps beside each record: [`orlop_api::projection::Projection`], read from stored bytes.
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
