//! The currently served custom kinds: one immutable snapshot, replaced when a definition is written.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use orlop_apimachinery::version::version_order;
use orlop_crd::{CustomKind, Definition, bundled};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::documents::{CustomOpenApi, Discovery};
use super::listed::Listed;
use crate::registry::{DefinitionId, Kind as _, KindRef};
use orlop_api::object::Object;

/// The custom kinds of a server.
#[derive(Default)]
pub struct Kinds {
    served: ArcSwap<Served>,
    /// Serializes the replacements of the snapshot.
    replacing: Mutex<()>,
    /// Whether discovery lists the group of orlop's own endpoints.
    lists_own: bool,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kinds").finish_non_exhaustive()
    }
}

/// A served definition.
#[derive(Clone)]
struct Live {
    definition: Arc<Definition>,
    /// Cancelled when its objects are no longer served in this form.
    ended: CancellationToken,
}

impl Live {
    fn name(&self) -> &str {
        self.definition.id().name
    }
}

/// A snapshot of the served kinds.
#[derive(Default)]
pub(crate) struct Served {
    definitions: Vec<Live>,
    kinds: HashMap<(&'static str, &'static str, &'static str), KindRef>,
    /// Returns the groups and their versions, the preferred one first.
    groups: BTreeMap<&'static str, Vec<&'static str>>,
    /// The places in `definitions`, by name.
    by_name: HashMap<String, usize>,
    /// The kinds of each group and version, by plural name.
    by_version: HashMap<(&'static str, &'static str), Vec<KindRef>>,
    /// Whether discovery lists the group of orlop's own endpoints.
    pub(crate) lists_own: bool,
    /// The discovery document with these kinds, built on first use.
    pub(crate) discovery: OnceCell<Arc<Discovery>>,
    /// The OpenAPI documents with these kinds, built on first use.
    pub(crate) openapi: OnceLock<CustomOpenApi>,
    /// Held while `openapi` is read, which may build it.
    pub(crate) building: tokio::sync::Mutex<()>,
}

impl Kinds {
    /// Returns a set without custom kinds; `lists_own`: discovery lists the group of orlop's own endpoints.
    pub(crate) fn listing(lists_own: bool) -> Self {
        let served = Served { lists_own, ..Served::default() };
        Kinds { served: ArcSwap::from_pointee(served), lists_own, ..Kinds::default() }
    }

    /// Returns the current snapshot.
    pub(crate) fn now(&self) -> Arc<Served> {
        self.served.load_full()
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.served.load().groups.contains_key(group)
    }

    pub(crate) fn by_resource(&self, group: &str, version: &str, plural: &str) -> Option<KindRef> {
        self.served.load().kinds.get(&(group, version, plural)).cloned()
    }

    /// Whether a definition is being deleted; `None` if it no longer exists.
    pub(crate) fn is_terminating(&self, definition: DefinitionId<'_>) -> Option<bool> {
        let served = self.served.load();
        let found = served.live(definition.name).filter(|live| live.definition.id().uid == definition.uid);
        found.map(|live| live.definition.is_terminating)
    }

    /// Returns a token that is cancelled when the objects of a definition are no longer served in this form.
    pub(crate) fn ended(&self, definition: DefinitionId<'_>) -> CancellationToken {
        let served = self.served.load();
        let found = served.live(definition.name).filter(|live| live.definition.id() == definition);
        found.map_or_else(
            || {
                let ended = CancellationToken::new();
                ended.cancel();
                ended
            },
            |live| live.ended.clone(),
        )
    }

    /// Serves these definitions and the bundled ones, which take precedence over stored ones with the same name.
    /// Unchanged definitions are not compiled again. Watches of removed or changed definitions end; all watches end
    /// with the server.
    pub(crate) fn serve(&self, definitions: &[Listed], closing: &CancellationToken) {
        let _one = self.replacing.lock();
        let before = self.now();
        let by_name: HashMap<&str, &Live> =
            before.definitions.iter().map(|live| (live.name(), live)).collect();
        let one = |head: &Object, whole: &dyn Fn() -> Option<Object>| {
            let known = by_name.get(head.name()).copied();
            if let Some(known) = known.filter(|known| known.definition.is_same(head)) {
                return Some(known.clone());
            }
            let definition = Definition::of(&whole()?)?;
            let same_form = known.filter(|known| definition.is_version_of(&known.definition));
            let ended = same_form.map_or_else(|| closing.child_token(), |known| known.ended.clone());
            Some(Live { definition: Arc::new(definition), ended })
        };
        let bundled = bundled::definitions().iter();
        let bundled = bundled.filter_map(|object| one(object, &|| Some(object.clone())));
        let own = definitions.iter().filter(|listed| !bundled::has(listed.head.name()));
        let own = own.filter_map(|listed| one(&listed.head, &|| listed.whole()));
        let live: Vec<Live> = bundled.chain(own).collect();
        let same = live.len() == before.definitions.len()
            && live
                .iter()
                .zip(&before.definitions)
                .all(|(new, old)| Arc::ptr_eq(&new.definition, &old.definition));
        if same {
            return;
        }
        let next = Arc::new(Served { lists_own: self.lists_own, ..Served::of(live) });
        self.served.store(next.clone());
        for old in &before.definitions {
            let goes_on =
                next.live(old.name()).is_some_and(|new| new.definition.is_version_of(&old.definition));
            if !goes_on {
                old.ended.cancel();
            }
        }
    }
}

impl Served {
    fn of(definitions: Vec<Live>) -> Self {
        let mut served = Served::default();
        for kind in definitions.iter().flat_map(|live| CustomKind::all(&live.definition)) {
            let kind = KindRef::Custom(Arc::new(kind));
            let names = kind.names();
            let (group, version, plural) = (names.group, names.version, names.plural);
            served.by_version.entry((group, version)).or_default().push(kind.clone());
            served.kinds.insert((group, version, plural), kind);
        }
        for (group, version) in served.by_version.keys() {
            served.groups.entry(group).or_default().push(version);
        }
        served.groups.values_mut().for_each(|versions| versions.sort_by(|a, b| version_order(a, b)));
        served.by_version.values_mut().for_each(|kinds| kinds.sort_by_key(|kind| kind.names().plural));
        let names = definitions.iter().map(|live| live.name().to_owned());
        served.by_name = names.zip(0..).collect();
        served.definitions = definitions;
        served
    }

    fn live(&self, name: &str) -> Option<&Live> {
        self.definitions.get(*self.by_name.get(name)?)
    }

    /// Returns the kinds of a group and version, by plural name.
    pub(crate) fn kinds_of(&self, group: &str, version: &str) -> Vec<KindRef> {
        self.by_version.get(&(group, version)).cloned().unwrap_or_default()
    }

    /// Returns the kinds in arbitrary order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &KindRef> {
        self.kinds.values()
    }

    /// Returns a kind that shows the objects of a definition, even if that kind is not served.
    pub(crate) fn any_of(&self, definition: &str) -> Option<KindRef> {
        let found = self.live(definition)?;
        Some(KindRef::Custom(Arc::new(CustomKind::first(&found.definition))))
    }

    /// Groups and their versions, the preferred one first.
    pub(crate) fn groups(&self) -> &BTreeMap<&'static str, Vec<&'static str>> {
        &self.groups
    }

    /// The number of served definitions.
    pub(crate) fn definition_count(&self) -> usize {
        self.definitions.len()
    }

    /// Returns the group, plural and storage prefix of each definition, once each.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.definitions.iter().map(|live| {
            let kind = CustomKind::first(&live.definition);
            let names = kind.own_names();
            (names.group, names.plural, kind.storage_prefix())
        })
    }
}
