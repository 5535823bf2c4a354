//! Follows the objects of some kinds in the store: a decision sees every write that was acknowledged before.

use std::sync::Arc;

use orlop_api::object::Object;
use orlop_store::{Kv, Record};
use parking_lot::Mutex;

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::followed::{Followed as Progress, FollowedKind};
use crate::projection::Projection;
use crate::registry::Kind;

/// Objects in the form in which decisions use them.
pub(crate) trait Followed: Clone + Default {
    /// Group and plural of each kind.
    const KINDS: &'static [(&'static str, &'static str)];
    /// Replaces or removes an object of the kind with this plural.
    fn set(&mut self, plural: &str, name: &str, object: Option<&Object>);
}

/// The objects, and how far they have been read from the store.
pub(crate) struct Follower<F> {
    store: Arc<dyn Kv<Projection>>,
    state: Mutex<State<F>>,
}

struct State<F> {
    objects: Arc<F>,
    progress: Progress<()>,
}

impl<F: Followed> Follower<F> {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        let state = State { objects: Arc::default(), progress: Progress::default() };
        Follower { store, state: Mutex::new(state) }
    }

    /// The objects of all acknowledged writes.
    pub(crate) fn now(&self) -> Arc<F> {
        let head = self.store.head().revision();
        let mut state = self.state.lock();
        let State { objects, progress } = &mut *state;
        let follows =
            progress.follow(head, |(), kind, key, record| set(Arc::make_mut(objects), kind, key, record));
        if !follows {
            let kinds: Vec<FollowedKind<()>> =
                F::KINDS.iter().map(|(group, plural)| ((), *group, *plural)).collect();
            let mut read = F::default();
            *progress = Progress::read(&*self.store, &kinds, |(), kind, key, record| {
                set(&mut read, kind, key, record);
            });
            *objects = Arc::new(read);
        }
        objects.clone()
    }
}

fn set<F: Followed>(objects: &mut F, kind: &dyn Kind, key: &str, record: Option<&Record<Projection>>) {
    let (_, name) = key_names(kind, key);
    let object = record.map(|record| stored::decode_as(kind, record));
    objects.set(kind.names().plural, name, object.as_ref());
}
