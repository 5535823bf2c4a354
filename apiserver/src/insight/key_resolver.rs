//! From a key of the store to the kind whose object lies there. Keys that hold no objects (addresses that are given,
//! the key of the tokens) have no place, and nothing is told of them.

use std::collections::HashMap;
use std::sync::Arc;

use orlop_store::key::topic_of;

use crate::custom::{Kinds, Served};
use crate::registry::{KINDS, KindRef};

/// Every kind that has objects, once each, in its preferred version: the given ones first.
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

/// The plural name with its group where it has one: `pods`, `volumeattachments.storage.k8s.io`.
pub(super) fn resource_name(kind: &KindRef) -> String {
    let names = kind.names();
    match names.group {
        "" => names.plural.to_owned(),
        group => format!("{}.{group}", names.plural),
    }
}

/// Where objects of a kind lie.
pub(super) struct Place {
    pub(super) kind: KindRef,
    /// As lines name it.
    pub(super) resource: String,
    pub(super) prefix: &'static str,
}

/// The places of all kinds, or of some.
pub(super) struct KeyResolver {
    served: Arc<Served>,
    /// Only these prefixes; empty for all.
    only: Vec<&'static str>,
    list: Vec<Place>,
    /// Where in `list` the places of a topic are.
    by_topic: HashMap<String, Vec<usize>>,
}

impl KeyResolver {
    /// The places of what is served now; `only` names the prefixes that are asked for, all when it is empty.
    pub(super) fn now(kinds: &Kinds, only: Vec<&'static str>) -> Self {
        let served = kinds.now();
        let is_asked = |kind: &KindRef| only.is_empty() || only.contains(&kind.storage_prefix());
        let list: Vec<Place> = self::kinds(&served)
            .into_iter()
            .filter(|kind| !kind.is_view() && is_asked(kind))
            .map(|kind| Place { resource: resource_name(&kind), prefix: kind.storage_prefix(), kind })
            .collect();
        let mut by_topic: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, place) in list.iter().enumerate() {
            by_topic.entry(topic_of(place.prefix).to_owned()).or_default().push(at);
        }
        KeyResolver { served, only, list, by_topic }
    }

    /// The same with the kinds that are served by now. The places of those that have gone stay: there may be deletions
    /// of their objects still to tell.
    pub(super) fn refreshed(self, kinds: &Kinds) -> Self {
        if Arc::ptr_eq(&self.served, &kinds.now()) {
            return self;
        }
        let mut next = KeyResolver::now(kinds, self.only);
        for place in self.list {
            if next.list.iter().all(|other| other.prefix != place.prefix) {
                next.by_topic.entry(topic_of(place.prefix).to_owned()).or_default().push(next.list.len());
                next.list.push(place);
            }
        }
        next
    }

    /// All of them, in a fixed order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.list.iter()
    }

    /// One of them by its number in that order.
    pub(super) fn get(&self, at: usize) -> Option<&Place> {
        self.list.get(at)
    }

    /// The place that a key lies in.
    pub(super) fn of_key(&self, key: &str) -> Option<&Place> {
        let candidates = self.by_topic.get(topic_of(key))?;
        candidates.iter().filter_map(|at| self.list.get(*at)).find(|place| key.starts_with(place.prefix))
    }
}
