//! Merge patches that add or remove a finalizer, conditional on the version that was read (I5). Pure.

use kube::Resource;
use serde_json::{Value, json};

/// Appends the finalizer, unless it is present.
pub(super) fn with<K: Resource>(object: &K, finalizer: &str) -> Value {
    let mut all = object.meta().finalizers.clone().unwrap_or_default();
    if !all.iter().any(|one| one == finalizer) {
        all.push(finalizer.to_owned());
    }
    change(object, all)
}

/// Removes it; the others keep their order.
pub(super) fn without<K: Resource>(object: &K, finalizer: &str) -> Value {
    let mut all = object.meta().finalizers.clone().unwrap_or_default();
    all.retain(|one| one != finalizer);
    change(object, all)
}

fn change<K: Resource>(object: &K, finalizers: Vec<String>) -> Value {
    let meta = object.meta();
    let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}})
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    #[test]
    fn finalizer_is_added_once_and_removed() {
        let has = |finalizers: &[&str]| ConfigMap {
            metadata: ObjectMeta {
                uid: Some("u".to_owned()),
                resource_version: Some("7".to_owned()),
                finalizers: Some(finalizers.iter().map(|one| (*one).to_owned()).collect()),
                ..Default::default()
            },
            ..Default::default()
        };
        let is = |finalizers: Value| json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": finalizers}});
        assert_eq!(with(&has(&[]), "f"), is(json!(["f"])));
        assert_eq!(with(&has(&["a"]), "f"), is(json!(["a", "f"])));
        assert_eq!(with(&has(&["f", "a"]), "f"), is(json!(["f", "a"])));
        assert_eq!(without(&has(&["a", "f", "b"]), "f"), is(json!(["a", "b"])));
        assert_eq!(without(&has(&["f"]), "f"), is(Value::Null));
        assert_eq!(without(&has(&["a"]), "f"), is(json!(["a"])));
    }
}
