//! Bundled definitions: kinds that are not part of a Kubernetes server but that storage needs.
//!
//! They are served like custom kinds, from startup on, and are not in the store, so clients list only definitions
//! that a client has created. A client may create a definition with the same name. It is stored and shown but
//! does not change the served kind, and deleting it deletes no objects. The controllers rely on the form defined
//! here.
//!
//! Fields, rules and messages are those of kubernetes-csi/external-snapshotter, client/config/crd. A version in a
//! file has the parts of the first version that it does not state.

use std::sync::LazyLock;

use orlop_api::object::Object;
use serde_json::Value;

use crate::accept::accept;
use crate::definition;

const TEXTS: [&str; 6] = [
    include_str!("volumesnapshots.json"),
    include_str!("volumesnapshotcontents.json"),
    include_str!("volumesnapshotclasses.json"),
    include_str!("volumegroupsnapshots.json"),
    include_str!("volumegroupsnapshotcontents.json"),
    include_str!("volumegroupsnapshotclasses.json"),
];

static DEFINITIONS: LazyLock<Vec<Object>> = LazyLock::new(|| {
    let mut read: Vec<Object> = Vec::new();
    for text in TEXTS {
        let mut value: Value = serde_json::from_str(text).expect("the files are JSON, as a test knows");
        share_parts(&mut value);
        let mut object = Object::from_value(value);
        definition::defaults(&mut object);
        let others: Vec<&Object> = read.iter().collect();
        accept(&mut object, &others, &Value::Null);
        read.push(object);
    }
    read
});

/// Adds the parts of the first version to the versions that do not state them.
fn share_parts(definition: &mut Value) {
    let Some(Value::Array(versions)) = definition.pointer_mut("/spec/versions") else { return };
    let Some((first, others)) = versions.split_first_mut() else { return };
    let Some(parts) = first.as_object() else { return };
    for other in others.iter_mut().filter_map(Value::as_object_mut) {
        for (name, part) in parts {
            other.entry(name.as_str()).or_insert_with(|| part.clone());
        }
    }
}

/// Returns the bundled definitions. Their names are accepted, and they have no UID.
pub fn definitions() -> &'static [Object] {
    &DEFINITIONS
}

/// Whether a definition with this name is bundled.
pub fn has(name: &str) -> bool {
    definitions().iter().any(|object| object.name() == name)
}

#[cfg(test)]
mod tests;
