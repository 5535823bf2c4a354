//! Definitions that orlop brings: kinds that belong to no Kubernetes server, but without which the storage half is not whole.
//!
//! They are served by the machinery of custom kinds, from the start and for ever. They lie in no store, so that a client sees
//! no definition that it has not made; and one that a client makes under the same name is kept, and shown, and changes
//! nothing about what is served: its kind is there already, and it takes no objects along when it goes. The controllers
//! rely on the form that is here.
//!
//! Fields, rules and their texts are those of kubernetes-csi/external-snapshotter, client/config/crd.

use std::sync::LazyLock;

use orlop_api::object::Object;
use serde_json::Value;

use crate::accept::accept;
use crate::definition;

const TEXTS: [&str; 3] = [
    include_str!("volumesnapshots.json"),
    include_str!("volumesnapshotcontents.json"),
    include_str!("volumesnapshotclasses.json"),
];

static DEFINITIONS: LazyLock<Vec<Object>> = LazyLock::new(|| {
    let mut read: Vec<Object> = Vec::new();
    for text in TEXTS {
        let value = serde_json::from_str(text).expect("the files are JSON, as a test knows");
        let mut object = Object::from_value(value);
        definition::defaults(&mut object);
        let others: Vec<&Object> = read.iter().collect();
        accept(&mut object, &others, &Value::Null);
        read.push(object);
    }
    read
});

/// The definitions, their names accepted. They have no UID.
pub fn definitions() -> &'static [Object] {
    &DEFINITIONS
}

/// Whether a definition of this name is one of them.
pub fn has(name: &str) -> bool {
    definitions().iter().any(|object| object.name() == name)
}

#[cfg(test)]
mod tests {
    use orlop_api::validate::FieldErrors;

    use super::*;
    use crate::definition::is_established;

    #[test]
    fn they_would_be_taken_if_somebody_wrote_them() {
        for object in definitions() {
            let name = object.name();
            assert!(has(name) && is_established(object), "{name}");
            assert_eq!(object.uid(), "", "{name}");
            let mut approved = object.clone();
            approved.set(&["metadata", "annotations"], serde_json::json!({definition::APPROVED: "here"}));
            let mut errors = FieldErrors::new();
            definition::validate(&approved, None, &mut errors);
            assert_eq!(errors.len(), 0, "{name}: {errors:?}");
        }
        assert!(!has("volumegroupsnapshots.groupsnapshot.storage.k8s.io"));
    }
}
