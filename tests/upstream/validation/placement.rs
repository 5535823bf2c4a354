//! Taints of nodes, and the node affinity of volumes.

use serde_json::{Value, json};

use super::super::server;
use super::{LABEL, PART, REQUIRED, SUBDOMAIN, create, invalid, update};

/// Upstream reports the taints of a new node below `metadata`, and those of a changed one twice.
#[tokio::test]
async fn taints_and_node_affinity_are_validated() {
    let (_plane, http) = server().await;
    let taint = |taint: Value| json!({"spec": {"taints": [taint]}});
    let (key, value) = ("metadata.taints[0].key", "metadata.taints[0].value");
    let node = json!({"metadata": {"name": "n"}});
    let nodes = "/api/v1/nodes";
    let no_key = || vec![invalid(key, "", "name part must be non-empty"), invalid(key, "", PART)];
    let long = "k".repeat(64);
    let effects = "supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"";
    create(
        &http,
        nodes,
        &node,
        vec![
            ("no key", taint(json!({"key": "", "effect": "NoSchedule"})), no_key()),
            (
                "long key",
                taint(json!({"key": long, "effect": "NoSchedule"})),
                vec![invalid(key, &long, "name part must be no more than 63 bytes")],
            ),
            (
                "malformed value and no effect",
                taint(json!({"key": "k", "value": "a b"})),
                vec![invalid(value, "a b", LABEL), format!("metadata.taints[0].effect: {REQUIRED}")],
            ),
            (
                "unknown effect",
                taint(json!({"key": "k", "effect": "No"})),
                vec![format!("metadata.taints[0].effect: Unsupported value: \"No\": {effects}")],
            ),
        ],
    )
    .await;
    http.create(nodes, &node).await;
    let twice = [no_key(), no_key()].concat();
    update(
        &http,
        "/api/v1/nodes/n",
        vec![("no key", taint(json!({"key": "", "effect": "NoSchedule"})), twice)],
    )
    .await;

    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/x"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}}});
    let terms = "spec.nodeAffinity.required.nodeSelectorTerms";
    let term = |term: Value| json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}});
    let expression = |key: &str, values: Value| {
        term(json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]}))
    };
    let first = format!("{terms}[0].matchExpressions[0]");
    create(
        &http,
        "/api/v1/persistentvolumes",
        &volume,
        vec![
            (
                "no terms",
                json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}}),
                vec![format!("{terms}: Required value: must have at least one node selector term")],
            ),
            (
                "no requirement",
                json!({"spec": {"nodeAffinity": {"required": null}}}),
                vec![
                    "spec.nodeAffinity.required: Required value: must specify required node constraints"
                        .into(),
                ],
            ),
            (
                "no key",
                expression("", json!(["v"])),
                vec![
                    invalid(&format!("{first}.key"), "", "name part must be non-empty"),
                    invalid(&format!("{first}.key"), "", PART),
                ],
            ),
            (
                "malformed value",
                expression("k", json!(["", "a b"])),
                vec![invalid(&format!("{first}.values[1]"), "a b", LABEL)],
            ),
            (
                "field",
                term(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [""]}]})),
                vec![invalid(&format!("{terms}[0].matchFields[0].values[0]"), "", SUBDOMAIN)],
            ),
        ],
    )
    .await;
}
