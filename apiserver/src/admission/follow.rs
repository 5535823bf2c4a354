//! Follows the objects of some kinds in the store: a decision sees every write that was acknowledged before.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_store::{Kv, Record, Revision, Snapshot, Watcher};
use parking_lot::Mutex;

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::followed::{Followed as Progress, FollowedKind, Reached};
use crate::projection::Projection;
use crate::registry::{self, Kind};

/// Objects in the form in which decisions use them.
pub(crate) trait Followed: Clone + Default {
    /// Group and plural of each kind.
    const KINDS: &'static [(&'static str, &'static str)];
    /// Replaces or removes an object of the kind with this plural. If the objects are read again, `known` are those before.
    fn set(&mut self, plural: &str, name: &str, object: Option<&Object>, known: Option<&Self>);
}

/// The objects, and how far they have been read from the store.
pub(crate) struct Follower<F> {
    store: Arc<dyn Kv<Projection>>,
    /// The key prefixes of the kinds `F::KINDS`.
    prefixes: Vec<&'static str>,
    /// Locked while objects are compiled.
    state: Mutex<State<F>>,
    /// Never locked for long.
    latest: Mutex<Latest<F>>,
}

/// The objects of the last decision.
struct Latest<F> {
    objects: Arc<F>,
    /// `None` if no decision was made, or if an object cannot be read.
    version: Option<Version>,
    /// Watches that report when the objects may have changed since they were compared with the store. Empty before.
    unchanged: Vec<Watcher<Projection>>,
}

impl<F> Latest<F> {
    /// Whether the objects are certainly those of the store at a revision.
    fn is_of(&self, revision: Revision) -> bool {
        let is_quiet =
            |watcher: &Watcher<Projection>| watcher.quiet().is_some_and(|reached| reached >= revision);
        !self.unchanged.is_empty() && self.unchanged.iter().all(is_quiet)
    }
}

/// The most objects that are counted on the thread of a connection: a record takes about 100 ns.
const MOST_COUNTED: usize = 5_000;

/// The number of the objects, and the revision of the newest one. No two states of the store have the same.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Version {
    count: usize,
    newest: Revision,
}

impl Version {
    /// That of the objects in the store with these key prefixes; `None` if there are too many to count.
    fn of(head: &Snapshot<Projection>, prefixes: &[&str]) -> Option<Self> {
        let mut version = Version::default();
        for prefix in prefixes {
            for record in head.range(prefix, None) {
                version.count += 1;
                version.newest = version.newest.max(record.mod_revision);
                if version.count > MOST_COUNTED {
                    return None;
                }
            }
        }
        Some(version)
    }
}

struct State<F> {
    objects: Arc<F>,
    /// The objects that cannot be read, by key.
    unreadable: BTreeMap<String, ApiError>,
    /// The revision of each object, by key.
    revisions: BTreeMap<String, Revision>,
    progress: Progress<()>,
}

impl<F: Followed> Follower<F> {
    /// Reads the store at the first decision.
    pub(crate) fn new(store: Arc<dyn Kv<Projection>>) -> Self {
        let state = State {
            objects: Arc::default(),
            unreadable: BTreeMap::new(),
            revisions: BTreeMap::new(),
            progress: Progress::default(),
        };
        let latest = Latest { objects: Arc::default(), version: None, unchanged: Vec::new() };
        let kinds = F::KINDS.iter().filter_map(|(group, plural)| registry::by_resource(group, "v1", plural));
        Follower {
            store,
            prefixes: kinds.map(|kind| kind.storage_prefix()).collect(),
            state: Mutex::new(state),
            latest: Mutex::new(latest),
        }
    }

    /// The objects in a state of the store, if a decision has used them already: nothing is read or compiled, and the caller does not
    /// wait for another one that does.
    pub(crate) fn known(&self, head: &Snapshot<Projection>) -> Option<Arc<F>> {
        {
            let latest = self.latest.lock();
            if latest.is_of(head.revision()) {
                return Some(latest.objects.clone());
            }
        }
        let version = Version::of(head, &self.prefixes)?;
        let mut latest = self.latest.lock();
        if version == Version::default() {
            latest.objects = Arc::default();
        } else if latest.version != Some(version) {
            return None;
        }
        let watches = self.prefixes.iter().map(|prefix| self.store.watch(prefix, head.revision()));
        latest.unchanged = watches.collect::<Result<_, _>>().unwrap_or_default();
        Some(latest.objects.clone())
    }

    /// The objects of all acknowledged writes. Those that have changed are compiled, which may take long.
    ///
    /// # Errors
    /// One of the objects cannot be read. A decision without it could permit what it forbids.
    pub(crate) fn now(&self) -> Result<Arc<F>, ApiError> {
        let head = self.store.head().revision();
        let mut state = self.state.lock();
        let State { objects, unreadable, revisions, progress } = &mut *state;
        let mut is_changed = false;
        let reached = progress.follow(head, usize::MAX, |(), kind, key, record| {
            is_changed = true;
            set((Arc::make_mut(objects), None), unreadable, revisions, kind, key, record);
        });
        let is_lost = reached != Reached::Head;
        if is_lost {
            let kinds: Vec<FollowedKind<()>> =
                F::KINDS.iter().map(|(group, plural)| ((), *group, *plural)).collect();
            let mut read = F::default();
            unreadable.clear();
            revisions.clear();
            *progress = Progress::read(&*self.store, &kinds, |(), kind, key, record| {
                set((&mut read, Some(&**objects)), unreadable, revisions, kind, key, record);
            });
            *objects = Arc::new(read);
        }
        if is_changed || is_lost {
            let newest = revisions.values().copied().max().unwrap_or_default();
            let version = unreadable.is_empty().then_some(Version { count: revisions.len(), newest });
            *self.latest.lock() = Latest { objects: objects.clone(), version, unchanged: Vec::new() };
        }
        match unreadable.values().next() {
            None => Ok(objects.clone()),
            Some(error) => Err(error.clone()),
        }
    }
}

fn set<F: Followed>(
    (objects, known): (&mut F, Option<&F>),
    unreadable: &mut BTreeMap<String, ApiError>,
    revisions: &mut BTreeMap<String, Revision>,
    kind: &dyn Kind,
    key: &str,
    record: Option<&Record<Projection>>,
) {
    let (_, name) = key_names(kind, key);
    unreadable.remove(key);
    match record {
        Some(record) => drop(revisions.insert(key.to_owned(), record.mod_revision)),
        None => drop(revisions.remove(key)),
    }
    let object = match record.map(|record| stored::decode_as(kind, record)).transpose() {
        Ok(object) => object,
        Err(error) => {
            unreadable.insert(key.to_owned(), error);
            None
        }
    };
    objects.set(kind.names().plural, name, object.as_ref(), known);
}
