//! Follows the objects of some kinds in the store: a decision sees every write that was acknowledged before.

use std::sync::Arc;

use futures::FutureExt as _;
use orlop_api::object::Object;
use orlop_store::{Kv, Record, Revision, Watcher};
use parking_lot::Mutex;

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{self, Kind};

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
    /// The objects contain all writes up to this revision.
    revision: Revision,
    watches: Vec<(&'static dyn Kind, Watcher<Projection>)>,
}

impl<F: Followed> Follower<F> {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        let state = State { objects: Arc::default(), revision: Revision::default(), watches: Vec::new() };
        Follower { store, state: Mutex::new(state) }
    }

    /// The objects of all acknowledged writes.
    pub(crate) fn now(&self) -> Arc<F> {
        let head = self.store.head().revision();
        let mut state = self.state.lock();
        if state.watches.is_empty() || (state.revision < head && !state.follow()) {
            *state = self.read();
        }
        state.objects.clone()
    }

    /// Reads all objects, and watches them from there. Without a watch, the next decision reads them again.
    fn read(&self) -> State<F> {
        let head = self.store.head();
        let mut objects = F::default();
        let mut watches = Vec::new();
        for (group, plural) in F::KINDS {
            let Some(kind) = registry::by_resource(group, "v1", plural) else { continue };
            for record in head.range(kind.storage_prefix(), None) {
                set(&mut objects, kind, record.key.as_str(), Some(record));
            }
            if let Ok(watcher) = self.store.watch(kind.storage_prefix(), head.revision()) {
                watches.push((kind, watcher));
            }
        }
        if watches.len() < F::KINDS.len() {
            watches.clear();
        }
        State { objects: Arc::new(objects), revision: head.revision(), watches }
    }
}

impl<F: Followed> State<F> {
    /// Applies the changes since the last call. False if a watch has ended or would have to read the disk.
    fn follow(&mut self) -> bool {
        let mut reached = None;
        for (kind, watcher) in &mut self.watches {
            loop {
                if watcher.is_behind() {
                    return false;
                }
                match watcher.next().now_or_never() {
                    None => break,
                    Some(Err(_)) => return false,
                    Some(Ok(events)) => {
                        let objects = Arc::make_mut(&mut self.objects);
                        for event in events {
                            set(objects, *kind, event.key.as_str(), event.record.as_deref());
                        }
                    }
                }
            }
            let progress = watcher.progress();
            reached = Some(reached.map_or(progress, |before: Revision| before.min(progress)));
        }
        self.revision = reached.unwrap_or(self.revision);
        true
    }
}

fn set<F: Followed>(objects: &mut F, kind: &dyn Kind, key: &str, record: Option<&Record<Projection>>) {
    let (_, name) = key_names(kind, key);
    let object = record.map(|record| stored::decode_as(kind, record));
    objects.set(kind.names().plural, name, object.as_ref());
}
