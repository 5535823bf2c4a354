//! The state that readers see, and why the store accepts no more writes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use crate::snapshot::Index;
use crate::watch::Hub;
use crate::{Revision, Snapshot};

/// The newest state that readers see.
pub(crate) struct Head<V> {
    pub(crate) revision: Revision,
    pub(crate) index: Index<V>,
}

/// The state that the committer publishes.
pub(crate) struct Published<V> {
    pub(super) head: ArcSwap<Head<V>>,
    pub(crate) hub: Arc<Hub<V>>,
    poison: OnceLock<String>,
}

impl<V> Published<V> {
    pub(crate) fn new(head: Head<V>, hub: Arc<Hub<V>>) -> Self {
        Published { head: ArcSwap::from_pointee(head), hub, poison: OnceLock::new() }
    }

    pub(crate) fn head(&self) -> Snapshot<V> {
        let head = self.head.load();
        Snapshot::new(head.revision, head.index.clone(), BTreeMap::new())
    }

    /// The newest state.
    pub(crate) fn current(&self) -> Arc<Head<V>> {
        self.head.load_full()
    }

    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Stops all writes permanently. Only the first reason is recorded.
    pub(crate) fn poison(&self, why: String) {
        if self.poison.set(why).is_ok() {
            let why = self.poisoned();
            tracing::error!(why, "the store rejects writes until it is opened again");
        }
    }
}
