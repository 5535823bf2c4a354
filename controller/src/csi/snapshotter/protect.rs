//! The finalizers that snapshots, contents and claims have to gain or lose.

use kube::Resource;

use orlop_client::meta::has_finalizer;

/// The finalizers of `wanted` that an object lacks.
pub fn missing<K: Resource>(object: &K, wanted: &[&'static str]) -> Vec<&'static str> {
    wanted.iter().filter(|finalizer| !has_finalizer(object, finalizer)).copied().collect()
}

/// The finalizers of `given` that an object has.
pub fn present<K: Resource>(object: &K, given: &[&'static str]) -> Vec<&'static str> {
    given.iter().filter(|finalizer| has_finalizer(object, finalizer)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::VolumeSnapshot;

    #[test]
    fn missing_and_present_finalizers() {
        let mut object = VolumeSnapshot::default();
        object.metadata.finalizers = Some(vec!["x".to_owned(), "a".to_owned()]);
        assert_eq!((missing(&object, &["a", "b"]), present(&object, &["a", "b"])), (vec!["b"], vec!["a"]));
    }
}
