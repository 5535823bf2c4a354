//! Small readings and changes of object metadata that every controller needs. Pure functions.

use kube::Resource;

/// The object carries this finalizer.
pub fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|f| f == finalizer)
}

/// The object is being deleted.
pub fn is_terminating<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// A copy with the finalizer added at the end.
pub fn with_finalizer<K: Resource + Clone>(object: &K, finalizer: &str) -> K {
    let mut copy = object.clone();
    copy.meta_mut().finalizers.get_or_insert_default().push(finalizer.to_owned());
    copy
}

/// A copy without the finalizer; the others keep their order.
pub fn without_finalizer<K: Resource + Clone>(object: &K, finalizer: &str) -> K {
    let mut copy = object.clone();
    if let Some(list) = &mut copy.meta_mut().finalizers {
        list.retain(|f| f != finalizer);
    }
    copy
}

/// The value of an annotation.
pub fn annotation<'a, K: Resource>(object: &'a K, key: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(key).map(String::as_str)
}
