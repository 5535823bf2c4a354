//! The ReplicaSets of a Deployment: finds the one with the Deployment's template, and maintains revisions and
//! the annotations that store them. Pure functions. Upstream: util/deployment_util.go.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use kube::core::ObjectMeta;

use super::amounts::{max_surge, wanted};
use crate::workload::hash;
use crate::workload::owned::{controller_reference, is_neighbour};
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

/// The index of the ReplicaSet with the Deployment's namespace and template; the oldest if there are several. Yields between the
/// ReplicaSets, because the history and its templates may be large.
pub async fn find_new(deployment: &Deployment, sets: &[ReplicaSet]) -> Option<usize> {
    let template = &deployment.spec.as_ref()?.template;
    let plain = Plain::of(template);
    let mut ages: Vec<_> = sets.iter().map(age).enumerate().collect();
    ages.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (at, _) in ages {
        let own = sets[at].spec.as_ref().and_then(|spec| spec.template.as_ref());
        if is_neighbour(&sets[at].metadata, &deployment.metadata) && own.is_some_and(|own| plain.is(own)) {
            return Some(at);
        }
        tokio::task::yield_now().await;
    }
    None
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
    use serde_json::json;

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
}
