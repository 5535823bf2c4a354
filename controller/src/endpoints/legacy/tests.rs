//! Tests of the decision, and of the controller on the fake API server. The cases that begin with `ctl-ep-` are named after
//! recorded answers of kube-controller-manager.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use orlop_apimachinery::steps::OutOfSteps;
use orlop_apimachinery::thread_time::assert_linear;
use serde_json::{Value, json};

use super::decide::{CAPACITY, truncate, wanted};
use super::run;
use crate::endpoints::pods::selecting_spec;
use crate::endpoints::subsets::PackedSubset;
use crate::endpoints::testing::{pod, pod_with_port, service, service_with_ports};
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};
use crate::workload::testing::every_write_fails_once;

/// The Endpoints to write.
fn decide(service: &Value, pods: &[Value], current: Option<&Value>) -> Option<Value> {
    let service: Service = serde_json::from_value(service.clone()).unwrap();
    let typed = |pod: &Value| Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap());
    let pods: Vec<Arc<Pod>> = pods.iter().map(typed).collect();
    let current: Option<Endpoints> = current.map(|current| serde_json::from_value(current.clone()).unwrap());
    let (spec, _) = selecting_spec(&service)?;
    let trigger = "2026-01-01T00:00:00Z".parse().unwrap();
    let next = wanted(&service, spec, &pods, current.as_ref(), Some(trigger)).unwrap()?;
    Some(serde_json::to_value(next).unwrap())
}

fn address(name: &str, ip: &str) -> Value {
    json!({"ip": ip, "nodeName": "n",
        "targetRef": {"kind": "Pod", "namespace": "ns", "name": name, "uid": format!("uid-{name}")}})
}

#[test]
fn endpoints_have_the_addresses_of_the_selected_pods() {
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let pods = [
        pod("a", "10.9.0.1", true, json!({})),
        pod("b", "10.9.0.2", false, json!({})),
        pod("c", "10.9.0.3", true, leaving),
        pod("d", "10.9.0.4", true, json!({"status": {"phase": "Succeeded"}})),
        pod("e", "fd00::1", true, json!({})),
    ];
    let ports = json!([{"port": 8080, "protocol": "TCP"}]);
    let (a, b, c) = (address("a", "10.9.0.1"), address("b", "10.9.0.2"), address("c", "10.9.0.3"));
    let first = decide(&service(json!({"metadata": {"labels": {"x": "y"}}})), &pods, None).unwrap();
    assert_eq!(
        first["subsets"],
        json!([{"addresses": [a], "notReadyAddresses": [b], "ports": ports}]),
        "1 ctl-ep-ready"
    );
    assert_eq!(
        first["metadata"],
        json!({"namespace": "ns", "name": "s", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller", "x": "y"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}}),
        "1"
    );
    let all = service(json!({"spec": {"publishNotReadyAddresses": true}}));
    let next = decide(&all, &pods, None).unwrap();
    assert_eq!(
        next["subsets"],
        json!([{"addresses": [a, b, c], "ports": ports}]),
        "2 publishNotReadyAddresses"
    );
    let v6 = service(json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}}));
    let next = decide(&v6, &pods, None).unwrap();
    assert_eq!(next["subsets"][0]["addresses"], json!([address("e", "fd00::1")]), "3 the first family");
    assert_eq!(decide(&service(json!({})), &[], None).unwrap().get("subsets"), None, "4 ctl-ep-empty");
    for (name, more) in
        [("5 ExternalName", json!({"type": "ExternalName"})), ("6 no selector", json!({"selector": null}))]
    {
        assert_eq!(decide(&service(json!({"spec": more})), &pods, None), None, "{name}");
    }
}

#[test]
fn headless_service_may_have_no_ports() {
    let host = |name: &str, subdomain: &str| json!({"spec": {"hostname": name, "subdomain": subdomain}});
    let pods = [
        pod("a", "10.9.0.1", true, host("first", "s")),
        pod("b", "10.9.0.2", true, host("second", "elsewhere")),
    ];
    let mut a = address("a", "10.9.0.1");
    a["hostname"] = json!("first");
    let addresses = json!([a, address("b", "10.9.0.2")]);
    let headless = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller", "service.kubernetes.io/headless": ""});
    let next = decide(&service(json!({"spec": {"clusterIP": "None"}})), &pods, None).unwrap();
    assert_eq!(next["subsets"][0]["addresses"], addresses, "1 ctl-ep-headless");
    assert_eq!(next["metadata"]["labels"], headless, "1");
    let next = decide(&service(json!({"spec": {"clusterIP": "None", "ports": null}})), &pods, None).unwrap();
    assert_eq!(next["subsets"], json!([{"addresses": addresses}]), "2 no ports");
    let next = decide(&service(json!({"spec": {"ports": null}})), &pods, None).unwrap();
    assert_eq!(next.get("subsets"), None, "3 not headless");
}

#[test]
fn only_differences_are_written() {
    let (pods, service) =
        ([pod("a", "10.9.0.1", true, json!({}))], service(json!({"metadata": {"labels": {"x": "y"}}})));
    let stored = decide(&service, &pods, None).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut changed = stored.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    assert_eq!(decide(&service, &pods, Some(&stored)), None, "1 nothing");
    let version =
        json!({"kind": "Pod", "namespace": "ns", "name": "a", "uid": "uid-a", "resourceVersion": "9"});
    assert_eq!(
        decide(&service, &pods, Some(&with("/subsets/0/addresses/0/targetRef", version))),
        None,
        "2 a version"
    );
    let table = [
        ("3 an address", with("/subsets/0/addresses/0/ip", json!("10.9.0.2"))),
        ("4 a port", with("/subsets/0/ports/0/port", json!(1))),
        ("5 a label", with("/metadata/labels/x", json!("z"))),
        ("6 the manager", with("/metadata/labels/endpoints.kubernetes.io~1managed-by", json!("me"))),
        (
            "7 over capacity",
            with("/metadata/annotations", json!({"endpoints.kubernetes.io/over-capacity": "truncated"})),
        ),
    ];
    for (name, current) in table {
        let next = decide(&service, &pods, Some(&current)).unwrap();
        assert_eq!(next, stored, "{name}");
    }
}

#[test]
fn surplus_addresses_are_cut_in_proportion() {
    let counts = |subset: &PackedSubset| (subset.ready.len(), subset.not_ready.len());
    // Name, ready and not ready addresses of the subsets, those that remain.
    type Counts = &'static [(usize, usize)];
    let table: [(&str, Counts, Counts); 6] = [
        ("1 nothing", &[(600, 400)], &[(600, 400)]),
        ("2 not ready first", &[(600, 800)], &[(600, 400)]),
        ("3 only ready ones", &[(1400, 1)], &[(1000, 0)]),
        ("4 in proportion", &[(900, 0), (600, 300)], &[(600, 0), (400, 0)]),
        ("5 rounded up", &[(667, 0), (667, 0), (667, 0)], &[(334, 0), (334, 0), (332, 0)]),
        ("6 no empty subset", &[(999, 0), (0, 3), (0, 1)], &[(999, 0), (0, 1)]),
    ];
    for (name, given, wanted) in table {
        let given = given.iter().map(|(ready, not_ready)| PackedSubset {
            ready: vec![0; *ready],
            not_ready: vec![0; *not_ready],
            ports: Vec::new(),
        });
        let (cut, is_cut) = truncate(given.collect());
        assert_eq!(cut.iter().map(counts).collect::<Vec<_>>(), wanted, "{name}");
        assert_eq!(is_cut, name != "1 nothing", "{name}");
    }
    let pods: Vec<Value> = (0..=CAPACITY)
        .map(|nth| pod(&format!("p{nth}"), &format!("10.9.{}.{}", nth / 250, nth % 250), true, json!({})))
        .collect();
    let next = decide(&service(json!({})), &pods, None).unwrap();
    assert_eq!(next["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"], "truncated");
    assert_eq!(next["subsets"][0]["addresses"].as_array().unwrap().len(), CAPACITY);
}

#[test]
fn work_does_not_grow_with_the_product_of_pods_and_ports() {
    let typed = |pod: Value| Arc::new(serde_json::from_value::<Pod>(pod).unwrap());
    for (name, target) in [("1 numbers", json!(80)), ("2 a named port", json!("http"))] {
        let input = |n: usize| -> (Service, Vec<Arc<Pod>>) {
            let service = serde_json::from_value(service_with_ports(n, &target)).unwrap();
            (service, (0..n).map(|nth| typed(pod_with_port(nth, 80))).collect())
        };
        assert_linear(name, 500, input, |(service, pods)| {
            let (spec, _) = selecting_spec(service).unwrap();
            let next = wanted(service, spec, pods, None, None).unwrap().unwrap();
            assert_eq!(next.subsets.unwrap().len(), 1, "{name}");
        });
    }
}

#[test]
fn endpoints_with_too_many_ports_are_an_error() {
    // Each port of the Service leads to another port of each pod.
    let service: Service = serde_json::from_value(service_with_ports(1_000, &json!("http"))).unwrap();
    let (spec, _) = selecting_spec(&service).unwrap();
    let ports = |count: usize| {
        let pods = (0..count).map(|nth| serde_json::from_value(pod_with_port(nth, nth + 1)).unwrap());
        let pods: Vec<Arc<Pod>> = pods.map(Arc::new).collect();
        let next = wanted(&service, spec, &pods, None, None)?.unwrap();
        Ok::<usize, OutOfSteps>(
            next.subsets.iter().flatten().flat_map(|subset| &subset.ports).flatten().count(),
        )
    };
    assert_eq!(ports(200), Ok(200_000));
    assert_eq!(ports(201), Err(OutOfSteps));
}

#[tokio::test(start_paused = true)]
async fn controller_follows_pods_and_services() {
    let api = FakeApi::new();
    let lock = json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
    for (name, more) in [("leftover", json!({})), ("lock", lock)] {
        let mut object = json!({"kind": "Endpoints", "metadata": {"namespace": "ns", "name": name}});
        crate::testing::merge_into(&mut object, &more);
        api.seed(object);
    }
    api.seed(service(json!({})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let names = || -> Vec<String> {
        api.list("endpoints")
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(), ["lock", "s"], "1 leftovers are deleted");
    let ready = || -> Vec<String> {
        let object = api.get("endpoints", "ns/s").unwrap();
        let all = object["subsets"][0]["addresses"].as_array().cloned().unwrap_or_default();
        all.iter().map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
    };
    api.seed(pod("a", "10.9.0.1", true, json!({})));
    api.seed(pod("b", "10.9.0.2", false, json!({})));
    api.settle().await;
    assert_eq!(ready(), ["10.9.0.1"], "2");
    let conditions =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]);
    api.patch("pods", "ns/b", "status", json!({"status": {"conditions": conditions}}));
    api.settle().await;
    assert_eq!(ready(), ["10.9.0.1", "10.9.0.2"], "3");
    let annotations = &api.get("endpoints", "ns/s").unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["endpoints.kubernetes.io/last-change-trigger-time"], "2026-01-01T00:01:00Z", "3");
    api.delete("endpoints", "ns/s");
    api.settle().await;
    assert_eq!(ready(), ["10.9.0.1", "10.9.0.2"], "4 deleted by another client");
    api.delete("services", "ns/s");
    api.settle().await;
    assert_eq!(names(), ["lock"], "5 the Service is deleted");
}

/// The Service exists, although the cache does not contain it.
#[tokio::test(start_paused = true)]
async fn i12_endpoints_of_an_undecodable_service_are_not_deleted() {
    let api = FakeApi::new();
    for name in ["s", "t"] {
        api.seed(json!({"kind": "Endpoints", "metadata": {"namespace": "ns", "name": name}}));
    }
    api.seed(service(json!({"spec": {"clusterIP": 7}})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let exists = |name: &str| api.get("endpoints", &format!("ns/{name}")).is_some();
    assert!(exists("s") && !exists("t"), "t has no Service");
    api.delete("services", "ns/s");
    // The failed sync is retried.
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert!(!exists("s"));
}

#[tokio::test(start_paused = true)]
async fn new_endpoints_without_a_service_are_not_deleted() {
    let api = FakeApi::new();
    let _running = api.start(&[run], Options::default());
    let own = || json!({"kind": "Endpoints", "metadata": {"namespace": "ns", "name": "own"}});
    api.seed(own());
    api.settle().await;
    api.delete("endpoints", "ns/own");
    api.seed(own());
    api.settle().await;
    assert_eq!(api.list("endpoints").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn delete_is_conditional_and_excludes_locks() {
    let lock = json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
    for (name, more, deletes) in [("1 Endpoints", json!({}), 1), ("2 a lock", lock, 0)] {
        let api = FakeApi::new();
        let mut object = json!({"kind": "Endpoints", "metadata": {"namespace": "ns", "name": "s"}});
        crate::testing::merge_into(&mut object, &more);
        let stored = api.seed(object);
        // Its selector is empty, so the controller writes no Endpoints.
        api.seed(service(json!({"spec": {"selector": null}})));
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        api.delete("services", "ns/s");
        api.settle().await;
        let writes = api.take_writes();
        assert_eq!(writes.len(), deletes, "{name}");
        let of = |field: &str| stored["metadata"][field].clone();
        let exactly = json!({"uid": of("uid"), "resourceVersion": of("resourceVersion")});
        assert!(writes.iter().all(|write| write.body["preconditions"] == exactly), "{name}: {writes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_reported() {
    let api = FakeApi::new();
    api.seed(service(json!({})));
    for verb in ["create", "update"] {
        let kind = FaultKind::Status(403, "Forbidden", "no");
        api.fail(Fault { verb, resource: "endpoints", skip: 0, kind });
    }
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    api.seed(pod("a", "10.9.0.1", true, json!({})));
    api.settle().await;
    let mut events = api.events();
    events.sort();
    assert_eq!(
        events,
        [
            "Endpoints ns/s Warning FailedToCreateEndpoint Failed to create endpoint for service ns/s: no",
            "Endpoints ns/s Warning FailedToUpdateEndpoint Failed to update endpoint ns/s: no"
        ]
    );
    assert_eq!(api.get("endpoints", "ns/s").unwrap()["subsets"][0]["addresses"][0]["ip"], "10.9.0.1");
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(json!({"kind": "Endpoints", "metadata": {"namespace": "ns", "name": "leftover"}}));
        api.seed(service(json!({})));
        api.seed(pod("a", "10.9.0.1", true, json!({})));
    };
    let act = |api: &FakeApi| {
        api.seed(pod("b", "10.9.0.2", true, json!({})));
    };
    every_write_fails_once(&[run], seed, act, |api, when| {
        let all = api.list("endpoints");
        assert_eq!(all.len(), 1, "{when}");
        assert_eq!(all[0]["subsets"][0]["addresses"].as_array().unwrap().len(), 2, "{when}");
    })
    .await;
}
