//! Adopts and releases objects. A workload controls the objects that match its selector and have no other
//! controller, and releases those that no longer match. Before the first adoption, the workload is read from
//! the server: a cached workload may already be deleted, and the garbage collector would delete the adopted
//! objects with it. Upstream: pkg/controller/controller_ref_manager.go.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use orlop_apimachinery::labels::Selector;
use orlop_client::api::Api;
use serde_json::json;

use super::error::WorkloadError;
use super::owned::{Namespaced, controller_of, controller_reference, fits, is_controlled, is_neighbour};
use orlop_client::client::{is_not_found, status_of};
use orlop_client::informer::{key_of, split_key};
use orlop_client::meta::is_terminating;
use orlop_client::time_slice::TimeSlice;

/// The relation of an object to a workload.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Tie {
    /// The workload controls it, and it matches.
    Mine,
    /// It matches and has no controller.
    Adopt,
    /// The workload controls it, but it no longer matches.
    Release,
    /// It is another owner's, in another namespace, or does not fit.
    Ignore,
}

/// Determines the relation of one object to a workload.
pub fn tie<O: Namespaced>(object: &ObjectMeta, owner: &O, fits: bool) -> Tie {
    let (meta, owner_ends) = (owner.meta(), is_terminating(owner));
    if !is_neighbour(object, meta) {
        return Tie::Ignore;
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let is_own = || is_controlled::<O>(object, namespace, meta.uid.as_deref().unwrap_or_default());
    match controller_of(object) {
        Some(_) if !is_own() => Tie::Ignore,
        Some(_) if fits => Tie::Mine,
        // The garbage collector handles the objects of a terminating workload.
        Some(_) if owner_ends => Tie::Ignore,
        Some(_) => Tie::Release,
        None if owner_ends || !fits || object.deletion_timestamp.is_some() => Tie::Ignore,
        None => Tie::Adopt,
    }
}

/// Adopts and releases objects, then returns those that the workload controls. `belongs` is a condition in
/// addition to the selector.
///
/// Stops at the first failure; objects adopted before it appear in the cache soon.
pub async fn claim<O: Namespaced, K: Namespaced>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<K>>,
    belongs: impl Fn(&K) -> bool,
) -> Result<Vec<Arc<K>>, WorkloadError> {
    claim_all(client, owner, selector, candidates.into_iter(), belongs, None, |object| object).await
}

/// As [`claim`], for objects that may be large and many: decodes one candidate at a time, and returns the part of each object that
/// `part` selects. Yields between the objects.
pub async fn claim_parts<O: Namespaced, K: Namespaced, P>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    candidates: impl Iterator<Item = Arc<K>>,
    part: impl FnMut(Arc<K>) -> P,
) -> Result<Vec<P>, WorkloadError> {
    claim_all(client, owner, selector, candidates, |_| true, None, part).await
}

/// As [`claim`]. The objects get this finalizer when they are adopted, and lose it when they are released.
pub async fn claim_with_finalizer<O: Namespaced, K: Namespaced>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    candidates: Vec<Arc<K>>,
    finalizer: &str,
) -> Result<Vec<Arc<K>>, WorkloadError> {
    let candidates = candidates.into_iter();
    claim_all(client, owner, selector, candidates, |_| true, Some(finalizer), |object| object).await
}

async fn claim_all<O: Namespaced, K: Namespaced, P>(
    client: &Client,
    owner: &O,
    selector: &Selector,
    candidates: impl Iterator<Item = Arc<K>>,
    belongs: impl Fn(&K) -> bool,
    finalizer: Option<&str>,
    mut part: impl FnMut(Arc<K>) -> P,
) -> Result<Vec<P>, WorkloadError> {
    let uid = owner.meta().uid.as_deref().unwrap_or_default();
    let (mut mine, mut is_checked, mut slice) = (Vec::new(), false, TimeSlice::start());
    for object in candidates {
        slice.yield_if_over().await;
        let fits = fits(selector, object.meta().labels.as_ref()) && belongs(&object);
        match tie(object.meta(), owner, fits) {
            Tie::Mine => mine.push(part(object)),
            Tie::Ignore => {}
            Tie::Release => {
                let references = object.meta().owner_references.iter().flatten();
                let left = references.filter(|reference| reference.uid != uid).cloned().collect();
                let finalizers = finalizer.map(|name| finalizers_without(object.meta(), name));
                let released = set_owners(client, object.as_ref(), left, finalizers, "release");
                slice.wait(released).await?;
            }
            Tie::Adopt => {
                if !is_checked {
                    slice.wait(check_live(client, owner)).await?;
                    is_checked = true;
                }
                let mut references = object.meta().owner_references.clone().unwrap_or_default();
                references.push(controller_reference(owner));
                let finalizers = finalizer.map(|name| finalizers_with(object.meta(), name));
                let adopted = set_owners(client, object.as_ref(), references, finalizers, "adopt");
                let adopted = slice.wait(adopted).await?;
                mine.extend(adopted.map(Arc::new).map(&mut part));
            }
        }
    }
    Ok(mine)
}

/// Checks that the workload exists on the server with this UID and is not being deleted.
async fn check_live<O: Namespaced>(client: &Client, owner: &O) -> Result<(), WorkloadError> {
    let (object, key) = (named(owner), key_of(owner));
    let (namespace, name) = split_key(&key);
    let api: Api<O> = Api::namespaced(client.clone(), namespace);
    let live = api.get_opt(name).await.map_err(WorkloadError::api("read", object.clone()))?;
    match live {
        Some(live) if live.meta().uid == owner.meta().uid && !is_terminating(&live) => Ok(()),
        Some(_) | None => Err(WorkloadError::Replaced { object }),
    }
}

fn finalizers_without(object: &ObjectMeta, finalizer: &str) -> Vec<String> {
    object.finalizers.iter().flatten().filter(|known| *known != finalizer).cloned().collect()
}

fn finalizers_with(object: &ObjectMeta, finalizer: &str) -> Vec<String> {
    let mut finalizers = object.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
    finalizers
}

/// Writes the owner references, and the finalizers unless they are `None`, conditional on the cached version. Returns `None` if the
/// object is gone, or would be invalid with them.
async fn set_owners<K: Namespaced>(
    client: &Client,
    object: &K,
    references: Vec<OwnerReference>,
    finalizers: Option<Vec<String>>,
    what: &'static str,
) -> Result<Option<K>, WorkloadError> {
    let key = key_of(object);
    let (namespace, name) = split_key(&key);
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let meta = object.meta();
    let mut patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version,
        "ownerReferences": references}});
    if let Some(finalizers) = finalizers {
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(written) => Ok(Some(written)),
        Err(error) if is_not_found(&error) || status_of(&error).is_some_and(|status| status.code == 422) => {
            Ok(None)
        }
        Err(cause) => Err(WorkloadError::Api { what, object: named(object), cause }),
    }
}

/// `Kind namespace/name`, for messages.
pub fn named<K: Resource<DynamicType = ()>>(object: &K) -> String {
    format!("{} {}", K::kind(&()), key_of(object))
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::testing::FakeApi;

    /// Each candidate is decoded only after the previous one was dropped.
    #[tokio::test]
    async fn one_candidate_is_in_memory_at_a_time() {
        let owner = ReplicaSet { metadata: meta("ns", "u", false), ..ReplicaSet::default() };
        let mut last = Weak::<ControllerRevision>::new();
        let candidates = (0..10).map(|number| {
            assert!(last.upgrade().is_none(), "{number}");
            let owners = Some(vec![controller_reference(&owner)]);
            let metadata = ObjectMeta { owner_references: owners, ..meta("ns", "r", false) };
            let revision = Arc::new(ControllerRevision { metadata, revision: number, data: None });
            last = Arc::downgrade(&revision);
            revision
        });
        let client = FakeApi::new().client();
        let part = |revision: Arc<ControllerRevision>| revision.revision;
        let found = claim_parts(&client, &owner, &Selector::everything(), candidates, part).await;
        assert_eq!(found.ok(), Some((0..10).collect()));
    }

    fn meta(namespace: &str, uid: &str, ends: bool) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            uid: Some(uid.to_owned()),
            deletion_timestamp: ends.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn tie_depends_on_controller_namespace_selector_and_deletion() {
        let set = |ends: bool| ReplicaSet { metadata: meta("ns", "u", ends), ..ReplicaSet::default() };
        let owned = |uid: &str| {
            let reference = OwnerReference { uid: uid.to_owned(), ..controller_reference(&set(false)) };
            ObjectMeta { owner_references: Some(vec![reference]), ..meta("ns", "p", false) }
        };
        let of_another = |change: fn(&mut OwnerReference)| {
            let mut object = owned("u");
            object.owner_references.iter_mut().flatten().for_each(change);
            object
        };
        let elsewhere = |object: ObjectMeta| ObjectMeta { namespace: Some("other".to_owned()), ..object };
        let (orphan, leaving) = (meta("ns", "p", false), meta("ns", "p", true));
        let other_kind = of_another(|reference| reference.kind = "Deployment".to_owned());
        let other_group = of_another(|reference| reference.api_version = "example.com/v1".to_owned());
        // Name, object, whether the workload is being deleted, whether the selector matches, expected result.
        let table = [
            ("mine", owned("u"), false, true, Tie::Mine),
            ("mine, to the end", owned("u"), true, true, Tie::Mine),
            ("fits no more", owned("u"), false, false, Tie::Release),
            ("fits no more, at the end", owned("u"), true, false, Tie::Ignore),
            ("another owner's", owned("v"), false, true, Tie::Ignore),
            ("in another namespace", elsewhere(owned("u")), false, true, Tie::Ignore),
            ("in another namespace, does not fit", elsewhere(owned("u")), false, false, Tie::Ignore),
            ("another kind's", other_kind.clone(), false, true, Tie::Ignore),
            ("another kind's, does not fit", other_kind, false, false, Tie::Ignore),
            ("another group's", other_group, false, true, Tie::Ignore),
            ("an orphan that fits", orphan.clone(), false, true, Tie::Adopt),
            ("an orphan that does not fit", orphan.clone(), false, false, Tie::Ignore),
            ("an orphan in another namespace", elsewhere(orphan.clone()), false, true, Tie::Ignore),
            ("an orphan, at the end", orphan, true, true, Tie::Ignore),
            ("an orphan that is being deleted", leaving, false, true, Tie::Ignore),
        ];
        for (name, object, ends, fits, wanted) in table {
            assert_eq!(tie(&object, &set(ends), fits), wanted, "{name}");
        }
    }
}
