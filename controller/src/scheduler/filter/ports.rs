//! The rule for host ports: each can be used by one pod.

use super::super::cluster::NodeState;
use super::super::host_ports::HostPorts;
use super::{Misfit, Rule};

const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// The rule.
pub fn check(wanted: &HostPorts, node: &NodeState) -> Result<(), Misfit> {
    if node.ports.conflicts(wanted) { Err(Misfit::passing(Rule::Ports, REASON)) } else { Ok(()) }
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
        node.insert(there);
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

    #[test]
    fn many_host_ports_are_compared_in_linear_time() {
        let ports = |count: usize, protocol: &str| {
            let port = |n: usize| json!({"containerPort": 1, "hostPort": 1 + n / 2, "protocol": protocol, "hostIP": format!("10.0.0.{}", n % 2)});
            pod((0..count).map(port).collect())
        };
        let input = |count: usize| {
            let mut node = NodeState::default();
            node.insert(Arc::new(ports(count, "TCP")));
            (node, ports(count, "UDP"))
        };
        let work = |(node, new): &(NodeState, PodFacts)| assert_eq!(check(&new.ports, node), Ok(()));
        orlop_apimachinery::thread_time::assert_linear("host ports", 1_000, input, work);
    }

    #[test]
    fn ports_are_free_when_all_their_pods_have_left() {
        let port = |ip: &str| pod(json!([{"containerPort": 1, "hostPort": 80, "hostIP": ip}])).ports;
        let (one, other, wanted) = (port("10.0.0.1"), port("10.0.0.2"), port(""));
        let mut node = NodeState::default();
        [&one, &one, &other].into_iter().for_each(|ports| node.ports.add(ports));
        for left in [&one, &other, &one] {
            assert!(check(&wanted, &node).is_err());
            node.ports.take(left);
        }
        assert_eq!((check(&wanted, &node), node.ports), (Ok(()), HostPorts::default()));
    }
}
