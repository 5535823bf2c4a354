//! The roles and bindings of the store, indexed.
//!
//! A decision sees every write that was acknowledged before: the index is brought up to date when it is read.

use std::sync::Arc;

use futures::FutureExt as _;
use orlop_auth::rbac::{RbacIndex, RbacKind};
use orlop_store::{Event, Kv, Record, Revision, Watcher};
use parking_lot::Mutex;

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{self, Kind};

/// The kinds of the index, and their plural names.
const KINDS: [(RbacKind, &str); 4] = [
    (RbacKind::Role, "roles"),
    (RbacKind::ClusterRole, "clusterroles"),
    (RbacKind::RoleBinding, "rolebindings"),
    (RbacKind::ClusterRoleBinding, "clusterrolebindings"),
];

/// The index, and how far it has read the store.
pub(crate) struct StoredRbac {
    store: Arc<dyn Kv<Projection>>,
    state: Mutex<IndexState>,
}

#[derive(Default)]
struct IndexState {
    index: Arc<RbacIndex>,
    /// The index contains all writes up to this revision.
    revision: Revision,
    watches: Vec<Watch>,
}

struct Watch {
    rbac: RbacKind,
    kind: &'static dyn Kind,
    watcher: Watcher<Projection>,
}

impl StoredRbac {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        StoredRbac { store, state: Mutex::default() }
    }

    /// The index of all acknowledged writes.
    pub(crate) fn now(&self) -> Arc<RbacIndex> {
        let head = self.store.head().revision();
        let mut state = self.state.lock();
        if state.watches.is_empty() || (state.revision < head && !state.follow()) {
            *state = self.read();
        }
        state.index.clone()
    }

    /// Reads all roles and bindings, and watches them from there. Without a watch, the next decision reads them again.
    fn read(&self) -> IndexState {
        let head = self.store.head();
        let mut index = RbacIndex::default();
        let mut watches = Vec::new();
        for (rbac, plural) in KINDS {
            let Some(kind) = registry::by_resource("rbac.authorization.k8s.io", "v1", plural) else {
                continue;
            };
            for record in head.range(kind.storage_prefix(), None) {
                set(&mut index, rbac, kind, record.key.as_str(), Some(record));
            }
            if let Ok(watcher) = self.store.watch(kind.storage_prefix(), head.revision()) {
                watches.push(Watch { rbac, kind, watcher });
            }
        }
        if watches.len() < KINDS.len() {
            watches.clear();
        }
        IndexState { index: Arc::new(index), revision: head.revision(), watches }
    }
}

impl IndexState {
    /// Applies the changes since the last call. False if a watch has ended or would have to read the disk.
    fn follow(&mut self) -> bool {
        let mut reached = None;
        for Watch { rbac, kind, watcher } in &mut self.watches {
            loop {
                if watcher.is_behind() {
                    return false;
                }
                match watcher.next().now_or_never() {
                    None => break,
                    Some(Err(_)) => return false,
                    Some(Ok(events)) => apply(Arc::make_mut(&mut self.index), *rbac, *kind, &events),
                }
            }
            let progress = watcher.progress();
            reached = Some(reached.map_or(progress, |before: Revision| before.min(progress)));
        }
        self.revision = reached.unwrap_or(self.revision);
        true
    }
}

fn apply(index: &mut RbacIndex, rbac: RbacKind, kind: &dyn Kind, events: &[Arc<Event<Projection>>]) {
    for event in events {
        set(index, rbac, kind, event.key.as_str(), event.record.as_deref());
    }
}

fn set(
    index: &mut RbacIndex,
    rbac: RbacKind,
    kind: &dyn Kind,
    key: &str,
    record: Option<&Record<Projection>>,
) {
    let (namespace, name) = key_names(kind, key);
    let object = record.map(|record| stored::decode_as(kind, record).into_value());
    index.set(rbac, namespace, name, object.as_ref());
}
