//! Finds the controller of an object, and the objects of a controller through an index by namespace and UID. Objects
//! without a controller are indexed by their labels, so that workloads can find orphans to adopt.
//!
//! Any user may write any UID into the owner references of an object. An object therefore counts as controlled only if
//! it is in the namespace of its owner, and the reference has the owner's kind and API group.
//!
//! The index is added when the first workload is synced. Until then, it costs nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::Resource;
use kube::core::ObjectMeta;
use orlop_apimachinery::labels::Selector;

use super::replica::replica;
use orlop_client::api::Object;
use orlop_client::informer::{Change, Informer};
use orlop_client::queue::WorkQueue;
use orlop_client::time_slice::TimeSlice;

/// Name of the index by controller. Its values for controlled objects are those of [`owner_value`].
pub const INDEX_CONTROLLER: &str = "controller";
/// Name of the index of owners by namespace and UID. Its values are those of [`owner_value`].
pub const INDEX_UID: &str = "uid";
/// Name of the index by namespace.
pub const INDEX_NAMESPACE: &str = "namespace";
/// Name of the index of owners by the orphans that they may adopt.
pub const INDEX_SELECTS: &str = "selects";

/// A namespaced kind that informers can cache.
pub trait Namespaced:
    Object + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug
{
}

impl<K: Object<DynamicType = (), Scope = NamespaceResourceScope>> Namespaced for K {}

/// The reference to the controller of this object.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether the reference has the kind and the API group of `O`. The versions of a group serve the same objects.
fn refers_to<O: Resource<DynamicType = ()>>(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    reference.kind == O::kind(&()) && group == O::group(&())
}

/// Whether the owner of kind `O` with this namespace and UID controls the object.
pub fn is_controlled<O: Namespaced>(object: &ObjectMeta, namespace: &str, uid: &str) -> bool {
    object.namespace.as_deref() == Some(namespace)
        && controller_of(object).is_some_and(|reference| reference.uid == uid && refers_to::<O>(reference))
}

/// Whether both objects are in the same namespace.
pub fn is_neighbour(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.namespace == other.namespace
}

/// A controller reference to `owner`.
pub fn controller_reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether the selector matches these labels.
pub fn fits(selector: &Selector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let labels = labels.into_iter().flatten();
    selector.matches(labels.map(|(key, value)| (key.as_str(), value.as_str())))
}

/// The selector of a workload; `None` if it is invalid, which the server admits only in old objects.
pub fn selector_of(selector: &LabelSelector) -> Option<Selector> {
    Selector::from_label_selector(selector).ok()
}

/// Adds [`INDEX_CONTROLLER`].
pub fn index_by_controller<K: Object>(objects: &Informer<K>) {
    objects.add_index(INDEX_CONTROLLER, controller_values::<K>);
}

/// A workload that adopts orphans which its selector matches.
pub trait Adopter: Namespaced {
    /// Its selector.
    fn selector(&self) -> Option<Cow<'_, LabelSelector>>;
}

impl Adopter for Deployment {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref().map(|spec| Cow::Borrowed(&spec.selector))
    }
}

impl Adopter for ReplicaSet {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref().map(|spec| Cow::Borrowed(&spec.selector))
    }
}

impl Adopter for DaemonSet {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref().map(|spec| Cow::Borrowed(&spec.selector))
    }
}

impl Adopter for StatefulSet {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref().map(|spec| Cow::Borrowed(&spec.selector))
    }
}

impl Adopter for ReplicationController {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        let match_labels = self.spec.as_ref()?.selector.clone();
        Some(Cow::Owned(LabelSelector { match_labels, match_expressions: None }))
    }
}

impl Adopter for Job {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref()?.selector.as_ref().map(Cow::Borrowed)
    }
}

/// Adds [`INDEX_UID`].
pub fn index_by_uid<O: Namespaced>(owners: &Informer<O>) {
    owners.add_index(INDEX_UID, |owner| {
        let meta = owner.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        meta.uid.as_deref().map(|uid| owner_value(namespace, uid)).into_iter().collect()
    });
}

/// Adds [`INDEX_UID`], [`INDEX_NAMESPACE`] and [`INDEX_SELECTS`].
pub fn index_owners<O: Adopter>(owners: &Informer<O>) {
    index_by_uid(owners);
    owners.add_index(INDEX_NAMESPACE, |owner| owner.meta().namespace.clone().into_iter().collect());
    owners.add_index(INDEX_SELECTS, |owner| {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        owner.selector().map(|selector| orphans_of(namespace, &selector)).into_iter().collect()
    });
}

fn controller_values<K: Resource>(object: &K) -> Vec<String> {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    if let Some(owner) = controller_of(meta) {
        return vec![owner_value(namespace, &owner.uid)];
    }
    let labels = meta.labels.iter().flatten().map(|(key, value)| orphan_value(namespace, key, value));
    labels.chain([format!("{namespace}/")]).collect()
}

/// Begins the values of controlled objects. No namespace contains a colon, so the values of orphans never begin with it.
const OWNER_PREFIX: &str = "uid:";

/// The value under which [`INDEX_CONTROLLER`] has the objects of this namespace whose controller has this UID.
pub fn owner_value(namespace: &str, uid: &str) -> String {
    [OWNER_PREFIX, namespace, "/", uid].concat()
}

/// The values of the controllers that the object had before a change and no longer has.
pub fn former_values<K>(change: &Change<K>) -> impl Iterator<Item = &str> {
    change.left(INDEX_CONTROLLER).filter(|value| value.starts_with(OWNER_PREFIX))
}

fn orphan_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

/// The value under which all orphans are indexed that a selector may match: a label that it requires, or the namespace.
fn orphans_of(namespace: &str, selector: &LabelSelector) -> String {
    match selector.match_labels.iter().flatten().next() {
        Some((key, value)) => orphan_value(namespace, key, value),
        None => format!("{namespace}/"),
    }
}

/// The objects of the namespace whose controller has this UID, and the orphans that its selector may match. Each object is decoded only
/// when the iterator reaches it: all objects of an owner may need many times the memory of the store.
pub fn candidates<K: Object>(
    objects: &Informer<K>,
    namespace: &str,
    uid: &str,
    selector: &LabelSelector,
) -> impl Iterator<Item = Arc<K>> + use<K> {
    let owned = objects.each_by_index(INDEX_CONTROLLER, &owner_value(namespace, uid));
    owned.chain(objects.each_by_index(INDEX_CONTROLLER, &orphans_of(namespace, selector)))
}

/// As [`candidates`], for the pods of an owner that may have many: returns only the part of each pod that [`replica`] selects. Yields
/// between the pods, but returns the state of the cache at the start.
pub async fn candidate_pods(
    pods: &Informer<Pod>,
    namespace: &str,
    uid: &str,
    selector: &LabelSelector,
) -> Vec<Arc<Pod>> {
    candidate_parts(pods, namespace, uid, selector, replica).await
}

/// As [`candidate_pods`], with the part of each pod that `part` selects.
pub async fn candidate_parts(
    pods: &Informer<Pod>,
    namespace: &str,
    uid: &str,
    selector: &LabelSelector,
    part: fn(&Pod) -> Pod,
) -> Vec<Arc<Pod>> {
    let (mut parts, mut slice) = (Vec::new(), TimeSlice::start());
    for pod in candidates(pods, namespace, uid, selector) {
        parts.push(Arc::new(part(&pod)));
        slice.yield_if_over().await;
    }
    parts
}

/// The key of the controller that an object references, if the cached object with that name has the same UID.
pub fn owner_key<O: Namespaced>(owners: &Informer<O>, meta: &ObjectMeta) -> Option<Arc<str>> {
    let reference = controller_of(meta).filter(|reference| refers_to::<O>(reference))?;
    let key = format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), reference.name);
    let owner = owners.get_kept(&key)?;
    (owner.uid().to_string() == reference.uid).then(|| Arc::clone(owner.key()))
}

/// The keys of owners that controlled the object before a change but no longer do.
pub fn former_owners<K, O: Namespaced>(change: &Change<K>, owners: &Informer<O>) -> Vec<String> {
    former_values(change)
        .flat_map(|value| owners.each_by_index(INDEX_UID, value))
        .map(|owner| orlop_client::informer::key_of(&*owner))
        .collect()
}

/// Queues the owners that control the object, controlled it, or may adopt it.
pub fn member_changed<K: Namespaced, O: Adopter>(
    change: &Change<K>,
    owners: &Informer<O>,
    queue: &WorkQueue<String>,
) {
    if owners.is_empty() {
        return;
    }
    former_owners(change, owners).into_iter().for_each(|key| queue.add(key));
    let Some(member) = change.new.as_deref() else { return };
    match owner_key(owners, member.meta()) {
        Some(key) => queue.add(key.to_string()),
        None => wooers(member, owners).into_iter().for_each(|key| queue.add(key)),
    }
}

/// The keys of owners that may adopt an orphan. Only owners that require one of its labels, or none, are read.
pub fn wooers<K: Resource, O: Adopter>(object: &K, owners: &Informer<O>) -> Vec<String> {
    let meta = object.meta();
    let Some(namespace) = meta.namespace.as_deref() else { return Vec::new() };
    if controller_of(meta).is_some() || !owners.has_indexed(INDEX_NAMESPACE, namespace) {
        return Vec::new();
    }
    let near =
        controller_values(object).into_iter().flat_map(|value| owners.each_by_index(INDEX_SELECTS, &value));
    let wanting = near.filter(|owner| {
        let selector = owner.selector().and_then(|selector| selector_of(&selector));
        selector.is_some_and(|selector| !selector.is_everything() && fits(&selector, meta.labels.as_ref()))
    });
    wanting.map(|owner| orlop_client::informer::key_of(owner.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owner: Option<&str>, labels: Value) -> Pod {
        let owners: Vec<Value> = owner
            .map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name, "labels": labels,
            "ownerReferences": owners}}))
        .unwrap()
    }

    #[test]
    fn candidates_are_owned_objects_and_possibly_matching_orphans() {
        let pods = Informer::new();
        pods.apply(pod("mine", Some("u1"), json!({"app": "other"})));
        pods.apply(pod("of-another", Some("u2"), json!({"app": "web"})));
        pods.apply(pod("orphan", None, json!({"app": "web", "tier": "front"})));
        pods.apply(pod("stranger", None, json!({"app": "db"})));
        index_by_controller(&pods);
        let names = |selector: Value| -> Vec<String> {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            let found = candidates(&pods, "ns", "u1", &selector);
            found.map(|pod| pod.metadata.name.clone().unwrap()).collect()
        };
        assert_eq!(names(json!({"matchLabels": {"app": "web"}})), ["mine", "orphan"]);
        assert_eq!(
            names(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
            ["mine", "orphan", "stranger"]
        );
    }

    #[tokio::test]
    async fn candidates_are_in_the_namespace_of_the_owner() {
        let pods = Informer::new();
        let in_other = |name: &str, owner: Option<&str>| {
            let mut pod = pod(name, owner, json!({"app": "web"}));
            pod.metadata.namespace = Some("other".to_owned());
            pod
        };
        pods.apply(in_other("forged", Some("u1")));
        pods.apply(in_other("orphan", None));
        // Neither UID leads to the index values of another owner or of orphans.
        pods.apply(in_other("forged-label", Some("ns/app=web")));
        pods.apply(in_other("forged-path", Some("ns/u1")));
        index_by_controller(&pods);
        let selector: LabelSelector = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        assert_eq!(candidates(&pods, "ns", "u1", &selector).count(), 0);
        assert!(candidate_pods(&pods, "ns", "u1", &selector).await.is_empty());
        let found = candidates(&pods, "other", "u1", &selector);
        let found: Vec<_> = found.map(|pod| pod.metadata.name.clone().unwrap()).collect();
        assert_eq!(found, ["forged", "orphan"]);
    }

    #[test]
    fn controller_has_the_namespace_kind_group_and_uid_of_the_reference() {
        // Name, namespace and UID of the owner, apiVersion and kind of the reference, whether the ReplicaSet is the controller.
        let table = [
            ("1 the owner", "ns", "u1", "apps/v1", "ReplicaSet", true),
            ("2 another version", "ns", "u1", "apps/v1beta2", "ReplicaSet", true),
            ("3 another namespace", "other", "u1", "apps/v1", "ReplicaSet", false),
            ("4 another UID", "ns", "u2", "apps/v1", "ReplicaSet", false),
            ("5 another kind", "ns", "u1", "apps/v1", "Deployment", false),
            ("6 another group", "ns", "u1", "example.com/v1", "ReplicaSet", false),
            ("7 the core group", "ns", "u1", "v1", "ReplicaSet", false),
        ];
        for (name, namespace, uid, api_version, kind, wanted) in table {
            let mut pod = pod("a", Some("u1"), json!({}));
            let reference = &mut pod.metadata.owner_references.as_mut().unwrap()[0];
            reference.api_version = api_version.to_owned();
            reference.kind = kind.to_owned();
            assert_eq!(is_controlled::<ReplicaSet>(&pod.metadata, namespace, uid), wanted, "{name}");
            let sets: Informer<ReplicaSet> = Informer::new();
            let set = json!({"metadata": {"namespace": namespace, "name": "web", "uid": uid}});
            sets.apply(serde_json::from_value(set).unwrap());
            assert_eq!(owner_key(&sets, &pod.metadata).is_some(), wanted, "{name}");
        }
    }

    #[test]
    fn owner_uid_must_match_and_only_orphans_can_be_adopted() {
        let sets: Informer<ReplicaSet> = Informer::new();
        index_owners(&sets);
        let set = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "u1"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        sets.apply(serde_json::from_value(set).unwrap());
        assert_eq!(owner_key(&sets, &pod("a", Some("u1"), json!({})).metadata).as_deref(), Some("ns/web"));
        assert_eq!(owner_key(&sets, &pod("a", Some("u0"), json!({})).metadata), None);
        assert_eq!(owner_key(&sets, &pod("a", None, json!({})).metadata), None);
        let wanting = |pod: &Pod| wooers(pod, &sets);
        assert_eq!(wanting(&pod("a", None, json!({"app": "web"}))), ["ns/web"]);
        assert_eq!(wanting(&pod("a", None, json!({"app": "db"}))), Vec::<String>::new());
        assert_eq!(wanting(&pod("a", Some("u9"), json!({"app": "web"}))), Vec::<String>::new());
    }

    #[test]
    fn only_owners_that_require_a_label_of_the_orphan_are_read() {
        let sets: Informer<ReplicaSet> = Informer::new();
        for (name, selector) in (0..100)
            .map(|n| (format!("s{n}"), json!({"matchLabels": {"app": format!("a{n}"), "b": "x"}})))
            .chain([("any".to_owned(), json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}))])
        {
            let set = json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {"selector": selector}});
            sets.apply(serde_json::from_value(set).unwrap());
        }
        index_owners(&sets);
        let before = orlop_client::packed_object::GETS.get();
        let orphan = pod("a", None, json!({"app": "a7", "b": "x"}));
        assert_eq!(wooers(&orphan, &sets), ["ns/s7", "ns/any"]);
        assert_eq!(orlop_client::packed_object::GETS.get() - before, 2);
        assert_eq!(wooers(&pod("a", None, json!({"app": "a7"})), &sets), ["ns/any"]);
        assert!(wooers(&pod("a", None, json!({})), &sets).is_empty());
    }
}
