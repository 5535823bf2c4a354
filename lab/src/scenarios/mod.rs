//! The scenarios. Each is a file of data; docs/learn has a page for each.
//!
//! The objects of a scenario are named after it, so that scenarios do not conflict. Manually created volumes have a
//! class of their own.

mod bind;
mod first_consumer;
mod leak;
mod lost;
mod multi_attach;
mod node_lost;
mod recycle_failure;
mod resize;

use serde_json::{Value, json};

use crate::step::Scenario;

/// The taint that marks a machine as off, so that its volumes are force-detached.
pub(super) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// All scenarios, the simplest first.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        bind::scenario(),
        lost::scenario(),
        recycle_failure::scenario(),
        first_consumer::scenario(),
        resize::scenario(),
        multi_attach::scenario(),
        node_lost::scenario(),
        leak::scenario(),
    ]
}

pub(super) fn names() -> Vec<&'static str> {
    all().iter().map(|scenario| scenario.name).collect()
}

/// Whether the lab has acknowledged all values of its ConfigMap.
pub(super) fn heard(lab: &Value) -> bool {
    let data = &lab["data"];
    ["silent", "faults"]
        .iter()
        .all(|key| data[*key].is_string() && data[*key] == data[format!("{key}.heard")])
}

/// A claim of a class.
fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}}}})
}

/// A pod with a claim, on a node if one is named. It tolerates a lost node only briefly.
fn pod(name: &str, claim: &str, node: Option<&str>) -> Value {
    let patience = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1});
    let mut pod = json!({"metadata": {"name": name}, "spec": {"automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [patience("unreachable"), patience("not-ready")],
        "containers": [{"name": "c", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_story_has_steps_and_a_doc() {
        let mut seen = BTreeSet::new();
        for scenario in all() {
            assert!(seen.insert(scenario.name), "{} is there twice", scenario.name);
            assert!(!scenario.steps.is_empty(), "{}", scenario.name);
            let text = format!("{}/../docs/learn/{}.md", env!("CARGO_MANIFEST_DIR"), scenario.name);
            let text = std::fs::read_to_string(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(text.contains(&format!("orlop lab run {}", scenario.name)), "{}", scenario.name);
            for step in scenario.steps {
                assert!(!step.until.is_empty(), "{}: nothing is checked after: {}", scenario.name, step.say);
                assert!(step.say.ends_with('.') && step.say.len() < 1000, "{}: {}", scenario.name, step.say);
                assert!(!step.look.is_empty(), "{}: nothing to look at after: {}", scenario.name, step.say);
                // The doc quotes each sentence and each command literally.
                for quoted in step.look.iter().copied().chain([step.say]) {
                    let is_there = text.split_whitespace().collect::<Vec<_>>().join(" ").contains(quoted);
                    assert!(is_there, "docs/learn/{}.md does not have: {quoted}", scenario.name);
                }
            }
        }
    }

    #[test]
    fn heard_compares_values_with_acknowledgements() {
        for (data, want) in [
            (json!({}), false),
            (json!({"silent": "", "faults": "[]"}), false),
            (json!({"silent": "", "faults": "[]", "silent.heard": "", "faults.heard": "[]"}), true),
            (json!({"silent": "a", "faults": "[]", "silent.heard": "", "faults.heard": "[]"}), false),
        ] {
            assert_eq!(heard(&json!({"data": data})), want, "{data}");
        }
    }
}
