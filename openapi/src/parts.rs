//! Parts of a document as JSON. A document with thousands of custom kinds would need a hundred times the memory as values.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The members of an object, each as JSON.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Parts(BTreeMap<String, Box<RawValue>>);

impl Parts {
    /// Inserts a member. It replaces a member with the same name.
    pub(crate) fn insert(
        &mut self,
        name: impl Into<String>,
        value: &impl Serialize,
    ) -> serde_json::Result<()> {
        self.0.insert(name.into(), to_raw_value(value)?);
        Ok(())
    }

    /// Inserts all members of an object.
    pub(crate) fn insert_all(&mut self, members: &Value) -> serde_json::Result<()> {
        members.as_object().into_iter().flatten().try_for_each(|(name, value)| self.insert(name, value))
    }

    pub(crate) fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&self.0)
    }
}
