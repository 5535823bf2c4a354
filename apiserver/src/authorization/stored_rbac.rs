//! The roles and bindings of the store, indexed.
//!
//! A decision sees every write that was acknowledged before: the index is brought up to date when it is read.

use std::sync::Arc;

use orlop_auth::rbac::{RbacIndex, RbacKind};
use orlop_store::{Kv, Record, Revision};
use parking_lot::Mutex;

use super::{BRIEF_BYTES, BRIEF_WAIT};
use crate::dispatch::key_names;
use crate::encode::stored;
use crate::followed::{Followed, FollowedKind, Reached};
use crate::projection::Projection;
use crate::registry::Kind;
use orlop_api::object::Object;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The kinds of the index.
const KINDS: [FollowedKind<RbacKind>; 4] = [
    (RbacKind::Role, GROUP, "roles"),
    (RbacKind::ClusterRole, GROUP, "clusterroles"),
    (RbacKind::RoleBinding, GROUP, "rolebindings"),
    (RbacKind::ClusterRoleBinding, GROUP, "clusterrolebindings"),
];

/// The index, and how far it has read the store.
pub(crate) struct StoredRbac {
    store: Arc<dyn Kv<Projection>>,
    state: Mutex<IndexState>,
}

#[derive(Default)]
struct IndexState {
    index: Arc<RbacIndex>,
    followed: Followed<RbacKind>,
}

impl StoredRbac {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        StoredRbac { store, state: Mutex::default() }
    }

    /// The index of all acknowledged writes.
    pub(crate) fn now(&self) -> Arc<RbacIndex> {
        let mut state = self.state.lock();
        let head = self.store.head().revision();
        match state.follow(head, usize::MAX) {
            Reached::Head => {}
            // There is no limit, so nothing is too large.
            Reached::Large | Reached::Lost => state.read(&*self.store),
        }
        state.index.clone()
    }

    /// Like [`now`](Self::now), on a thread that serves connections. `None` if large roles or bindings must be decoded before, or if
    /// another thread decodes them.
    pub(crate) fn now_briefly(&self) -> Option<Arc<RbacIndex>> {
        let mut state = self.state.try_lock_for(BRIEF_WAIT)?;
        if state.followed.is_current() {
            return Some(state.index.clone());
        }
        let head = self.store.head().revision();
        (state.follow(head, BRIEF_BYTES) == Reached::Head).then(|| state.index.clone())
    }
}

impl IndexState {
    fn follow(&mut self, head: Revision, most: usize) -> Reached {
        let IndexState { index, followed } = self;
        followed
            .follow(head, most, |rbac, kind, key, record| set(Arc::make_mut(index), rbac, kind, key, record))
    }

    fn read(&mut self, store: &dyn Kv<Projection>) {
        let mut read = RbacIndex::default();
        self.followed = Followed::read(store, &KINDS, |rbac, kind, key, record| {
            set(&mut read, rbac, kind, key, record);
        });
        self.index = Arc::new(read);
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
    // An unreadable role or binding permits nothing.
    let object = record.and_then(|record| stored::decode_as(kind, record).ok()).map(Object::into_value);
    index.set(rbac, namespace, name, object.as_ref());
}
