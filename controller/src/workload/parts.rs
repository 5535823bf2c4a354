//! The parts of owned objects that remain in memory while a workload decides. One decoded ControllerRevision may need 33 times the
//! memory of its JSON, and a workload may have hundreds, so only one is decoded at a time.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::core::ObjectMeta;
use orlop_client::api::Object;
use orlop_client::informer::{Informer, key_of};
use std::sync::Arc;

/// A revision without its data and its annotations.
pub fn revision_part(revision: &ControllerRevision) -> ControllerRevision {
    let metadata = &revision.metadata;
    ControllerRevision {
        metadata: ObjectMeta {
            creation_timestamp: metadata.creation_timestamp.clone(),
            labels: metadata.labels.clone(),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            resource_version: metadata.resource_version.clone(),
            uid: metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        data: None,
        revision: revision.revision,
    }
}

/// The cached object of a part; `None` if it was deleted in the meantime. It may be an older version than the part, because the part of
/// an adopted object is that of the server's response.
pub fn whole<K: Object>(objects: &Informer<K>, part: &K) -> Option<Arc<K>> {
    let object = objects.get(&key_of(part))?;
    (object.meta().uid == part.meta().uid).then_some(object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn revision(uid: &str) -> ControllerRevision {
        serde_json::from_value(
            json!({"metadata": {"namespace": "ns", "name": "a", "uid": uid, "resourceVersion": "3",
            "labels": {"app": "x"}, "annotations": {"large": "y"}}, "revision": 4, "data": {"large": "z"}}),
        )
        .unwrap()
    }

    #[test]
    fn part_has_no_large_field_and_leads_to_its_object() {
        let part = revision_part(&revision("u"));
        let text = serde_json::to_string(&part).unwrap();
        assert!(!text.contains("large") && text.contains(r#""revision":4"#), "{text}");
        let cached = Informer::new();
        assert_eq!(whole(&cached, &part), None, "it was deleted");
        cached.apply(revision("v"));
        assert_eq!(whole(&cached, &part), None, "another object has its name");
        cached.apply(revision("u"));
        assert_eq!(whole(&cached, &part).as_deref(), Some(&revision("u")));
    }
}
