//! Resolves a store key to the kind of its object. Keys without objects (allocated addresses, the token key)
//! resolve to no place and are not reported.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::custom::{Kinds, Served};
use crate::registry::{KINDS, KindRef};

/// All kinds that have objects, once each, in their preferred version: built-in kinds first.
pub(super) fn kinds(served: &Served) -> Vec<KindRef> {
    let mut all: Vec<KindRef> =
        KINDS.iter().filter(|kind| kind.is_stored()).map(|kind| KindRef::Builtin(*kind)).collect();
    let rank = |kind: &KindRef| {
        let names = kind.names();
        let versions = served.groups().get(names.group).map(Vec::as_slice).unwrap_or_default();
        versions.iter().position(|version| *version == names.version).unwrap_or(usize::MAX)
    };
    let mut custom: Vec<KindRef> = served.kinds().cloned().collect();
    custom.sort_by(|a, b| {
        let (one, other) = (a.names(), b.names());
        (one.group, one.plural, rank(a)).cmp(&(other.group, other.plural, rank(b)))
    });
    custom.dedup_by(|next, first| {
        (next.names().group, next.names().plural) == (first.names().group, first.names().plural)
    });
    all.extend(custom);
    all
}

/// The plural name, with the group if there is one: `pods`, `volumeattachments.storage.k8s.io`.
pub(super) fn resource_name(kind: &KindRef) -> String {
    let names = kind.names();
    match names.group {
        "" => names.plural.to_owned(),
        group => format!("{}.{group}", names.plural),
    }
}

/// The key prefix of a kind.
pub(super) struct KindPrefix {
    pub(super) kind: KindRef,
    /// The resource name in output lines.
    pub(super) resource: String,
    pub(super) prefix: &'static str,
}

/// Which kinds a response contains.
#[derive(Default)]
pub(super) struct Selection {
    /// The prefixes that the client selects; empty for all.
    pub(super) only: HashSet<&'static str>,
    /// The prefixes of the kinds that the user may read; `None` for all.
    pub(super) readable: Option<HashSet<&'static str>>,
}

impl Selection {
    fn has(&self, kind: &KindRef) -> bool {
        let prefix = kind.storage_prefix();
        let is_readable = self.readable.as_ref().is_none_or(|readable| readable.contains(prefix));
        is_readable && (self.only.is_empty() || self.only.contains(prefix))
    }
}

/// The key prefixes of all kinds, or of selected ones.
pub(super) struct KeyResolver {
    served: Arc<Served>,
    selection: Selection,
    list: Vec<KindPrefix>,
    /// Indexes into `list`, by prefix.
    by_prefix: HashMap<&'static str, usize>,
}

impl KeyResolver {
    /// A resolver for the served kinds that `selection` contains.
    pub(super) fn now(kinds: &Kinds, selection: Selection) -> Self {
        let served = kinds.now();
        let list: Vec<KindPrefix> = self::kinds(&served)
            .into_iter()
            .filter(|kind| !kind.is_view() && selection.has(kind))
            .map(|kind| KindPrefix { resource: resource_name(&kind), prefix: kind.storage_prefix(), kind })
            .collect();
        let by_prefix = list.iter().map(|place| place.prefix).zip(0..).collect();
        KeyResolver { served, selection, list, by_prefix }
    }

    /// Updates the resolver to the kinds served now; `may_read` decides about new kinds. Kinds that are no longer
    /// served remain: deletions of their objects may still have to be reported.
    pub(super) fn refreshed(mut self, kinds: &Kinds, may_read: impl Fn(&KindRef) -> bool) -> Self {
        let served = kinds.now();
        if Arc::ptr_eq(&self.served, &served) {
            return self;
        }
        if let Some(readable) = &mut self.selection.readable {
            let known: HashSet<&str> =
                self::kinds(&self.served).iter().map(|kind| kind.storage_prefix()).collect();
            let new = self::kinds(&served);
            let new = new.iter().filter(|kind| !known.contains(kind.storage_prefix()) && may_read(kind));
            readable.extend(new.map(|kind| kind.storage_prefix()));
        }
        let mut next = KeyResolver::now(kinds, self.selection);
        for place in self.list {
            if let Entry::Vacant(entry) = next.by_prefix.entry(place.prefix) {
                entry.insert(next.list.len());
                next.list.push(place);
            }
        }
        next
    }

    /// The kind at an index; the order is fixed.
    pub(super) fn get(&self, at: usize) -> Option<&KindPrefix> {
        self.list.get(at)
    }

    /// The place that contains a key.
    pub(super) fn of_key(&self, key: &str) -> Option<&KindPrefix> {
        // Prefixes end with the third or the fourth slash.
        let ends = key.match_indices('/').map(|(at, _)| at).skip(2).take(2);
        let mut prefixes = ends.filter_map(|end| key.get(..=end));
        prefixes.find_map(|prefix| self.list.get(*self.by_prefix.get(prefix)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readable_kinds_are_selected() {
        let readable = Some(HashSet::from(["/registry/pods/", "/registry/configmaps/"]));
        let resources = |only: HashSet<&'static str>| {
            let selection = Selection { only, readable: readable.clone() };
            let resolver = KeyResolver::now(&Kinds::default(), selection);
            resolver.list.iter().map(|place| place.resource.clone()).collect::<HashSet<_>>()
        };
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
        assert_eq!(resources(HashSet::new()), named(&["configmaps", "pods"]));
        assert_eq!(resources(HashSet::from(["/registry/pods/", "/registry/secrets/"])), named(&["pods"]));
    }

    #[test]
    fn every_prefix_resolves_its_keys() {
        let resolver = KeyResolver::now(&Kinds::default(), Selection::default());
        for place in resolver.list.iter() {
            let key = format!("{}some/name", place.prefix);
            assert_eq!(resolver.of_key(&key).map(|found| found.prefix), Some(place.prefix));
        }
        for none in ["", "/registry", "/registry/ranges/serviceips", "/registry/podsx/a/b"] {
            assert!(resolver.of_key(none).is_none(), "{none}");
        }
    }
}
