//! Records that were unreadable when the store was opened, because a KMS plugin was not available. When the plugin is available, the
//! server writes them again with the same value. It does not change the state in memory instead, because watches, indexes and caches
//! follow writes.

use std::collections::VecDeque;

use orlop_store::{Expect, Key, Op, Snapshot, Transformer as _, View, Write};

use crate::chain::KMS;
use crate::encryption::Encryption;

/// The largest number of records in a commit.
const WRITES: usize = 100;
/// The size of the values in a commit, in bytes, unless one value is larger.
const BYTES: usize = 1 << 20;

/// The records that are still unreadable.
#[derive(Debug)]
pub struct Recovery(VecDeque<Key>);

impl Recovery {
    /// The unreadable records of a state that a KMS plugin has encrypted.
    pub fn new<V>(head: &Snapshot<V>) -> Self {
        let records = head.range("", None).filter(|record| {
            record.unreadable().is_some() && record.stored_bytes().starts_with(KMS.as_bytes())
        });
        Recovery(records.map(|record| record.key.clone()).collect())
    }

    /// Whether no record is left.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// The next writes, at the state `head`: some of the records that can be read now. Empty if the first record is still unreadable;
    /// the next call then tries another one. The caller commits the writes, and calls again at the resulting state. May call a
    /// plugin, so it blocks.
    pub fn writes<V: View>(&mut self, encryption: &Encryption, head: &Snapshot<V>) -> Vec<Write<V>> {
        let (mut writes, mut bytes) = (Vec::new(), 0);
        let mut nth = 0;
        while let Some(key) = self.0.get(nth)
            && writes.len() < WRITES
            && bytes < BYTES
        {
            let unreadable = head.get(key.as_str()).filter(|record| record.unreadable().is_some());
            let Some(record) = unreadable else {
                // It was written again, replaced or deleted.
                self.0.remove(nth);
                continue;
            };
            let Ok(decoded) = encryption.decode(key, record.stored_bytes()) else { break };
            let value = decoded.value.unwrap_or_else(|| record.stored_bytes().clone());
            bytes += value.len();
            let view = V::of(key, &value);
            let expect = Expect::Revision(record.mod_revision);
            writes.push(Write { key: key.clone(), expect, op: Op::Put { value, view } });
            nth += 1;
        }
        if writes.is_empty() && !self.0.is_empty() {
            self.0.rotate_left(1);
        }
        writes
    }
}
