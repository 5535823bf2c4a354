//! Finalizers of snapshots, contents and claims: which an object has to get, and the patch that gives or takes one.

use kube::Resource;
use serde_json::{Value, json};

use crate::meta::has_finalizer;

/// Those of `wanted` that an object has not.
pub fn missing<K: Resource>(object: &K, wanted: &[&'static str]) -> Vec<&'static str> {
    wanted.iter().filter(|finalizer| !has_finalizer(object, finalizer)).copied().collect()
}

/// Those of `given` that an object has.
pub fn present<K: Resource>(object: &K, given: &[&'static str]) -> Vec<&'static str> {
    given.iter().filter(|finalizer| has_finalizer(object, finalizer)).copied().collect()
}

/// Adds them at the end, to this version of the object and no other.
pub fn adding<K: Resource>(object: &K, more: &[&'static str]) -> Value {
    let old = object.meta().finalizers.iter().flatten().map(String::as_str);
    patch(object, old.chain(more.iter().copied()).collect())
}

/// Takes them away, from this version of the object and no other.
pub fn removing<K: Resource>(object: &K, gone: &[&'static str]) -> Value {
    let old = object.meta().finalizers.iter().flatten().map(String::as_str);
    patch(object, old.filter(|finalizer| !gone.contains(finalizer)).collect())
}

fn patch<K: Resource>(object: &K, finalizers: Vec<&str>) -> Value {
    json!({"metadata": {"resourceVersion": object.meta().resource_version, "finalizers": finalizers}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshots::VolumeSnapshot;

    #[test]
    fn lists() {
        let mut object = VolumeSnapshot::default();
        object.metadata.finalizers = Some(vec!["x".to_owned(), "a".to_owned()]);
        object.metadata.resource_version = Some("7".to_owned());
        assert_eq!((missing(&object, &["a", "b"]), present(&object, &["a", "b"])), (vec!["b"], vec!["a"]));
        let wanted = json!({"metadata": {"resourceVersion": "7", "finalizers": ["x", "a", "b"]}});
        assert_eq!(adding(&object, &["b"]), wanted);
        assert_eq!(removing(&object, &["a"])["metadata"]["finalizers"], json!(["x"]));
    }
}
