//! Bundled definitions: kinds that are not part of a Kubernetes server but that storage needs.
//!
//! They are served like custom kinds, from startup on, and are not in the store, so clients list only definitions
//! that a client has created. A client may create a definition with the same name. It is stored and shown but
//! does not change the served kind, and deleting it deletes no objects. The controllers rely on the form defined
//! here.
//!
//! Fields, rules and messages are those of kubernetes-csi/external-snapshotter, client/config/crd.

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

/// Returns the bundled definitions. Their names are accepted, and they have no UID.
pub fn definitions() -> &'static [Object] {
    &DEFINITIONS
}

/// Whether a definition with this name is bundled.
pub fn has(name: &str) -> bool {
    definitions().iter().any(|object| object.name() == name)
}

#[cfg(test)]
mod tests {
    use orlop_api::validate::FieldErrors;

    use super::*;
    use crate::definition::is_established;

    #[test]
    fn bundled_definitions_are_valid_and_established() {
        for object in definitions() {
            let name = object.name();
            assert!(has(name) && is_established(object), "{name}");
            assert_eq!(object.uid(), "", "{name}");
            let mut approved = object.clone();
            approved.set(&["metadata", "annotations"], serde_json::json!({definition::APPROVED: "here"}));
            definition::first_status(&mut approved);
            let mut errors = FieldErrors::new();
            definition::validate(&approved, None, &mut errors);
            assert_eq!(errors.len(), 0, "{name}: {errors:?}");
        }
        assert!(!has("volumegroupsnapshots.groupsnapshot.storage.k8s.io"));
    }
}
