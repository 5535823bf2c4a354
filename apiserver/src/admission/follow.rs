//! Follows the objects of some kinds in the store: a decision sees every write that was acknowledged before.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_api::object::Object;
use orlop_api::status::ApiError;
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
    /// The objects that cannot be read, by key.
    unreadable: BTreeMap<String, ApiError>,
    progress: Progress<()>,
}

impl<F: Followed> Follower<F> {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        let state =
            State { objects: Arc::default(), unreadable: BTreeMap::new(), progress: Progress::default() };
        Follower { store, state: Mutex::new(state) }
    }

    /// The objects of all acknowledged writes.
    ///
    /// # Errors
    /// One of the objects cannot be read. A decision without it could permit what it forbids.
    pub(crate) fn now(&self) -> Result<Arc<F>, ApiError> {
        let head = self.store.head().revision();
        let mut state = self.state.lock();
        let State { objects, unreadable, progress } = &mut *state;
        let follows = progress.follow(head, |(), kind, key, record| {
            set(Arc::make_mut(objects), unreadable, kind, key, record);
        });
        if !follows {
            let kinds: Vec<FollowedKind<()>> =
                F::KINDS.iter().map(|(group, plural)| ((), *group, *plural)).collect();
            let mut read = F::default();
            unreadable.clear();
            *progress = Progress::read(&*self.store, &kinds, |(), kind, key, record| {
                set(&mut read, unreadable, kind, key, record);
            });
            *objects = Arc::new(read);
        }
        match unreadable.values().next() {
            None => Ok(objects.clone()),
            Some(error) => Err(error.clone()),
        }
    }
}

fn set<F: Followed>(
    objects: &mut F,
    unreadable: &mut BTreeMap<String, ApiError>,
    kind: &dyn Kind,
    key: &str,
    record: Option<&Record<Projection>>,
) {
    let (_, name) = key_names(kind, key);
    unreadable.remove(key);
    let object = match record.map(|record| stored::decode_as(kind, record)).transpose() {
        Ok(object) => object,
        Err(error) => {
            unreadable.insert(key.to_owned(), error);
            None
        }
    };
    objects.set(kind.names().plural, name, object.as_ref());
}
