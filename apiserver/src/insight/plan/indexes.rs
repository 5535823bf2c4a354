//! Indexes of the objects of one revision, for plans that would otherwise read them once for each of many others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orlop_store::Record;

use super::cluster_view::{ClusterView, mentions, owners, pods};
use super::facts::{claims_of, is_over, key_of};
use crate::projection::Projection;
use crate::registry::{KINDS, KindRef};
use orlop_api::object::Object;

/// The facts about a pod that refers to a claim.
#[derive(Clone)]
pub(super) struct PodUse {
    pub(super) uid: String,
    pub(super) key: String,
    pub(super) has_node: bool,
    pub(super) is_over: bool,
}

impl PodUse {
    pub(super) fn of(pod: &Object) -> Self {
        let has_node = !pod.str_at(&["spec", "nodeName"]).is_empty();
        PodUse { uid: pod.uid().to_owned(), key: key_of(pod), has_node, is_over: is_over(pod) }
    }
}

/// The pods that use each claim of a namespace, because there may be many of both.
pub(super) fn uses(view: &ClusterView<'_>, namespace: &str) -> HashMap<String, Vec<PodUse>> {
    let mut uses: HashMap<String, Vec<PodUse>> = HashMap::new();
    let names_any =
        |record: &Record<Projection>| mentions(record, "\"claimName\"") || mentions(record, "\"ephemeral\"");
    for pod in view.glance(pods(), namespace, names_any) {
        let named: HashSet<String> = claims_of(&pod).collect();
        let used = PodUse::of(&pod);
        named.into_iter().for_each(|claim| uses.entry(claim).or_default().push(used.clone()));
    }
    uses
}

/// The stored kinds.
pub(super) fn stored_kinds(custom: &[KindRef]) -> impl Iterator<Item = KindRef> {
    let given = KINDS.iter().copied().map(KindRef::Builtin);
    given.chain(custom.iter().cloned()).filter(|kind| kind.is_stored() && !kind.is_view())
}

/// A record, and the uids of its owners.
pub(super) type RecordWithOwners = (Arc<Record<Projection>>, Vec<String>);

/// The objects with owners, by kind: read once for all levels.
pub(super) struct Owned(pub(super) Vec<(KindRef, Vec<RecordWithOwners>)>);

impl Owned {
    pub(super) fn of(view: &ClusterView<'_>, custom: &[KindRef]) -> Self {
        let of_kind = |kind: KindRef| {
            let records = view.records(&*kind, "");
            let owned = records.map(|record| {
                let owners = owners(&record);
                (record, owners)
            });
            let owned = owned.filter(|(_, owners)| !owners.is_empty()).collect();
            (kind, owned)
        };
        Owned(stored_kinds(custom).map(of_kind).collect())
    }
}
