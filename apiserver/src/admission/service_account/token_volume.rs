//! The volume with the token of a pod's service account.

use orlop_api::object::Object;
use serde_json::{Value, json};

use crate::generated_name::generated_name;

/// The prefix of the volume's name.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Where containers find the token. Client libraries read it from there.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The lifetime of the token, seconds. Upstream: `WarnOnlyBoundTokenExpirationSeconds`.
const TOKEN_SECONDS: u32 = 60 * 60 + 7;

/// Mounts the token into the containers that mount nothing at its path. Reuses a volume of an earlier run.
pub(super) fn mount(pod: &mut Object) {
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array);
    let names = volumes.into_iter().flatten().filter_map(|volume| volume["name"].as_str());
    let existing = { names }.find(|name| name.starts_with(VOLUME_PREFIX)).map(str::to_owned);
    let is_new = existing.is_none();
    let name = existing.unwrap_or_else(|| generated_name(VOLUME_PREFIX));
    let mut is_used = false;
    let spec = pod.object_at(&["spec"]);
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            is_used |= mount_into(container, &name);
        }
    }
    if is_used && is_new {
        push(spec.entry("volumes").or_insert(Value::Null), volume(&name));
    }
}

/// Mounts the volume, unless the container mounts another one there.
fn mount_into(container: &mut Value, volume: &str) -> bool {
    let Some(container) = container.as_object_mut() else { return false };
    let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
    let mut others = mounts.as_array().into_iter().flatten();
    if others.any(|mount| mount["mountPath"] == MOUNT_PATH) {
        return false;
    }
    push(mounts, json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
    true
}

/// Appends to a list, which may be missing.
fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
        },
    })
}
