//! The ReplicaSets of a Deployment: finds the one with the Deployment's template, and maintains revisions and
//! the annotations that store them. Pure functions. Upstream: util/deployment_util.go.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::amounts::{max_surge, wanted};
use crate::workload::hash;
use crate::workload::owned::{controller_reference, is_neighbour};
use crate::workload::replicas::decide::REPLICA_FAILURE;
use crate::workload::template::{LABEL_TEMPLATE_HASH, Plain};
use orlop_client::meta::annotation;

/// Annotation of Deployments and ReplicaSets: the revision number.
pub const ANN_REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation of ReplicaSets: the earlier revisions of this template, separated by commas.
pub const ANN_REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation of ReplicaSets: the Deployment's desired number of pods when the ReplicaSet was last scaled.
pub const ANN_DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of ReplicaSets: the desired number plus the surge when the ReplicaSet was last scaled.
pub const ANN_MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotation of Deployments: the revision to roll back to.
pub const ANN_ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    ANN_ROLLBACK_TO,
    ANN_REVISION,
    ANN_REVISION_HISTORY,
    ANN_DESIRED,
    ANN_MAX,
];
/// The annotations of a ReplicaSet from which a Deployment decides.
const NUMBERS: [&str; 3] = [ANN_REVISION, ANN_DESIRED, ANN_MAX];
/// Maximum length of the revision history, in characters. Upstream: maxRevHistoryLengthInChars.
const MAX_HISTORY: usize = 2000;

/// Whether an annotation is copied between a Deployment and its ReplicaSets.
pub fn is_copied(key: &str) -> bool {
    !NOT_COPIED.contains(&key)
}

/// The desired number of pods of a ReplicaSet.
pub fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The number of pods in the ReplicaSet's status.
pub fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

/// The sum of a count of ReplicaSets. Their numbers are those of users, so the sum may exceed the type: it is then
/// the largest number.
pub fn total<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>, count: fn(&ReplicaSet) -> i32) -> i32 {
    sets.into_iter().map(count).fold(0, i32::saturating_add)
}

/// The number of available pods in the ReplicaSet's status.
pub fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// The number of ready pods in the ReplicaSet's status.
pub fn ready(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

/// The value of a numeric annotation.
pub fn number(set: &ReplicaSet, key: &str) -> Option<i32> {
    annotation(set, key)?.parse().ok()
}

/// The revision of a ReplicaSet; 0 if it has none.
pub fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, ANN_REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The sort key for age: the creation time, then the name.
pub fn age(set: &ReplicaSet) -> (Option<jiff::Timestamp>, String) {
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, set.metadata.name.clone().unwrap_or_default())
}

/// The ReplicaSets of a Deployment, which are added one at a time. Only that with the Deployment's template is stored completely: decoded
/// templates may need many times the memory of the store.
pub struct OwnSets<'a> {
    deployment: &'a Deployment,
    plain: Plain<'a>,
    sets: Vec<ReplicaSet>,
    new: Option<usize>,
}

impl<'a> OwnSets<'a> {
    /// No ReplicaSets yet; `None` if the Deployment has no specification.
    pub fn of(deployment: &'a Deployment) -> Option<Self> {
        let template = &deployment.spec.as_ref()?.template;
        Some(Self { deployment, plain: Plain::of(template), sets: Vec::new(), new: None })
    }

    /// Adds a ReplicaSet.
    pub fn add(&mut self, set: Arc<ReplicaSet>) {
        let at = self.sets.len();
        if !self.is_new(&set) {
            return self.sets.push(set_part(&set));
        }
        if let Some(former) = self.new.replace(at) {
            self.sets[former] = set_part(&self.sets[former]);
        }
        self.sets.push(Arc::unwrap_or_clone(set));
    }

    /// Whether this is the oldest ReplicaSet so far with the Deployment's namespace and template.
    fn is_new(&self, set: &ReplicaSet) -> bool {
        is_neighbour(&set.metadata, &self.deployment.metadata)
            && self.new.is_none_or(|known| age(set) < age(&self.sets[known]))
            && set.spec.as_ref().and_then(|spec| spec.template.as_ref()).is_some_and(|own| self.plain.is(own))
    }

    /// The ReplicaSets in the order in which they were added, and the index of the one with the Deployment's template.
    pub fn into_parts(self) -> (Vec<ReplicaSet>, Option<usize>) {
        (self.sets, self.new)
    }
}

/// The part of a ReplicaSet from which a Deployment decides: the numbers, and the condition for failures.
fn set_part(set: &ReplicaSet) -> ReplicaSet {
    let numbers =
        set.metadata.annotations.iter().flatten().filter(|(key, _)| NUMBERS.contains(&key.as_str()));
    let metadata = ObjectMeta {
        annotations: Some(numbers.map(|(key, value)| (key.clone(), value.clone())).collect()),
        creation_timestamp: set.metadata.creation_timestamp.clone(),
        deletion_timestamp: set.metadata.deletion_timestamp.clone(),
        generation: set.metadata.generation,
        name: set.metadata.name.clone(),
        namespace: set.metadata.namespace.clone(),
        resource_version: set.metadata.resource_version.clone(),
        uid: set.metadata.uid.clone(),
        ..ObjectMeta::default()
    };
    let spec = set.spec.as_ref().map(|spec| ReplicaSetSpec {
        min_ready_seconds: spec.min_ready_seconds,
        replicas: spec.replicas,
        ..ReplicaSetSpec::default()
    });
    let status = set.status.as_ref().map(|status| {
        let conditions = status.conditions.iter().flatten();
        let failure = conditions.filter(|condition| condition.type_ == REPLICA_FAILURE).take(1);
        ReplicaSetStatus {
            available_replicas: status.available_replicas,
            conditions: Some(failure.cloned().collect()),
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            terminating_replicas: status.terminating_replicas,
        }
    });
    ReplicaSet { metadata, spec, status }
}

/// The changes of a planned ReplicaSet as a merge patch, if this version of it still exists. A plan adds and changes annotations, but
/// removes none.
pub fn set_patch(old: &ReplicaSet, new: &ReplicaSet) -> Value {
    let known = old.metadata.annotations.as_ref();
    let is_changed =
        |(key, value): &(&String, &String)| known.and_then(|known| known.get(*key)) != Some(*value);
    let changed: BTreeMap<_, _> = new.metadata.annotations.iter().flatten().filter(is_changed).collect();
    let mut spec = serde_json::Map::new();
    let amount = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.replicas);
    if amount(old) != amount(new) {
        spec.insert("replicas".to_owned(), json!(amount(new)));
    }
    let seconds = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
    if seconds(old) != seconds(new) {
        spec.insert("minReadySeconds".to_owned(), json!(seconds(new)));
    }
    json!({"metadata": {"uid": old.metadata.uid, "resourceVersion": old.metadata.resource_version,
        "annotations": changed}, "spec": spec})
}

fn annotations(set: &mut ReplicaSet) -> &mut BTreeMap<String, String> {
    set.metadata.annotations.get_or_insert_default()
}

/// Records the Deployment's desired number and maximum in annotations when a ReplicaSet is scaled.
pub fn note_size(set: &mut ReplicaSet, deployment: &Deployment) {
    let wanted = wanted(deployment);
    let own = annotations(set);
    own.insert(ANN_DESIRED.to_owned(), wanted.to_string());
    own.insert(ANN_MAX.to_owned(), wanted.saturating_add(max_surge(deployment)).to_string());
}

/// Sets the desired number of pods of a ReplicaSet.
pub fn resize(set: &mut ReplicaSet, deployment: &Deployment, size: i32) {
    note_size(set, deployment);
    set.spec.get_or_insert_default().replicas = Some(size);
}

/// Copies the annotations of the Deployment, and raises the revision to `revision` if it is lower.
pub fn annotate(set: &mut ReplicaSet, deployment: &Deployment, revision: i64) {
    let from = deployment.metadata.annotations.iter().flatten();
    let copied = from.filter(|(key, _)| is_copied(key));
    let own = annotations(set);
    own.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
    let before = own.get(ANN_REVISION).cloned();
    let old: i64 = match before.as_deref() {
        None | Some("") => 0,
        // Do not overwrite a revision that is not a number.
        Some(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if old >= revision {
        return;
    }
    own.insert(ANN_REVISION.to_owned(), revision.to_string());
    if let Some(before) = before {
        let history = own.get(ANN_REVISION_HISTORY).cloned().unwrap_or_default();
        own.insert(ANN_REVISION_HISTORY.to_owned(), with_history(&history, &before));
    }
}

/// Appends a revision to the history. Drops the oldest ones if the history becomes too long.
fn with_history(history: &str, revision: &str) -> String {
    let mut list: Vec<&str> = history.split(',').filter(|one| !one.is_empty()).collect();
    list.push(revision);
    // From the newest, each with its comma.
    let mut length = revision.len();
    let older = list.iter().rev().skip(1).take_while(|one| {
        length += one.len() + 1;
        length <= MAX_HISTORY
    });
    let kept = older.count() + 1;
    list[list.len() - kept..].join(",")
}

/// A new ReplicaSet with the Deployment's template and 0 replicas.
pub fn new_set(deployment: &Deployment, revision: i64) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = hash::of_template(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(LABEL_TEMPLATE_HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(LABEL_TEMPLATE_HASH.to_owned(), hash.clone());
    let mut set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default())),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: Some(0),
            selector,
            template: Some(template),
        }),
        status: None,
    };
    annotate(&mut set, deployment, revision);
    note_size(&mut set, deployment);
    set
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use orlop_apimachinery::thread_time::assert_linear;

    use super::*;

    #[test]
    fn history_of_many_revisions_is_linear() {
        let history = |count: usize| vec!["1"; count].join(",");
        assert_linear("revision history", 20_000, history, |history| with_history(history, "2"));
        assert_eq!(with_history(&history(5_000), "22").len(), MAX_HISTORY);
    }

    #[test]
    fn revision_never_decreases_and_its_history_is_recorded() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "web", "annotations": {
            "kubernetes.io/change-cause": "new image", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            ANN_REVISION: "9"}}, "spec": {"replicas": 2, "selector": {}, "template": {}}}))
        .unwrap();
        let mut set = new_set(&deployment, 3);
        let hash = set.metadata.labels.as_ref().unwrap()[LABEL_TEMPLATE_HASH].clone();
        assert_eq!(set.metadata.name, Some(format!("web-{hash}")));
        let wanted = json!({"kubernetes.io/change-cause": "new image", ANN_REVISION: "3", ANN_DESIRED: "2", ANN_MAX: "2"});
        assert_eq!(serde_json::to_value(&set.metadata.annotations).unwrap(), wanted);
        annotate(&mut set, &deployment, 2);
        assert_eq!(revision(&set), 3);
        annotate(&mut set, &deployment, 5);
        annotate(&mut set, &deployment, 7);
        assert_eq!((revision(&set), annotation(&set, ANN_REVISION_HISTORY)), (7, Some("3,5")));
        annotations(&mut set).insert(ANN_REVISION.to_owned(), "seven".to_owned());
        annotate(&mut set, &deployment, 8);
        assert_eq!(annotation(&set, ANN_REVISION), Some("seven"));
    }

    #[test]
    fn long_revision_history_drops_its_oldest_entries() {
        let long: Vec<String> = (1000..1399).map(|number| number.to_string()).collect();
        let text = with_history(&long.join(","), "1399");
        assert_eq!(text.len(), 1999);
        let text = with_history(&text, "1400");
        assert!(text.starts_with("1001,") && text.ends_with(",1399,1400") && text.len() == 1999);
    }

    fn deployment(image: &str) -> Deployment {
        let template = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
        serde_json::from_value(
            json!({"metadata": {"namespace": "ns", "name": "web", "annotations": {"large": "y"}},
            "spec": {"replicas": 2, "selector": {}, "template": template}}),
        )
        .unwrap()
    }

    fn set(name: &str, image: &str) -> ReplicaSet {
        let mut set = new_set(&deployment(image), 3);
        set.metadata.name = Some(name.to_owned());
        set.metadata.uid = Some(name.to_owned());
        set.metadata.resource_version = Some("7".to_owned());
        set
    }

    #[test]
    fn only_the_oldest_set_with_the_template_is_complete() {
        let mut foreign = set("0", "x");
        foreign.metadata.namespace = Some("other".to_owned());
        // Name, added ReplicaSets, index of the new one.
        let table = [
            ("1 none", vec![], None),
            ("2 another template", vec![set("a", "y")], None),
            ("3 the template", vec![set("a", "y"), set("b", "x"), set("c", "y")], Some(1)),
            ("4 the older of two", vec![set("b", "x"), set("a", "x")], Some(1)),
            ("5 in another order", vec![set("a", "x"), set("b", "x")], Some(0)),
            ("6 another namespace", vec![foreign, set("b", "x")], Some(1)),
        ];
        let deployment = deployment("x");
        for (name, added, wanted) in table {
            let mut own = OwnSets::of(&deployment).unwrap();
            added.iter().for_each(|set| own.add(Arc::new(set.clone())));
            let (sets, new) = own.into_parts();
            assert_eq!(new, wanted, "{name}");
            for (at, (part, whole)) in sets.iter().zip(&added).enumerate() {
                if Some(at) == wanted {
                    assert_eq!(part, whole, "{name}");
                    continue;
                }
                assert!(part.spec.as_ref().unwrap().template.is_none(), "{name}");
                assert_eq!(annotation(part, "large"), None, "{name}");
                let facts = |set: &ReplicaSet| {
                    let name = set.metadata.name.clone();
                    (name, replicas(set), revision(set), number(set, ANN_DESIRED), number(set, ANN_MAX))
                };
                assert_eq!(facts(part), facts(whole), "{name}");
            }
        }
    }

    #[test]
    fn patch_has_only_the_changes() {
        let old = set("a", "x");
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "web"},
            "spec": {"replicas": 5, "selector": {}, "template": {}}}))
        .unwrap();
        let mut new = old.clone();
        resize(&mut new, &deployment, 4);
        let wanted = json!({"metadata": {"uid": "a", "resourceVersion": "7",
            "annotations": {ANN_DESIRED: "5", ANN_MAX: "5"}}, "spec": {"replicas": 4}});
        assert_eq!(set_patch(&old, &new), wanted);
        let part = set_part(&old);
        let mut new = part.clone();
        resize(&mut new, &deployment, 4);
        assert_eq!(set_patch(&part, &new), wanted, "the part of a set leads to the same patch");
        new.spec.as_mut().unwrap().min_ready_seconds = Some(9);
        assert_eq!(set_patch(&part, &new)["spec"], json!({"replicas": 4, "minReadySeconds": 9}));
    }
}
