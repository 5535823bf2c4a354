//! Facts about pods and Services for endpoints. Pure functions.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, PodSpec, PodStatus, Service, ServiceSpec};
use kube::core::ObjectMeta;
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

/// The protocol of a port; the default is TCP.
pub fn protocol(protocol: Option<&str>) -> &str {
    protocol.unwrap_or("TCP")
}

/// The part of a pod from which its endpoints follow: its name, its addresses, its host name, its node, its readiness, and the named ports
/// of its containers and sidecars. A Service may select tens of thousands of pods.
pub fn endpoint_part(pod: &Pod) -> Pod {
    let metadata = ObjectMeta {
        deletion_timestamp: pod.metadata.deletion_timestamp.clone(),
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectMeta::default()
    };
    let with_ports = |containers: &[Container]| -> Vec<Container> {
        containers.iter().map(named_ports).filter(|container| container.ports.is_some()).collect()
    };
    let spec = pod.spec.as_ref().map(|spec| PodSpec {
        containers: with_ports(&spec.containers),
        hostname: spec.hostname.clone(),
        init_containers: spec.init_containers.as_deref().map(with_ports),
        node_name: spec.node_name.clone(),
        subdomain: spec.subdomain.clone(),
        ..PodSpec::default()
    });
    let status = pod.status.as_ref().map(|status| {
        let conditions = status.conditions.iter().flatten();
        PodStatus {
            conditions: Some(conditions.filter(|condition| condition.type_ == "Ready").cloned().collect()),
            phase: status.phase.clone(),
            pod_ip: status.pod_ip.clone(),
            pod_ips: status.pod_ips.clone(),
            ..PodStatus::default()
        }
    });
    Pod { metadata, spec, status }
}

/// The container with its named ports only; without ports if it has none.
fn named_ports(container: &Container) -> Container {
    let ports = container.ports.iter().flatten().filter(|port| port.name.is_some());
    let ports: Vec<_> = ports.cloned().collect();
    Container {
        name: container.name.clone(),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    }
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
            for pod in [&pod, &endpoint_part(&pod)] {
                assert_eq!((is_endpoint(pod, false), is_endpoint(pod, true)), (without, with), "{name}");
            }
        }
    }
}
