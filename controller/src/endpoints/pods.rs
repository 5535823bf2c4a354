//! Facts about pods and Services for endpoints. Pure functions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use orlop_client::meta::is_terminating;
use orlop_client::pods::is_finished;

/// The selector of a Service; `None` if it has none. An empty selector is none.
pub fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    service.spec.as_ref()?.selector.as_ref().filter(|selector| !selector.is_empty())
}

/// The specification of a Service whose endpoints are the pods of its selector; `None` for other Services.
pub fn selecting_spec(service: &Service) -> Option<(&ServiceSpec, &BTreeMap<String, String>)> {
    let spec = service.spec.as_ref().filter(|spec| spec.type_.as_deref() != Some("ExternalName"))?;
    Some((spec, selector(service)?))
}

/// Whether the Service has the cluster IP `None`.
pub fn has_no_ip(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some("None")
}

/// Whether endpoints are labelled as those of a headless Service: it has no cluster IP.
pub fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(spec.cluster_ip.as_deref(), None | Some("" | "None"))
}

/// Whether the pod is an endpoint: it has an address and is not finished.
pub fn is_endpoint(pod: &Pod, include_terminating: bool) -> bool {
    let has_address = pod.status.as_ref().is_some_and(|status| {
        let all = status.pod_ips.as_deref().unwrap_or_default();
        !all.is_empty() || status.pod_ip.as_deref().is_some_and(|ip| !ip.is_empty())
    });
    !is_finished(pod) && has_address && (include_terminating || !is_terminating(pod))
}

/// The addresses of a pod, one for each address family.
pub fn addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let all = pod.status.as_ref().and_then(|status| status.pod_ips.as_deref()).unwrap_or_default();
    all.iter().map(|ip| ip.ip.as_str())
}

/// The host name of an endpoint: that of the pod, if its subdomain is the Service.
pub fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_subdomain = spec.subdomain.as_deref().unwrap_or_default() == service.metadata.name.as_deref()?;
    let hostname = spec.hostname.as_deref().filter(|name| is_subdomain && !name.is_empty())?;
    (pod.metadata.namespace == service.metadata.namespace).then(|| hostname.to_owned())
}

/// The port of the pod to which the port of a Service leads; `None` if the pod has no port with this name.
pub fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            spec.containers.iter().chain(sidecars).find_map(|container| named_port(container, name, port))
        }
    }
}

fn named_port(container: &Container, name: &str, service_port: &ServicePort) -> Option<i32> {
    let ports = container.ports.as_deref().unwrap_or_default();
    let has_name = |port: &str| port == name;
    let found = ports.iter().find(|port| {
        port.name.as_deref().is_some_and(has_name)
            && protocol(port.protocol.as_deref()) == protocol(service_port.protocol.as_deref())
    });
    found.map(|port| port.container_port)
}

/// The protocol of a port; the default is TCP.
pub fn protocol(protocol: Option<&str>) -> &str {
    protocol.unwrap_or("TCP")
}

/// The reference of an endpoint to its pod.
pub fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Whether two references are equal, except for their resource versions.
pub fn same_target(a: Option<&ObjectReference>, b: Option<&ObjectReference>) -> bool {
    let bare = |target: &ObjectReference| ObjectReference { resource_version: None, ..target.clone() };
    match (a, b) {
        (Some(a), Some(b)) => bare(a) == bare(b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        let mut all = json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"containers": []}});
        crate::testing::merge_into(&mut all, &value);
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn finished_pods_and_pods_without_addresses_are_no_endpoints() {
        let with = |status: Value| pod(json!({"status": status}));
        let mut leaving = with(json!({"podIP": "10.0.0.1"}));
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        // Name, pod, whether it is an endpoint, whether it is one with terminating pods.
        let table = [
            ("1 no address", with(json!({"phase": "Running"})), false, false),
            ("2 running", with(json!({"phase": "Running", "podIP": "10.0.0.1"})), true, true),
            ("3 only the list", with(json!({"podIPs": [{"ip": "10.0.0.1"}]})), true, true),
            ("4 succeeded", with(json!({"phase": "Succeeded", "podIP": "10.0.0.1"})), false, false),
            ("5 failed", with(json!({"phase": "Failed", "podIP": "10.0.0.1"})), false, false),
            ("6 terminating", leaving, false, true),
        ];
        for (name, pod, without, with) in table {
            assert_eq!((is_endpoint(&pod, false), is_endpoint(&pod, true)), (without, with), "{name}");
        }
    }

    #[test]
    fn named_ports_are_looked_up_in_containers_and_sidecars() {
        let pod = pod(json!({"spec": {
            "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"}]}],
            "initContainers": [
                {"name": "i", "ports": [{"name": "init", "containerPort": 1}]},
                {"name": "s", "restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 15000}]}]}}));
        let table = [
            ("1 a number", json!({"port": 80, "targetPort": 9}), Some(9)),
            ("2 no target", json!({"port": 80}), Some(80)),
            ("3 a name", json!({"port": 80, "targetPort": "http"}), Some(8080)),
            ("4 another protocol", json!({"port": 80, "targetPort": "dns"}), None),
            ("5 its protocol", json!({"port": 80, "targetPort": "dns", "protocol": "UDP"}), Some(53)),
            ("6 a sidecar", json!({"port": 80, "targetPort": "side"}), Some(15000)),
            ("7 an init container", json!({"port": 80, "targetPort": "init"}), None),
            ("8 an unknown name", json!({"port": 80, "targetPort": "web"}), None),
        ];
        for (name, port, wanted) in table {
            let port: ServicePort = serde_json::from_value(port).unwrap();
            assert_eq!(target_port(&pod, &port), wanted, "{name}");
        }
    }
}
