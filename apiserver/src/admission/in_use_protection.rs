//! `StorageObjectInUseProtection`: adds the protection finalizer to claims and volumes. A controller removes it when the
//! object is no longer used (upstream: plugin/pkg/admission/storage/storageobjectinuseprotection).

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use orlop_api::status::ApiError;

/// Group and plural of the protected kinds, and the finalizer.
const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

pub(super) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn mutate(&self, request: &mut Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create {
            return Ok(());
        }
        let ours = FINALIZERS.iter().find(|(group, plural, _)| request.is(group, plural));
        if let (Some((_, _, finalizer)), Some(object)) = (ours, request.object.as_deref_mut()) {
            object.add_finalizer(finalizer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{Facts, Write};

    #[test]
    fn protected_kinds_get_their_finalizer() {
        let none = Value::Null;
        for (plural, given, want) in [
            ("persistentvolumes", none.clone(), json!(["kubernetes.io/pv-protection"])),
            ("persistentvolumeclaims", json!(["a/b"]), json!(["a/b", "kubernetes.io/pvc-protection"])),
            (
                "persistentvolumeclaims",
                json!(["kubernetes.io/pvc-protection"]),
                json!(["kubernetes.io/pvc-protection"]),
            ),
            ("volumeattributesclasses", none.clone(), json!(["kubernetes.io/vac-protection"])),
            ("storageclasses", none.clone(), none.clone()),
        ] {
            let mut object = json!({"metadata": {"name": "a"}});
            if !given.is_null() {
                object["metadata"]["finalizers"] = given;
            }
            let created = Write::create(plural, object.clone())
                .mutate(&StorageObjectInUseProtection, &Facts::none())
                .expect("never refuses");
            assert_eq!(created["metadata"].get("finalizers").unwrap_or(&none), &want, "{plural}");
            let updated = Write::update(plural, object.clone(), object.clone())
                .mutate(&StorageObjectInUseProtection, &Facts::none())
                .expect("never refuses");
            assert_eq!(updated, object, "{plural}: an update may take it off");
        }
    }
}
