//! The key of an object in queues and informers.

use kube::Resource;

/// The key of an object: `namespace/name`, or `name` for a cluster-scoped one.
pub fn key_of<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    key(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

/// The key of the object with this name.
pub fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        Some(_) | None => name.to_owned(),
    }
}

/// Splits a key into namespace (empty for a cluster-scoped object) and name.
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}
