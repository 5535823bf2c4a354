//! The custom kinds that are served now: one immutable snapshot, replaced when a definition is written.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use super::bundled;
use super::keeper::Listed;
use super::made::{CustomKind, Definition};
use crate::object::Object;
use crate::registry::KindRef;
use crate::routes::Documents;

/// The custom kinds of a server.
#[derive(Default)]
pub struct Kinds {
    served: ArcSwap<Served>,
    /// One who replaces the snapshot at a time.
    replacing: Mutex<()>,
    /// Whether discovery lists the group of orlop's own paths.
    lists_own: bool,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kinds").finish_non_exhaustive()
    }
}

/// What is served at one time.
#[derive(Default)]
pub(crate) struct Served {
    definitions: Vec<Arc<Definition>>,
    kinds: HashMap<(&'static str, &'static str, &'static str), KindRef>,
    /// Groups and their versions, the preferred one first.
    groups: BTreeMap<&'static str, Vec<&'static str>>,
    /// Whether discovery lists the group of orlop's own paths.
    pub(crate) lists_own: bool,
    /// Discovery and OpenAPI with these kinds, built when first asked for.
    documents: OnceLock<Documents>,
}

impl Kinds {
    /// No custom kinds yet; `lists_own`: discovery lists the group of orlop's own paths.
    pub(crate) fn listing(lists_own: bool) -> Self {
        let served = Served { lists_own, ..Served::default() };
        Kinds { served: ArcSwap::from_pointee(served), lists_own, ..Kinds::default() }
    }

    /// What is served now.
    pub(crate) fn now(&self) -> Arc<Served> {
        self.served.load_full()
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.served.load().groups.contains_key(group)
    }

    pub(crate) fn by_resource(&self, group: &str, version: &str, plural: &str) -> Option<KindRef> {
        self.served.load().kinds.get(&(group, version, plural)).cloned()
    }

    /// Whether the definition of a kind is being deleted by now; `None` when it is gone or is another one.
    pub(crate) fn is_terminating(&self, kind: &CustomKind) -> Option<bool> {
        let own = kind.definition();
        let served = self.served.load();
        let now = served.definitions.iter().find(|known| known.name == own.name && known.uid == own.uid);
        now.map(|definition| definition.is_terminating)
    }

    /// Serves these definitions from now on, and the bundled ones, which stand before stored ones of their names. What is
    /// made already is not made again. Watches of what is no more, or is another now, end; all of them end with the server.
    pub(crate) fn serve(&self, definitions: &[Listed], closing: &CancellationToken) {
        let _one = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.now();
        let by_name: HashMap<&str, &Arc<Definition>> =
            before.definitions.iter().map(|known| (known.name.as_str(), known)).collect();
        let one = |head: &Object, whole: &dyn Fn() -> Object| {
            let known = by_name.get(head.name()).copied();
            match known.filter(|known| known.is_same(head)) {
                Some(known) => Some(known.clone()),
                None => Definition::of(&whole(), known.map(Arc::as_ref), closing).map(Arc::new),
            }
        };
        let bundled = bundled::definitions().iter().filter_map(|object| one(object, &|| object.clone()));
        let own = definitions.iter().filter(|listed| !bundled::has(listed.head.name()));
        let own = own.filter_map(|listed| one(&listed.head, &|| listed.whole()));
        let made: Vec<Arc<Definition>> = bundled.chain(own).collect();
        let same = made.len() == before.definitions.len()
            && made.iter().zip(&before.definitions).all(|(new, old)| Arc::ptr_eq(new, old));
        if same {
            return;
        }
        let next = Arc::new(Served { lists_own: self.lists_own, ..Served::of(made) });
        self.served.store(next.clone());
        for old in &before.definitions {
            let goes_on = next.definitions.iter().any(|new| new.name == old.name && new.is_version_of(old));
            if !goes_on {
                old.ended.cancel();
            }
        }
    }
}

impl Served {
    fn of(definitions: Vec<Arc<Definition>>) -> Self {
        let mut served = Served::default();
        for kind in definitions.iter().flat_map(CustomKind::all) {
            let kind = KindRef::Custom(Arc::new(kind));
            let names = kind.names();
            let (group, version, plural) = (names.group, names.version, names.plural);
            let versions = served.groups.entry(group).or_default();
            if !versions.contains(&version) {
                versions.push(version);
            }
            served.kinds.insert((group, version, plural), kind);
        }
        served.groups.values_mut().for_each(|versions| versions.sort_by(|a, b| version_order(a, b)));
        served.definitions = definitions;
        served
    }

    /// The kinds, in no order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &KindRef> {
        self.kinds.values()
    }

    /// A kind that shows the objects of a definition, whether it is served or not.
    pub(crate) fn any_of(&self, definition: &str) -> Option<KindRef> {
        let found = self.definitions.iter().find(|known| known.name == definition)?;
        Some(KindRef::Custom(Arc::new(CustomKind::first(found))))
    }

    /// Groups and their versions, the preferred one first.
    pub(crate) fn groups(&self) -> &BTreeMap<&'static str, Vec<&'static str>> {
        &self.groups
    }

    /// Name and prefix of each definition, once each.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.definitions.iter().map(|definition| {
            let kind = CustomKind::first(definition);
            let names = kind.own_names();
            (names.group, names.plural, definition.prefix())
        })
    }

    /// The documents about all kinds, given and custom.
    pub(crate) fn documents(&self) -> &Documents {
        self.documents.get_or_init(|| Documents::with(self))
    }
}

/// Versions as Kubernetes orders them: stable before beta before alpha, newer before older, and names
/// that are no versions behind, by the alphabet.
pub(crate) fn version_order(a: &str, b: &str) -> Ordering {
    match (parts(a), parts(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stage, major and minor: `v1beta2` is a 1 of beta 2.
fn parts(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let (stage, minor) = match &rest[digits..] {
        "" => return Some((2, major, 0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (1, minor),
            (None, Some(minor)) => (0, minor),
            (None, None) => return None,
        },
    };
    Some((stage, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_an_order() {
        let mut versions =
            ["foo1", "v1alpha1", "v2", "v11beta2", "v10", "v1", "v3beta1", "foo10", "v12alpha1"];
        versions.sort_by(|a, b| version_order(a, b));
        let want = ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10"];
        assert_eq!(versions, want);
    }
}
