//! Rolls a Deployment back to the template of an earlier revision, if the annotation `deprecated.deployment.rollback.to` of
//! `extensions/v1beta1` requests it. `kubectl rollout undo` writes the template itself. Pure functions. Upstream:
//! pkg/controller/deployment/rollback.go.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use orlop_client::meta::annotation;
use orlop_client::recorder::EventType;

use super::sets::{ANN_ROLLBACK_TO, is_copied, revision};
use crate::workload::owned::is_neighbour;
use crate::workload::template::{LABEL_TEMPLATE_HASH, is_same};

/// The outcome of a request to roll back.
#[derive(Debug, PartialEq)]
pub struct Rollback {
    /// The Deployment to write, without the annotation.
    pub deployment: Deployment,
    /// Type, reason and message of the event.
    pub event: (EventType, &'static str, String),
}

/// The rollback that the Deployment requests, if any. A revision of 0 is the one before the current. ReplicaSets of
/// other namespaces are ignored: the pods of the Deployment would run their template. `whole` returns the object of one of `sets`, which
/// may lack their templates; if the object no longer exists, the result is `None`.
pub fn requested(
    deployment: &Deployment,
    sets: &[ReplicaSet],
    whole: impl Fn(&ReplicaSet) -> Option<Arc<ReplicaSet>>,
) -> Option<Rollback> {
    let wanted: i64 = annotation(deployment, ANN_ROLLBACK_TO)?.parse().ok()?;
    let mut changed = deployment.clone();
    changed.metadata.annotations.get_or_insert_default().remove(ANN_ROLLBACK_TO);
    let warning = |reason: &'static str, message: String| (EventType::Warning, reason, message);
    let own: Vec<&ReplicaSet> =
        sets.iter().filter(|set| is_neighbour(&set.metadata, &deployment.metadata)).collect();
    let wanted = if wanted == 0 { previous(&own) } else { wanted };
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let event = match own.into_iter().find(|set| wanted != 0 && revision(set) == wanted) {
        None if wanted == 0 => {
            warning("DeploymentRollbackRevisionNotFound", "Unable to find last revision.".into())
        }
        None => warning(
            "DeploymentRollbackRevisionNotFound",
            "Unable to find the revision to rollback to.".to_owned(),
        ),
        Some(set) => match restore(&mut changed, whole(set)?.as_ref()) {
            true => {
                let message = format!("Rolled back deployment {name:?} to revision {wanted}");
                (EventType::Normal, "DeploymentRollback", message)
            }
            false => warning(
                "DeploymentRollbackTemplateUnchanged",
                format!("The rollback revision contains the same template as current deployment {name:?}"),
            ),
        },
    };
    Some(Rollback { deployment: changed, event })
}

/// The second highest revision; 0 if there is none.
fn previous(sets: &[&ReplicaSet]) -> i64 {
    let mut revisions: Vec<i64> = sets.iter().map(|set| revision(set)).collect();
    revisions.sort_unstable();
    revisions.iter().rev().nth(1).copied().unwrap_or(0)
}

/// Copies the template and the annotations of a ReplicaSet; `false` if the templates are the same.
fn restore(deployment: &mut Deployment, set: &ReplicaSet) -> bool {
    let Some(spec) = deployment.spec.as_mut() else { return false };
    let mut template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    if is_same(&spec.template, &template) {
        return false;
    }
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(LABEL_TEMPLATE_HASH);
    }
    spec.template = template;
    let annotations = deployment.metadata.annotations.take().unwrap_or_default();
    let own = annotations.into_iter().filter(|(key, _)| !is_copied(key));
    let restored = set.metadata.annotations.clone().unwrap_or_default().into_iter();
    let all: BTreeMap<String, String> = own.chain(restored.filter(|(key, _)| is_copied(key))).collect();
    deployment.metadata.annotations = Some(all);
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn requested(deployment: &Deployment, sets: &[ReplicaSet]) -> Option<Rollback> {
        super::requested(deployment, sets, |set| Some(Arc::new(set.clone())))
    }

    fn template(image: &str, hash: Option<&str>) -> Value {
        let labels = match hash {
            Some(hash) => json!({"app": "web", "pod-template-hash": hash}),
            None => json!({"app": "web"}),
        };
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}})
    }

    fn set(revision: &str, image: &str) -> ReplicaSet {
        let annotations = json!({"deployment.kubernetes.io/revision": revision, "kubernetes.io/change-cause": image,
            "deployment.kubernetes.io/desired-replicas": "1"});
        let template = template(image, Some("x"));
        serde_json::from_value(json!({"metadata": {"name": image, "annotations": annotations},
            "spec": {"selector": {}, "template": template}}))
        .unwrap()
    }

    #[test]
    fn revision_in_another_namespace_is_not_found() {
        let forged = |number: &str| {
            let mut set = set(number, "forged");
            set.metadata.namespace = Some("other".to_owned());
            set
        };
        let sets = [set("3", "v3"), forged("2"), forged("7")];
        for to in ["0", "2", "7"] {
            let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "d",
                "annotations": {ANN_ROLLBACK_TO: to}}, "spec": {"selector": {}, "template": template("v3", None)}}))
            .unwrap();
            let rollback = requested(&deployment, &sets).unwrap();
            assert_eq!(rollback.event.1, "DeploymentRollbackRevisionNotFound", "{to}");
            assert_eq!(rollback.deployment.spec, deployment.spec, "{to}");
        }
    }

    #[test]
    fn deployment_gets_the_template_of_the_requested_revision() {
        let sets = [set("1", "v1"), set("2", "v2"), set("3", "v3")];
        let found = "DeploymentRollback";
        let missing = "DeploymentRollbackRevisionNotFound";
        for (case, sets, to, want) in [
            (
                "1 a revision",
                &sets[..],
                "1",
                Some(("v1", found, "Rolled back deployment \"d\" to revision 1")),
            ),
            (
                "2 the previous one",
                &sets,
                "0",
                Some(("v2", found, "Rolled back deployment \"d\" to revision 2")),
            ),
            (
                "3 an unknown one",
                &sets,
                "9",
                Some(("v3", missing, "Unable to find the revision to rollback to.")),
            ),
            ("4 no previous one", &sets[2..], "0", Some(("v3", missing, "Unable to find last revision."))),
            (
                "5 the current one",
                &sets,
                "3",
                Some((
                    "v3",
                    "DeploymentRollbackTemplateUnchanged",
                    "The rollback revision contains the same template as current deployment \"d\"",
                )),
            ),
            ("6 no number", &sets, "x", None),
        ] {
            let annotations =
                json!({ANN_ROLLBACK_TO: to, "deployment.kubernetes.io/revision": "3", "note": "n"});
            let deployment: Deployment =
                serde_json::from_value(json!({"metadata": {"name": "d", "annotations": annotations},
                "spec": {"selector": {}, "template": template("v3", None)}}))
                .unwrap();
            let rollback = requested(&deployment, sets);
            let shown = rollback.as_ref().map(|rollback| {
                let spec = rollback.deployment.spec.as_ref().unwrap();
                let image = spec.template.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
                (image, rollback.event.1, rollback.event.2.as_str())
            });
            assert_eq!(shown, want, "{case}");
            let Some(rollback) = rollback else { continue };
            let annotations = rollback.deployment.metadata.annotations.unwrap();
            assert_eq!(annotations.get(ANN_ROLLBACK_TO), None, "{case}");
            let is_restored = rollback.event.1 == found;
            assert_eq!(annotations.contains_key("kubernetes.io/change-cause"), is_restored, "{case}");
            assert_eq!(annotations.contains_key("note"), !is_restored, "{case}");
            assert_eq!(annotations["deployment.kubernetes.io/revision"], "3", "{case}");
            let labels = rollback.deployment.spec.unwrap().template.metadata.unwrap().labels.unwrap();
            assert_eq!(labels.len(), 1, "{case}: {labels:?}");
        }
    }
}
