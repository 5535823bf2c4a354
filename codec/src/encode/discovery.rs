//! Encodes discovery documents in protobuf.
//!
//! Their types are not in the arena, because no client writes them. The tables contain the field numbers of upstream's
//! `generated.proto` of `meta/v1` and `apidiscovery/v2`.

use serde_json::Value;

use super::wire::{put_bytes, put_number};

/// The fields of a message: their JSON names, their numbers and their forms.
type Message = &'static [(&'static str, u32, Form)];

/// The form of a field. A list is a repeated field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Bool,
    Message(Message),
    /// A list in a message of its own.
    Wrapped,
}

const SERVER_ADDRESS: Message = &[("clientCIDR", 1, Form::Text), ("serverAddress", 2, Form::Text)];

const VERSIONS: Message =
    &[("versions", 1, Form::Text), ("serverAddressByClientCIDRs", 2, Form::Message(SERVER_ADDRESS))];

const GROUP_VERSION: Message = &[("groupVersion", 1, Form::Text), ("version", 2, Form::Text)];

const GROUP: Message = &[
    ("name", 1, Form::Text),
    ("versions", 2, Form::Message(GROUP_VERSION)),
    ("preferredVersion", 3, Form::Message(GROUP_VERSION)),
    ("serverAddressByClientCIDRs", 4, Form::Message(SERVER_ADDRESS)),
];

const GROUPS: Message = &[("groups", 1, Form::Message(GROUP))];

const RESOURCE: Message = &[
    ("name", 1, Form::Text),
    ("namespaced", 2, Form::Bool),
    ("kind", 3, Form::Text),
    ("verbs", 4, Form::Wrapped),
    ("shortNames", 5, Form::Text),
    ("singularName", 6, Form::Text),
    ("categories", 7, Form::Text),
    ("group", 8, Form::Text),
    ("version", 9, Form::Text),
    ("storageVersionHash", 10, Form::Text),
];

const RESOURCES: Message = &[("groupVersion", 1, Form::Text), ("resources", 2, Form::Message(RESOURCE))];

const KIND: Message = &[("group", 1, Form::Text), ("version", 2, Form::Text), ("kind", 3, Form::Text)];

const AGGREGATED_SUBRESOURCE: Message = &[
    ("subresource", 1, Form::Text),
    ("responseKind", 2, Form::Message(KIND)),
    ("acceptedTypes", 3, Form::Message(KIND)),
    ("verbs", 4, Form::Text),
];

const AGGREGATED_RESOURCE: Message = &[
    ("resource", 1, Form::Text),
    ("responseKind", 2, Form::Message(KIND)),
    ("scope", 3, Form::Text),
    ("singularResource", 4, Form::Text),
    ("verbs", 5, Form::Text),
    ("shortNames", 6, Form::Text),
    ("categories", 7, Form::Text),
    ("subresources", 8, Form::Message(AGGREGATED_SUBRESOURCE)),
];

const AGGREGATED_VERSION: Message = &[
    ("version", 1, Form::Text),
    ("resources", 2, Form::Message(AGGREGATED_RESOURCE)),
    ("freshness", 3, Form::Text),
];

/// Of the metadata, discovery contains only the name.
const METADATA: Message = &[("name", 1, Form::Text)];

const AGGREGATED_GROUP: Message =
    &[("metadata", 1, Form::Message(METADATA)), ("versions", 2, Form::Message(AGGREGATED_VERSION))];

const AGGREGATED: Message =
    &[("metadata", 1, Form::Message(&[])), ("items", 2, Form::Message(AGGREGATED_GROUP))];

/// Encodes a discovery document as a message; `None` for other kinds.
pub(super) fn message(api_version: &str, kind: &str, document: &Value) -> Option<Vec<u8>> {
    let message = match (api_version, kind) {
        // Upstream writes the documents of `/api` and `/api/v1` without a version.
        ("" | "v1", "APIVersions") => VERSIONS,
        ("" | "v1", "APIGroup") => GROUP,
        ("" | "v1", "APIGroupList") => GROUPS,
        ("" | "v1", "APIResourceList") => RESOURCES,
        ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList") => AGGREGATED,
        _ => return None,
    };
    Some(encode(message, document))
}

fn encode(message: Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, form) in message {
        match (&value[*name], form) {
            (Value::Null, _) => {}
            (Value::Array(items), Form::Wrapped) => {
                let mut list = Vec::new();
                items.iter().for_each(|item| put(&mut list, 1, Form::Text, item));
                put_bytes(&mut out, *number, &list);
            }
            (Value::Array(items), form) => {
                items.iter().for_each(|item| put(&mut out, *number, *form, item));
            }
            (value, form) => put(&mut out, *number, *form, value),
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, form: Form, value: &Value) {
    match form {
        Form::Text | Form::Wrapped => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Form::Bool => put_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        Form::Message(message) => put_bytes(out, number, &encode(message, value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_have_upstreams_field_numbers() {
        let versions = json!({"versions": ["v1"]});
        let group = json!({"name": "g", "versions": [{"groupVersion": "g/v1", "version": "v1"}]});
        let resources = json!({"groupVersion": "v1", "resources": [
            {"name": "a", "singularName": "b", "namespaced": true, "kind": "A", "verbs": ["get"], "categories": ["c"]}]});
        let aggregated = json!({"metadata": {}, "items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "resources": [{"resource": "a", "responseKind": {"kind": "A"}, "verbs": ["get"]}]}]}]});
        for (api_version, kind, document, want) in [
            ("", "APIVersions", versions, &b"\x0a\x02v1"[..]),
            ("v1", "APIGroup", group, b"\x0a\x01g\x12\x0a\x0a\x04g/v1\x12\x02v1"),
            (
                "v1",
                "APIResourceList",
                resources,
                b"\x0a\x02v1\x12\x15\x0a\x01a\x10\x01\x1a\x01A\x22\x05\x0a\x03get\x32\x01b\x3a\x01c",
            ),
            (
                "apidiscovery.k8s.io/v2",
                "APIGroupDiscoveryList",
                aggregated,
                b"\x0a\x00\x12\x1a\x0a\x03\x0a\x01g\x12\x13\x0a\x02v1\x12\x0d\x0a\x01a\x12\x03\x1a\x01A\x2a\x03get",
            ),
        ] {
            let found = message(api_version, kind, &document).unwrap_or_default();
            assert_eq!(found, want, "{kind}: {found:?}");
        }
        assert_eq!(message("v1", "Pod", &json!({})), None);
    }
}
