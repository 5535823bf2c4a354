//! Reads and changes object metadata for all controllers. Pure functions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde_json::{Value, json};

/// Whether the object has this finalizer.
pub fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|f| f == finalizer)
}

/// Whether the object is being deleted.
pub fn is_terminating<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn finalizers_with<K: Resource>(object: &K, more: &[&str]) -> Vec<String> {
    let mut all = object.meta().finalizers.clone().unwrap_or_default();
    for finalizer in more {
        if !all.iter().any(|known| known == finalizer) {
            all.push((*finalizer).to_owned());
        }
    }
    all
}

fn finalizers_without<K: Resource>(object: &K, gone: &[&str]) -> Vec<String> {
    let mut rest = object.meta().finalizers.clone().unwrap_or_default();
    rest.retain(|known| !gone.contains(&known.as_str()));
    rest
}

/// Returns a copy with the finalizer appended if it was missing.
pub fn with_finalizer<K: Resource + Clone>(object: &K, finalizer: &str) -> K {
    let mut copy = object.clone();
    copy.meta_mut().finalizers = Some(finalizers_with(object, &[finalizer]));
    copy
}

/// Returns a copy without the finalizer; the others retain their order.
pub fn without_finalizer<K: Resource + Clone>(object: &K, finalizer: &str) -> K {
    let mut copy = object.clone();
    copy.meta_mut().finalizers =
        Some(finalizers_without(object, &[finalizer])).filter(|rest| !rest.is_empty());
    copy
}

/// Returns the merge patch that appends the missing finalizers. It applies only to this version of the object.
pub fn adding_finalizers<K: Resource>(object: &K, more: &[&str]) -> Value {
    finalizers_patch(object, &finalizers_with(object, more))
}

/// Returns the merge patch that removes finalizers. It applies only to this version of the object.
pub fn removing_finalizers<K: Resource>(object: &K, gone: &[&str]) -> Value {
    finalizers_patch(object, &finalizers_without(object, gone))
}

fn finalizers_patch<K: Resource>(object: &K, finalizers: &[String]) -> Value {
    json!({"metadata": {"resourceVersion": object.meta().resource_version, "finalizers": finalizers}})
}

/// The value of an annotation.
pub fn annotation<'a, K: Resource>(object: &'a K, key: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(key).map(String::as_str)
}

/// API times have whole seconds.
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PersistentVolume;

    use super::*;

    fn volume(finalizers: &[&str]) -> PersistentVolume {
        let mut volume = PersistentVolume::default();
        volume.metadata.resource_version = Some("7".to_owned());
        volume.metadata.finalizers = Some(finalizers.iter().map(|name| (*name).to_owned()).collect())
            .filter(|all: &Vec<_>| !all.is_empty());
        volume
    }

    #[test]
    fn finalizers_are_added_once_and_removed_individually() {
        for (before, name, with, without) in [
            (&[][..], "a", &["a"][..], &[][..]),
            (&["x"], "a", &["x", "a"], &["x"]),
            (&["x", "a", "y"], "a", &["x", "a", "y"], &["x", "y"]),
            (&["a"], "a", &["a"], &[]),
        ] {
            let object = volume(before);
            assert_eq!(with_finalizer(&object, name), volume(with), "{before:?}");
            assert_eq!(without_finalizer(&object, name), volume(without), "{before:?}");
            let patch = |list: &[&str]| json!({"metadata": {"resourceVersion": "7", "finalizers": list}});
            assert_eq!(adding_finalizers(&object, &[name]), patch(with), "{before:?}");
            assert_eq!(removing_finalizers(&object, &[name]), patch(without), "{before:?}");
        }
        let wanted = json!(["x", "a", "b"]);
        assert_eq!(adding_finalizers(&volume(&["x"]), &["a", "b"])["metadata"]["finalizers"], wanted);
        assert_eq!(
            removing_finalizers(&volume(&["x", "a"]), &["a", "x"])["metadata"]["finalizers"],
            json!([])
        );
    }
}
