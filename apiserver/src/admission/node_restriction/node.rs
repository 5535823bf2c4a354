//! Nodes: a node writes its own Node, but not its taints and not the labels that steer workloads.

use std::collections::BTreeSet;

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use serde_json::{Map, Value};

use crate::admission::request::{Operation, Request};

/// Labels of Kubernetes that a node may set (upstream: kubelet `pkg/apis/well_known_labels.go`).
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Prefixes of labels that a node may set, also with subdomains.
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The prefix of labels that no node may set.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

pub(super) fn restrict(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    is_own(request, node)?;
    let refuse = |why: String| Err(request.refuse(&why));
    let none = Object::default();
    let (new, old) = (request.object.as_deref().unwrap_or(&none), request.old.unwrap_or(&none));
    match request.operation {
        Operation::Delete => Ok(()),
        Operation::Create => {
            if config_source(new).is_some() {
                let what = "is not allowed to create pods with a non-nil configSource";
                return refuse(format!("node {node:?} {what}"));
            }
            // As for updates below. Upstream accepts owners here.
            if !owners(new).is_empty() {
                return refuse(format!("node {node:?} is not allowed to set ownerReferences"));
            }
            match forbidden_labels(new, &none) {
                labels if labels.is_empty() => Ok(()),
                labels => {
                    refuse(format!("node {node:?} is not allowed to set the following labels: {labels}"))
                }
            }
        }
        Operation::Update => {
            if config_source(new).is_some() && config_source(new) != config_source(old) {
                let what = "is not allowed to update configSource to a new non-nil configSource";
                return refuse(format!("node {node:?} {what}"));
            }
            if taints(new) != taints(old) {
                return refuse(format!("node {node:?} is not allowed to modify taints"));
            }
            // The garbage collector deletes a node with its owner, which may not exist or which the agent can delete, and the agent
            // could create the node without its taints and labels (CVE-2025-5187).
            if owners(new) != owners(old) {
                return refuse(format!("node {node:?} is not allowed to modify ownerReferences"));
            }
            match forbidden_labels(new, old) {
                labels if labels.is_empty() => Ok(()),
                labels => refuse(format!("is not allowed to modify labels: {labels}")),
            }
        }
    }
}

/// Rejects a write to the Node of another agent.
pub(super) fn is_own(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    match request.requested_name() {
        name if name == node => Ok(()),
        name => Err(request.refuse(&format!("node {node:?} is not allowed to modify node {name:?}"))),
    }
}

fn config_source(node: &Object) -> Option<&Value> {
    node.at(&["spec", "configSource"]).filter(|source| !source.is_null())
}

fn owners(node: &Object) -> &[Value] {
    node.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn taints(node: &Object) -> &[Value] {
    node.at(&["spec", "taints"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The labels that differ and that a node may not change, sorted and joined.
fn forbidden_labels(new: &Object, old: &Object) -> String {
    let empty = Map::new();
    let (new, old) = (new.labels().unwrap_or(&empty), old.labels().unwrap_or(&empty));
    let differing = new.keys().chain(old.keys()).filter(|key| new.get(*key) != old.get(*key));
    let forbidden: BTreeSet<&str> = differing.map(String::as_str).filter(|key| is_forbidden(key)).collect();
    forbidden.into_iter().collect::<Vec<_>>().join(", ")
}

/// Whether a domain is another one or lies below it.
fn is_within(domain: &str, parent: &str) -> bool {
    domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_forbidden(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return false };
    let is_kubernetes = is_within(domain, "kubernetes.io") || is_within(domain, "k8s.io");
    let is_own = OWN_LABELS.contains(&label) || OWN_PREFIXES.iter().any(|prefix| is_within(domain, prefix));
    is_within(domain, RESTRICTED) || (is_kubernetes && !is_own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::NodeRestriction;
    use super::*;
    use crate::admission::testing::{Facts, Write};

    /// The reason of the refusal, or `""`.
    fn why(write: Write) -> String {
        let Err(error) = write.by_node("n1").mutate(&NodeRestriction, &Facts::none()) else {
            return String::new();
        };
        error.message.split_once("is forbidden: ").map_or(error.message.clone(), |(_, why)| why.to_owned())
    }

    fn node(name: &str, labels: Value, spec: Value) -> Value {
        json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
    }

    #[test]
    fn node_writes_only_itself() {
        let other = "node \"n1\" is not allowed to modify node \"n2\"";
        let plain = |name: &str| node(name, json!({}), json!({}));
        for (write, want) in [
            (Write::create("nodes", plain("n1")), ""),
            (Write::create("nodes", plain("n2")), other),
            (Write::update("nodes", plain("n1"), plain("n1")), ""),
            (Write::update("nodes", plain("n2"), plain("n2")), other),
            (Write::update("nodes", plain("n2"), plain("n2")).to("status"), other),
            (Write::delete("nodes", plain("n1")), ""),
            (Write::delete("nodes", plain("n2")), other),
            (
                Write::delete("nodes", plain("n1")).of_collection(),
                "node \"n1\" is not allowed to modify node \"\"",
            ),
        ] {
            assert_eq!(why(write), want);
        }
    }

    #[test]
    fn taints_and_config_source_are_not_the_nodes_own() {
        let with = |spec: Value| node("n1", json!({}), spec);
        let source = || json!({"configSource": {"configMap": {"name": "c"}}});
        let taint = || json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
        let owned = || {
            let mut node = with(json!({}));
            node["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}]);
            node
        };
        for (write, want) in [
            (Write::create("nodes", with(taint())), ""),
            (
                Write::create("nodes", with(source())),
                "node \"n1\" is not allowed to create pods with a non-nil configSource",
            ),
            (
                Write::update("nodes", with(json!({})), with(source())),
                "node \"n1\" is not allowed to update configSource to a new non-nil configSource",
            ),
            (Write::update("nodes", with(source()), with(source())), ""),
            (Write::update("nodes", with(source()), with(json!({}))), ""),
            (
                Write::update("nodes", with(taint()), with(json!({}))),
                "node \"n1\" is not allowed to modify taints",
            ),
            (Write::update("nodes", with(json!({"taints": []})), with(json!({}))), ""),
            (Write::create("nodes", owned()), "node \"n1\" is not allowed to set ownerReferences"),
            (
                Write::update("nodes", with(json!({})), owned()),
                "node \"n1\" is not allowed to modify ownerReferences",
            ),
            (
                Write::update("nodes", with(json!({})), owned()).to("status"),
                "node \"n1\" is not allowed to modify ownerReferences",
            ),
        ] {
            assert_eq!(why(write), want);
        }
    }

    #[test]
    fn labels_that_steer_workloads_are_forbidden() {
        for (label, want) in [
            ("x", false),
            ("example.com/x", false),
            ("kubernetes.io/hostname", false),
            ("beta.kubernetes.io/arch", false),
            ("topology.kubernetes.io/zone", false),
            ("kubelet.kubernetes.io/x", false),
            ("a.node.kubernetes.io/x", false),
            ("notkubernetes.io/x", false),
            ("kubernetes.io/x", true),
            ("x.k8s.io/y", true),
            ("k8s.io/y", true),
            ("node-role.kubernetes.io/worker", true),
            ("node-restriction.kubernetes.io/x", true),
            ("a.node-restriction.kubernetes.io/x", true),
        ] {
            assert_eq!(is_forbidden(label), want, "{label}");
        }
    }

    #[test]
    fn changed_labels_are_listed() {
        let with = |labels: Value| node("n1", labels, json!({}));
        let forbidden = json!({"kubernetes.io/y": "1", "kubernetes.io/x": "1", "a": "1"});
        for (write, want) in [
            (
                Write::create("nodes", with(forbidden.clone())),
                "node \"n1\" is not allowed to set the following labels: kubernetes.io/x, kubernetes.io/y",
            ),
            (Write::update("nodes", with(forbidden.clone()), with(forbidden.clone())), ""),
            (
                Write::update("nodes", with(forbidden.clone()), with(json!({"kubernetes.io/y": "2"}))),
                "is not allowed to modify labels: kubernetes.io/x, kubernetes.io/y",
            ),
        ] {
            assert_eq!(why(write), want);
        }
    }
}
