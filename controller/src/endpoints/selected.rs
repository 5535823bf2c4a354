//! Finds the Services of a pod through an index by labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::pods::{has_labels, label_value, namespace_value, selected};

use super::pods::{addresses, endpoint_part, selector};
use crate::workload::ready::is_ready;
use orlop_client::time_slice::TimeSlice;

/// Name of the index of Services by a label that their selector requires, and by their namespace.
const INDEX_SELECTOR: &str = "endpoints-selector";

/// Adds the index of Services that [`services_to_sync`] uses.
pub fn index_services(services: &Informer<Service>) {
    services.add_index(INDEX_SELECTOR, |service| {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let required = selector(service).and_then(|selector| selector.iter().next());
        let value = required.map(|(key, value)| label_value(namespace, key, value));
        value.into_iter().flat_map(|value| [value, namespace_value(namespace)]).collect()
    });
}

/// The parts of the pods that a Service selects, see [`endpoint_part`]. Decodes one pod at a time, and yields between the pods.
pub async fn selected_parts(
    pods: &Informer<Pod>,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Vec<Arc<Pod>> {
    let (mut parts, mut slice) = (Vec::new(), TimeSlice::start());
    for pod in selected(pods, namespace, selector) {
        parts.push(Arc::new(endpoint_part(&pod)));
        slice.yield_if_over().await;
    }
    parts
}

/// The keys of the Services that select a pod.
fn services_of(pod: &Pod, services: &Informer<Service>) -> BTreeSet<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.iter().flatten();
    let near = labels
        .flat_map(|(key, value)| services.each_by_index(INDEX_SELECTOR, &label_value(namespace, key, value)));
    let selecting =
        near.filter(|service| selector(service).is_some_and(|selector| has_labels(pod, selector)));
    selecting.map(|service| key_of(service.as_ref())).collect()
}

/// The keys of the Services whose endpoints the change of a pod may change.
pub fn services_to_sync(change: &Change<Pod>, services: &Informer<Service>) -> BTreeSet<String> {
    let namespace = change.key().split_once('/').map_or("", |(namespace, _)| namespace);
    // Most changes are in namespaces without Services. Those do not decode the old pod.
    if !services.has_indexed(INDEX_SELECTOR, &namespace_value(namespace)) {
        return BTreeSet::new();
    }
    let of = |pod: &Pod| services_of(pod, services);
    match (change.old(), change.new.as_deref()) {
        (None, None) => BTreeSet::new(),
        (None, Some(pod)) => of(pod),
        (Some(pod), None) => of(pod),
        (Some(old), Some(new)) if change.replaced() => &of(old) | &of(new),
        (Some(old), Some(new)) => match (has_new_endpoint(old, new), may_leave(old, new)) {
            (false, false) => BTreeSet::new(),
            (true, false) => of(new),
            (true, true) => &of(old) | &of(new),
            (false, true) => &of(old) ^ &of(new),
        },
    }
}

/// Whether the change of a pod changes its endpoints.
fn has_new_endpoint(old: &Pod, new: &Pod) -> bool {
    let is_leaving = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    is_leaving(old) || is_leaving(new) || is_ready(old) != is_ready(new) || !addresses(old).eq(addresses(new))
}

/// Whether the change of a pod changes the Services that select it, or its host name.
fn may_leave(old: &Pod, new: &Pod) -> bool {
    let name = |pod: &Pod| pod.spec.as_ref().map(|spec| (spec.hostname.clone(), spec.subdomain.clone()));
    old.metadata.labels != new.metadata.labels || name(old) != name(new)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    fn pod(labels: Value, status: Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u", "labels": labels},
            "spec": {"containers": []}, "status": status}),
        )
        .unwrap()
    }

    #[test]
    fn change_of_a_pod_syncs_the_services_that_it_affects() {
        let services = Informer::new();
        index_services(&services);
        for (name, selector) in [
            ("web", json!({"app": "web"})),
            ("front", json!({"app": "web", "tier": "front"})),
            ("db", json!({"app": "db"})),
            ("none", json!({})),
        ] {
            let service =
                json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"selector": selector}});
            services.apply(serde_json::from_value(service).unwrap());
        }
        let pods = Informer::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let _changes = pods.add_handler({
            let seen = Arc::clone(&seen);
            move |change: &Change<Pod>| seen.lock().push(services_to_sync(change, &services))
        });
        let ready = |status: &str| json!({"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": status}]});
        let web = json!({"app": "web"});
        let steps = [
            ("1 new", pod(web.clone(), json!({})), vec!["ns/web"]),
            ("2 the same", pod(web.clone(), json!({"phase": "Running"})), vec![]),
            ("3 an address", pod(web.clone(), ready("False")), vec!["ns/web"]),
            ("4 ready", pod(web.clone(), ready("True")), vec!["ns/web"]),
            ("5 only a label", pod(json!({"app": "web", "tier": "front"}), ready("True")), vec!["ns/front"]),
            ("6 label and readiness", pod(web, ready("False")), vec!["ns/front", "ns/web"]),
            ("7 another Service", pod(json!({"app": "db"}), ready("False")), vec!["ns/db", "ns/web"]),
        ];
        for (name, pod, wanted) in steps {
            pods.apply(pod);
            let found: Vec<String> = seen.lock().drain(..).flatten().collect();
            assert_eq!(found, wanted, "{name}");
        }
        pods.remove(pod(json!({"app": "db"}), json!({})));
        assert_eq!(seen.lock().drain(..).flatten().collect::<Vec<_>>(), ["ns/db"], "8 deleted");
    }
}
