//! The rule for host ports: each can be used by one pod.

use super::super::cluster::NodeState;
use super::super::pod::HostPort;
use super::{Misfit, Rule};

const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// The rule.
pub fn check(wanted: &[HostPort], node: &NodeState) -> Result<(), Misfit> {
    let taken =
        |port: &HostPort| node.pods.values().flat_map(|pod| &pod.ports).any(|other| other.conflicts(port));
    if wanted.iter().any(taken) { Err(Misfit::passing(Rule::Ports, REASON)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::super::pod::PodFacts;
    use super::*;

    fn pod(ports: Value) -> PodFacts {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": ports}]}});
        PodFacts::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn used_host_port_rejects_the_node() {
        let there = Arc::new(pod(json!([{"containerPort": 1, "hostPort": 80},
            {"containerPort": 2, "hostPort": 90, "hostIP": "10.0.0.1"}])));
        let mut node = NodeState::default();
        node.pods.insert(Arc::clone(&there.key), there);
        let table = [
            ("none", json!([]), true),
            ("of the container alone", json!([{"containerPort": 80}]), true),
            ("free", json!([{"containerPort": 1, "hostPort": 81}]), true),
            ("taken", json!([{"containerPort": 1, "hostPort": 80}]), false),
            ("another protocol", json!([{"containerPort": 1, "hostPort": 80, "protocol": "UDP"}]), true),
            (
                "one address of all",
                json!([{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}]),
                false,
            ),
            ("all of one address", json!([{"containerPort": 1, "hostPort": 90}]), false),
            ("the same address", json!([{"containerPort": 1, "hostPort": 90, "hostIP": "10.0.0.1"}]), false),
            ("another address", json!([{"containerPort": 1, "hostPort": 90, "hostIP": "10.0.0.2"}]), true),
        ];
        for (name, ports, fits) in table {
            let wanted = if fits { Ok(()) } else { Err(Misfit::passing(Rule::Ports, REASON)) };
            assert_eq!(check(&pod(ports).ports, &node), wanted, "{name}");
        }
    }
}
