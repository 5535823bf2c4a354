//! Resolves the target ports of a Service in its pods. Pure functions.
//!
//! A target port is a number, which is the same in all pods, or the name of a container port, whose number depends on the
//! pod. A pod only needs a lookup of its own container ports, so the work for a pod does not grow with the number of
//! ports of the Service.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Pod, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pods::protocol;

/// Name and protocol of a container port.
pub type PortName<'s> = (&'s str, &'s str);
/// The numbers of the named target ports in a pod. A pod may lack a port that others have.
pub type Numbers<'s> = BTreeMap<PortName<'s>, i32>;

/// The target of a port of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetPort<'s> {
    /// A port number.
    Number(i32),
    /// A named container port.
    Named(PortName<'s>),
}

impl<'s> TargetPort<'s> {
    /// The target of a port. Without a target port, it is the port of the Service.
    pub fn of(port: &'s ServicePort) -> Self {
        match &port.target_port {
            None => Self::Number(port.port),
            Some(IntOrString::Int(number)) => Self::Number(*number),
            Some(IntOrString::String(name)) => Self::Named((name, protocol(port.protocol.as_deref()))),
        }
    }
}

/// The ports of a Service and their targets.
pub struct TargetPorts<'s> {
    /// The ports in the order of the Service.
    pub ports: Vec<(&'s ServicePort, TargetPort<'s>)>,
    /// The named targets, and how many ports use each of them.
    named: HashMap<PortName<'s>, (PortName<'s>, usize)>,
}

impl<'s> TargetPorts<'s> {
    /// The ports of a Service.
    pub fn of(spec: &'s ServiceSpec) -> Self {
        let all = spec.ports.iter().flatten();
        let ports: Vec<_> = all.map(|port| (port, TargetPort::of(port))).collect();
        let mut named = HashMap::<_, (_, usize)>::new();
        for (_, target) in &ports {
            if let TargetPort::Named(name) = *target {
                named.entry(name).or_insert((name, 0)).1 += 1;
            }
        }
        Self { ports, named }
    }

    /// The numbers of the named targets in the containers and sidecars of a pod.
    pub fn numbers(&self, pod: &Pod) -> Numbers<'s> {
        let mut numbers = Numbers::new();
        let Some(spec) = pod.spec.as_ref().filter(|_| !self.named.is_empty()) else { return numbers };
        let sidecars = spec.init_containers.iter().flatten();
        let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let containers = spec.containers.iter().chain(sidecars);
        for port in containers.flat_map(|container| container.ports.iter().flatten()) {
            let name = (port.name.as_deref().unwrap_or_default(), protocol(port.protocol.as_deref()));
            if let Some((name, _)) = self.named.get(&name) {
                // The first of several ports with one name.
                numbers.entry(*name).or_insert(port.container_port);
            }
        }
        numbers
    }

    /// The ports of the Service that exist in pods with these numbers, and their numbers.
    pub fn resolved<'n>(
        &'n self,
        numbers: &'n Numbers<'s>,
    ) -> impl Iterator<Item = (&'s ServicePort, i32)> + 'n {
        self.ports.iter().filter_map(|(port, target)| match target {
            TargetPort::Number(number) => Some((*port, *number)),
            TargetPort::Named(name) => numbers.get(name).map(|number| (*port, *number)),
        })
    }

    /// The number of [`resolved`](Self::resolved) ports.
    pub fn count(&self, numbers: &Numbers<'s>) -> usize {
        let named: usize = self.named.values().map(|(_, uses)| uses).sum();
        let found: usize = numbers.keys().filter_map(|name| self.named.get(name)).map(|(_, uses)| uses).sum();
        self.ports.len() - named + found
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn named_ports_are_looked_up_in_containers_and_sidecars() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"containerPort": 1}]},
                {"name": "d", "ports": [{"name": "http", "containerPort": 8081}]}],
            "initContainers": [
                {"name": "i", "ports": [{"name": "init", "containerPort": 1}]},
                {"name": "s", "restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 15000}]}]}}))
        .unwrap();
        let table = [
            ("1 a number", json!({"port": 80, "targetPort": 9}), Some(9)),
            ("2 no target", json!({"port": 80}), Some(80)),
            ("3 the first port with the name", json!({"port": 80, "targetPort": "http"}), Some(8080)),
            ("4 another protocol", json!({"port": 80, "targetPort": "dns"}), None),
            ("5 its protocol", json!({"port": 80, "targetPort": "dns", "protocol": "UDP"}), Some(53)),
            ("6 a sidecar", json!({"port": 80, "targetPort": "side"}), Some(15000)),
            ("7 an init container", json!({"port": 80, "targetPort": "init"}), None),
            ("8 an unknown name", json!({"port": 80, "targetPort": "web"}), None),
        ];
        let number = |port: &Value| {
            let spec: ServiceSpec = serde_json::from_value(json!({"ports": [port]})).unwrap();
            let targets = TargetPorts::of(&spec);
            let numbers = targets.numbers(&pod);
            assert_eq!(numbers, targets.numbers(&super::super::pods::endpoint_part(&pod)), "{port}");
            let found: Vec<i32> = targets.resolved(&numbers).map(|(_, number)| number).collect();
            assert_eq!(found.len(), targets.count(&numbers), "{port}");
            found.first().copied()
        };
        for (name, port, wanted) in &table {
            assert_eq!(number(port), *wanted, "{name}");
        }
        let ports: Vec<&Value> = table.iter().map(|(_, port, _)| port).collect();
        let spec: ServiceSpec = serde_json::from_value(json!({"ports": ports})).unwrap();
        let targets = TargetPorts::of(&spec);
        let numbers = targets.numbers(&pod);
        let found: Vec<i32> = targets.resolved(&numbers).map(|(_, number)| number).collect();
        assert_eq!((found, targets.count(&numbers)), (vec![9, 80, 8080, 53, 15000], 5), "9 all of them");
    }
}
