//! Warnings about a pod spec that is valid but probably a mistake.
//!
//! Upstream: pkg/api/pod/warnings.go.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use orlop_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::{items, text, typed};
use crate::validate::Path;

/// Deprecated node labels and their successors.
const OLD_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// Volume sources without effect.
const OLD_SOURCES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The warnings about the spec at a path.
pub(in crate::registry) fn pod_spec(json: &Value, path: &Path) -> Vec<String> {
    let Some(spec) = typed(json) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for key in spec.node_selector.iter().flatten().map(|(key, _)| key) {
        if let Some(text) = old_label(key) {
            found.push(format!("{}: {text}", path.child("nodeSelector").key(key)));
        }
    }
    if let Some(affinity) = &spec.affinity {
        node_affinity(affinity, &path.child("affinity"), &mut found);
        pod_affinity(affinity, &path.child("affinity"), &mut found);
    }
    for (i, constraint) in items(&spec.topology_spread_constraints).iter().enumerate() {
        let path = path.child("topologySpreadConstraints").index(i);
        if let Some(text) = old_label(&constraint.topology_key) {
            found.push(format!("{}: {} is {text}", path.child("topologyKey"), constraint.topology_key));
        }
        null_selector(constraint.label_selector.is_none(), &path, &mut found);
    }
    volumes(json, &path.child("volumes"), &mut found);
    let aliases = items(&spec.host_aliases).iter().map(|alias| alias.ip.as_str());
    repeated(aliases, "ip", &path.child("hostAliases"), &mut found);
    let secrets = items(&spec.image_pull_secrets);
    for (i, secret) in secrets.iter().enumerate().filter(|(_, secret)| secret.name.is_empty()) {
        let path = path.child("imagePullSecrets").index(i).child("name");
        found.push(format!("{path}: invalid empty name {:?}", secret.name));
    }
    let names = secrets.iter().map(|secret| secret.name.as_str());
    repeated(names, "name", &path.child("imagePullSecrets"), &mut found);
    let lists =
        [("initContainers", items(&spec.init_containers)), ("containers", spec.containers.as_slice())];
    for (list, containers) in lists {
        for (i, one) in containers.iter().enumerate() {
            container(one, &path.child(list).index(i), &mut found);
        }
    }
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        let path = path.child("terminationGracePeriodSeconds");
        found.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    found
}

fn old_label(key: &str) -> Option<String> {
    let (_, since, new) = OLD_LABELS.iter().find(|(old, _, _)| *old == key)?;
    Some(format!("deprecated since {since}; use {new:?} instead"))
}

fn node_affinity(affinity: &api::Affinity, path: &Path, found: &mut Vec<String>) {
    let Some(node) = &affinity.node_affinity else { return };
    let path = path.child("nodeAffinity");
    let mut term = |term: &api::NodeSelectorTerm, path: &Path| {
        for (i, expression) in items(&term.match_expressions).iter().enumerate() {
            if let Some(text) = old_label(&expression.key) {
                let path = path.child("matchExpressions").index(i).child("key");
                found.push(format!("{path}: {} is {text}", expression.key));
            }
        }
    };
    if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
        let path = path.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
        for (i, one) in required.node_selector_terms.iter().enumerate() {
            term(one, &path.index(i));
        }
    }
    let preferred = items(&node.preferred_during_scheduling_ignored_during_execution);
    for (i, one) in preferred.iter().enumerate() {
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(i);
        term(&one.preference, &path.child("preference"));
    }
}

fn pod_affinity(affinity: &api::Affinity, path: &Path, found: &mut Vec<String>) {
    let of = affinity.pod_affinity.as_ref();
    let anti = affinity.pod_anti_affinity.as_ref();
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (field, terms, weighted) in [
        (
            "podAffinity",
            of.map(|of| items(&of.required_during_scheduling_ignored_during_execution)),
            of.map(|of| items(&of.preferred_during_scheduling_ignored_during_execution)),
        ),
        (
            "podAntiAffinity",
            anti.map(|anti| items(&anti.required_during_scheduling_ignored_during_execution)),
            anti.map(|anti| items(&anti.preferred_during_scheduling_ignored_during_execution)),
        ),
    ] {
        let path = path.child(field);
        for (i, term) in terms.unwrap_or_default().iter().enumerate() {
            null_selector(term.label_selector.is_none(), &path.child(required).index(i), found);
        }
        for (i, term) in weighted.unwrap_or_default().iter().enumerate() {
            let path = path.child(preferred).index(i).child("podAffinityTerm");
            null_selector(term.pod_affinity_term.label_selector.is_none(), &path, found);
        }
    }
}

fn null_selector(is_null: bool, path: &Path, found: &mut Vec<String>) {
    if is_null {
        found.push(format!(
            "{}: a null labelSelector results in matching no pod",
            path.child("labelSelector")
        ));
    }
}

fn volumes(json: &Value, path: &Path, found: &mut Vec<String>) {
    let volumes = json.get("volumes").and_then(Value::as_array);
    for (i, volume) in volumes.into_iter().flatten().enumerate() {
        for (source, text) in OLD_SOURCES {
            if volume.get(source).is_some_and(|source| !source.is_null()) {
                found.push(format!("{}: {text}", path.index(i).child(source)));
            }
        }
    }
}

/// Duplicate entries; a patch applies only the last one.
fn repeated<'a>(values: impl Iterator<Item = &'a str>, field: &str, path: &Path, found: &mut Vec<String>) {
    let mut seen = BTreeMap::new();
    for (i, value) in values.enumerate() {
        if seen.insert(value, i).is_some() {
            found.push(format!("{}: duplicate {field} {value:?}", path.index(i).child(field)));
        }
    }
}

fn container(container: &api::Container, path: &Path, found: &mut Vec<String>) {
    if let Some(resources) = &container.resources {
        for (list, quantities) in [("limits", &resources.limits), ("requests", &resources.requests)] {
            for name in ["memory", "ephemeral-storage"] {
                let Some(quantity) = quantities.as_ref().and_then(|list| list.get(name)) else { continue };
                if Quantity::parse(&quantity.0).is_ok_and(|quantity| !quantity.is_integer()) {
                    let path = path.child("resources").child(list).key(name);
                    let text = "is invalid, must be an integer";
                    found.push(format!("{path}: fractional byte value {:?} {text}", quantity.0));
                }
            }
        }
    }
    let mut variables = BTreeMap::new();
    for (i, variable) in items(&container.env).iter().enumerate() {
        if variables.insert(&variable.name, i).is_some() {
            let path = path.child("env").index(i);
            let name = &variable.name;
            found.push(format!(
                "{path}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
    let mut ports = BTreeMap::new();
    for (i, port) in items(&container.ports).iter().enumerate() {
        let at = path.child("ports").index(i);
        let key = (port.container_port, text(&port.protocol), port.host_port, text(&port.host_ip));
        if let Some(first) = ports.insert(key, i) {
            found.push(format!("{at}: duplicate port definition with {}", path.child("ports").index(first)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn questionable_specs_cause_warnings() {
        let container = |changes: Value| {
            let mut container = json!({"name": "c", "image": "i"});
            for (key, value) in changes.as_object().expect("an object") {
                container[key] = value.clone();
            }
            json!({"containers": [container]})
        };
        for (case, spec, want) in [
            ("none", container(json!({})), vec![]),
            (
                "node selector",
                json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
                vec![
                    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                ],
            ),
            (
                "node affinity",
                json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}]}}}}),
                vec![
                    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use \"kubernetes.io/arch\" instead",
                ],
            ),
            (
                "null selectors",
                json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "z"}]}}, "topologySpreadConstraints": [{"topologyKey": "z"}]}),
                vec![
                    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                ],
            ),
            (
                "volume",
                json!({"volumes": [{"name": "v", "glusterfs": {"path": "p"}}]}),
                vec!["spec.volumes[0].glusterfs: deprecated in v1.25, non-functional in v1.26+"],
            ),
            (
                "variable twice",
                container(json!({"env": [{"name": "A"}, {"name": "A"}]})),
                vec![
                    "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                ],
            ),
            (
                "port twice",
                container(
                    json!({"ports": [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "TCP"}]}),
                ),
                vec![
                    "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                ],
            ),
            (
                "fractional memory",
                container(json!({"resources": {"limits": {"memory": "100m"}}})),
                vec![
                    "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                ],
            ),
            (
                "secret twice",
                json!({"imagePullSecrets": [{"name": "s"}, {"name": "s"}]}),
                vec!["spec.imagePullSecrets[1].name: duplicate name \"s\""],
            ),
            (
                "negative grace",
                json!({"terminationGracePeriodSeconds": -1}),
                vec![
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                ],
            ),
        ] {
            assert_eq!(pod_spec(&spec, &Path::new("spec")), want, "{case}");
        }
    }
}
