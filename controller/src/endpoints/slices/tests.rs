//! Tests of the decision, and of the controller on the fake API server. The cases that begin with `ctl-ep-` are named after
//! recorded answers of kube-controller-manager.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::allocation::shares;
use super::decide::{Decision, MOST_MISSING, Situation, decide};
use super::run;
use super::topology::{HintEvent, Topology};
use crate::endpoints::error::EndpointsError;
use crate::endpoints::pods::selecting_spec;
use crate::endpoints::testing::{endpoints, node, pod, service};
use crate::options::Options;
use crate::testing::{FakeApi, Fault, FaultKind};
use crate::workload::testing::every_write_fails_once;

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// The cluster of a decision. Pods are on the nodes that they name; every zone has one node with one CPU.
struct World {
    service: Service,
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    slices: Vec<Arc<EndpointSlice>>,
    topology: Mutex<Topology>,
}

impl World {
    fn new(service: Value, pods: &[Value], nodes: &[Value]) -> Self {
        let nodes: Vec<Arc<Node>> = nodes.iter().cloned().map(typed).map(Arc::new).collect();
        let mut topology = Topology::default();
        topology.set_shares(shares(nodes.iter().map(Arc::as_ref)));
        let topology = Mutex::new(topology);
        let pods = pods.iter().cloned().map(typed).map(Arc::new).collect();
        Self { service: typed(service), pods, nodes, slices: Vec::new(), topology }
    }

    fn decide(&mut self, address_type: &str) -> Decision {
        let (spec, _) = selecting_spec(&self.service).unwrap();
        let node =
            |name: &str| self.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name)).cloned();
        let situation = Situation { service: &self.service, spec, pods: &self.pods, node: &node, most: 3 };
        decide(&situation, &self.slices, address_type, &self.topology).unwrap()
    }

    /// Decides, applies the changes to the slices, and returns the decision. A second decision then changes nothing.
    fn settle(&mut self) -> Decision {
        let decision = self.decide("IPv4");
        let changes = &decision.changes;
        let gone = |slice: &EndpointSlice, all: &[&EndpointSlice]| {
            all.iter().any(|other| other.metadata.name == slice.metadata.name)
        };
        let written: Vec<&EndpointSlice> =
            changes.update.iter().chain(changes.delete.iter().map(Arc::as_ref)).collect();
        self.slices.retain(|slice| !gone(slice, &written));
        let created = changes.create.iter().enumerate().map(|(nth, slice)| {
            let mut slice = slice.clone();
            slice.metadata.name = Some(format!("new-{nth}-{}", self.slices.len()));
            slice
        });
        let all: Vec<_> = created.chain(changes.update.iter().cloned()).map(Arc::new).collect();
        self.slices.extend(all);
        let again = self.decide("IPv4");
        assert_eq!(again.changes, Default::default(), "a second decision finds nothing to do");
        decision
    }

    fn shown(&self) -> Vec<String> {
        let slices: Vec<Value> =
            self.slices.iter().map(|slice| serde_json::to_value(slice.as_ref()).unwrap()).collect();
        endpoints(&slices)
    }

    /// `IP ZONES NODES` of the hints.
    fn hints(&self) -> Vec<String> {
        let all = self.slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let mut all: Vec<String> = all
            .map(|endpoint| {
                let hints = endpoint.hints.clone().unwrap_or_default();
                let zones = hints.for_zones.unwrap_or_default().into_iter().map(|zone| zone.name);
                let nodes = hints.for_nodes.unwrap_or_default().into_iter().map(|node| node.name);
                let names: Vec<String> = zones.chain(nodes).collect();
                format!("{} {}", endpoint.addresses[0], names.join(" ")).trim_end().to_owned()
            })
            .collect();
        all.sort();
        all
    }
}

fn nodes() -> Vec<Value> {
    vec![node("n", "a", "1"), node("m", "b", "1")]
}

fn on(name: &str) -> Value {
    json!({"spec": {"nodeName": name}})
}

#[test]
fn conditions_depend_on_readiness_deletion_and_the_service() {
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let pods = [
        pod("a", "10.9.0.1", true, json!({})),
        pod("b", "10.9.0.2", false, json!({})),
        pod("c", "10.9.0.3", true, leaving.clone()),
        pod("d", "10.9.0.4", false, leaving),
        pod("e", "10.9.0.5", true, json!({"status": {"phase": "Succeeded"}})),
        pod("f", "10.9.0.6", true, json!({"status": {"podIP": "", "podIPs": []}})),
    ];
    let mut world = World::new(service(json!({})), &pods, &nodes());
    assert!(world.settle().missing.is_empty());
    assert_eq!(world.shown(), ["10.9.0.1 rs", "10.9.0.2 -", "10.9.0.3 st", "10.9.0.4 t"], "1 ctl-ep-ready");
    let all = service(json!({"spec": {"publishNotReadyAddresses": true}}));
    let mut world = World::new(all, &pods, &nodes());
    world.settle();
    assert_eq!(
        world.shown(),
        ["10.9.0.1 rs", "10.9.0.2 r", "10.9.0.3 rst", "10.9.0.4 rt"],
        "2 publishNotReadyAddresses"
    );
}

#[test]
fn pod_on_an_unknown_node_is_skipped_and_reported() {
    let pods = [
        pod("a", "10.9.0.1", true, json!({})),
        pod("b", "10.9.0.2", true, on("gone")),
        pod("c", "10.9.0.3", true, on("")),
    ];
    let mut world = World::new(service(json!({})), &pods, &nodes());
    let missing: Vec<String> = world.settle().missing.iter().map(ToString::to_string).collect();
    assert_eq!(world.shown(), ["10.9.0.1 rs"], "1");
    assert_eq!(
        missing,
        [
            "skipping Pod b for Service ns/s: Node gone Not Found",
            "skipping Pod c for Service ns/s: Node  Not Found"
        ]
    );
    let all = service(json!({"spec": {"publishNotReadyAddresses": true}}));
    let mut world = World::new(all, &pods, &nodes());
    assert!(world.settle().missing.is_empty(), "2 publishNotReadyAddresses");
    assert_eq!(world.shown(), ["10.9.0.1 rs", "10.9.0.2 rs", "10.9.0.3 rs"], "2");
}

#[test]
fn each_address_type_has_its_own_slices() {
    let ips = json!({"status": {"podIPs": [{"ip": "10.9.0.1"}, {"ip": "FD00::1"}]}});
    let pods = [pod("a", "10.9.0.1", true, ips), pod("b", "10.9.0.2", true, json!({}))];
    let mut world = World::new(service(json!({})), &pods, &nodes());
    for (name, address_type, wanted) in
        [("1", "IPv4", vec!["10.9.0.1 rs", "10.9.0.2 rs"]), ("2", "IPv6", vec!["fd00::1 rs"])]
    {
        let created = world.decide(address_type).changes.create;
        assert_eq!(created[0].address_type, address_type, "{name}");
        let shown = endpoints(&[serde_json::to_value(&created[0]).unwrap()]);
        assert_eq!((created.len(), shown), (1, wanted.into_iter().map(str::to_owned).collect()), "{name}");
    }
}

#[test]
fn service_without_endpoints_has_a_placeholder() {
    let mut world = World::new(service(json!({"metadata": {"labels": {"x": "y"}}})), &[], &nodes());
    world.settle();
    let placeholder = serde_json::to_value(world.slices[0].as_ref()).unwrap();
    assert_eq!(
        (world.slices.len(), &placeholder["metadata"]["generateName"]),
        (1, &json!("s-")),
        "1 ctl-ep-empty"
    );
    assert_eq!((&placeholder["endpoints"], &placeholder["ports"]), (&json!([]), &json!([])), "1");
    assert_eq!(
        placeholder["metadata"]["labels"],
        json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": "s", "x": "y"}),
        "1"
    );
    let name = world.slices[0].metadata.name.clone();
    world.pods = vec![Arc::new(typed(pod("a", "10.9.0.1", true, json!({}))))];
    world.settle();
    assert_eq!((world.slices.len(), &world.slices[0].metadata.name), (1, &name), "2 it is reused");
    assert_eq!(world.shown(), ["10.9.0.1 rs"], "2");
    world.pods.clear();
    world.settle();
    assert_eq!((world.slices.len(), &world.slices[0].metadata.name), (1, &name), "3 and again");
    assert_eq!(world.shown(), Vec::<String>::new(), "3");
    world.service.metadata.uid = Some("another".to_owned());
    let changes = world.decide("IPv4").changes;
    assert_eq!(
        (changes.create.len(), changes.update.len(), changes.delete.len()),
        (1, 0, 1),
        "4 a new Service"
    );
}

#[test]
fn pods_with_different_ports_are_in_different_slices() {
    let port = |number: i32| json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": number}]}]}});
    let ports = json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"},
        {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP", "appProtocol": "example.com/dns"}]}});
    let pods = [
        pod("a", "10.9.0.1", true, port(8080)),
        pod("b", "10.9.0.2", true, port(9090)),
        pod("c", "10.9.0.3", true, json!({})),
    ];
    let mut world = World::new(service(ports), &pods, &nodes());
    world.settle();
    let mut shown: Vec<String> = world
        .slices
        .iter()
        .map(|slice| {
            let mut ports: Vec<String> = slice
                .ports
                .iter()
                .flatten()
                .map(|port| format!("{}={}", port.name.as_deref().unwrap(), port.port.unwrap()))
                .collect();
            ports.sort();
            format!("{} {}", slice.endpoints.as_ref().unwrap()[0].addresses[0], ports.join(" "))
        })
        .collect();
    shown.sort();
    let wanted = ["10.9.0.1 dns=5353 web=8080", "10.9.0.2 dns=5353 web=9090", "10.9.0.3 dns=5353"];
    assert_eq!(shown, wanted, "ctl-ep-named-ports");
}

#[test]
fn traffic_distribution_sets_hints_of_ready_endpoints() {
    let pods = [
        pod("a", "10.9.0.1", true, json!({})),
        pod("b", "10.9.0.2", true, on("m")),
        pod("c", "10.9.0.3", false, on("m")),
    ];
    let mut world = World::new(service(json!({})), &pods, &nodes());
    // The same slices with one value after the other.
    let steps = [
        ("1 none", None, ["10.9.0.1", "10.9.0.2", "10.9.0.3"]),
        ("2 PreferClose", Some("PreferClose"), ["10.9.0.1 a", "10.9.0.2 b", "10.9.0.3"]),
        ("3 PreferSameNode", Some("PreferSameNode"), ["10.9.0.1 a n", "10.9.0.2 b m", "10.9.0.3"]),
        ("4 PreferSameZone", Some("PreferSameZone"), ["10.9.0.1 a", "10.9.0.2 b", "10.9.0.3"]),
        ("5 unknown", Some("PreferFar"), ["10.9.0.1", "10.9.0.2", "10.9.0.3"]),
    ];
    for (name, value, wanted) in steps {
        world.service.spec.as_mut().unwrap().traffic_distribution = value.map(str::to_owned);
        assert_eq!(world.settle().event, None, "{name}");
        assert_eq!(world.hints(), wanted, "{name}");
    }
}

#[test]
fn topology_mode_assigns_endpoints_to_zones() {
    let auto = |key: &str| service(json!({"metadata": {"annotations": {key: "Auto"}}}));
    let mode = "service.kubernetes.io/topology-mode";
    let pods: Vec<Value> = (1..=4)
        .map(|nth| {
            pod(&format!("p{nth}"), &format!("10.9.0.{nth}"), true, on(if nth == 4 { "m" } else { "n" }))
        })
        .collect();
    let enabled =
        Some(HintEvent::Enabled("Topology Aware Hints has been enabled, addressType: IPv4".to_owned()));
    let disabled = |text: &str| Some(HintEvent::Disabled(format!("{text}, addressType: IPv4")));

    let mut world = World::new(auto(mode), &pods, &nodes());
    assert_eq!(world.settle().event, enabled, "1");
    assert_eq!(
        world.hints(),
        ["10.9.0.1 b", "10.9.0.2 a", "10.9.0.3 a", "10.9.0.4 b"],
        "1 three in zone a, one in b"
    );
    assert!(world.topology.lock().overloaded().is_empty(), "2");
    world.topology.lock().set_shares(BTreeMap::new());
    assert_eq!(world.topology.lock().overloaded(), ["ns/s"], "3 the nodes are gone");
    let text = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
    assert_eq!(world.settle().event, disabled(text), "3");
    assert_eq!(world.hints(), ["10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"], "3");

    let mut world = World::new(auto("service.kubernetes.io/topology-aware-hints"), &pods, &nodes());
    assert_eq!(world.settle().event, enabled, "4 the older annotation");
    world.service.metadata.annotations = None;
    assert_eq!(world.settle().event, disabled("Topology Aware Hints has been disabled"), "5");
    assert_eq!(world.hints()[0], "10.9.0.1", "5");

    let mut world = World::new(auto(mode), &pods[..1], &nodes());
    let text = "Insufficient number of endpoints (1 endpoints, 2 zones)";
    assert_eq!(world.settle().event, disabled(text), "6");
    let with_unknown: Vec<Value> =
        pods[..3].iter().cloned().chain([pod("q", "10.9.0.9", true, on("x"))]).collect();
    let mut without_zone = nodes();
    without_zone.push(json!({"kind": "Node", "metadata": {"name": "x"}}));
    let mut world = World::new(auto(mode), &with_unknown, &without_zone);
    let text = "One or more endpoints do not have a zone specified";
    assert_eq!(world.settle().event, disabled(text), "7");
}

#[test]
fn first_pods_without_a_node_fill_the_message_of_an_event() {
    let pods: Vec<Value> = (0..2 * MOST_MISSING)
        .map(|nth| pod(&format!("p{nth}"), &format!("10.9.0.{nth}"), true, on("")))
        .collect();
    let missing = World::new(service(json!({})), &pods, &nodes()).decide("IPv4").missing;
    assert_eq!(missing.len(), MOST_MISSING);
    let text = EndpointsError::all(missing).unwrap_err().to_string();
    assert!(text.len() > 1024, "{text}");
}

#[tokio::test(start_paused = true)]
async fn relabelled_slice_does_not_block_its_service() {
    let api = FakeApi::new();
    api.seed(nodes().remove(0));
    api.seed(service(json!({})));
    api.seed(pod("a", "10.9.0.1", true, json!({})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let key = format!("ns/{}", api.list("endpointslices")[0]["metadata"]["name"].as_str().unwrap());
    let manager = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "me"}}});
    api.patch("endpointslices", &key, "", manager);
    api.settle().await;
    api.seed(pod("b", "10.9.0.2", true, json!({})));
    api.settle().await;
    let mut slices = api.list("endpointslices");
    slices.retain(|slice| slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] != "me");
    assert_eq!(endpoints(&slices), ["10.9.0.1 rs", "10.9.0.2 rs"]);
}

#[tokio::test(start_paused = true)]
async fn controller_follows_pods_and_services() {
    let api = FakeApi::new();
    api.seed(nodes().remove(0));
    api.seed(service(json!({})));
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    let slices = || api.list("endpointslices");
    assert_eq!(slices().len(), 1, "the placeholder");
    assert_eq!(
        slices()[0]["metadata"]["annotations"],
        json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"})
    );
    let owner = json!([{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "uid-s", "controller": true,
        "blockOwnerDeletion": true}]);
    assert_eq!(slices()[0]["metadata"]["ownerReferences"], owner);

    api.seed(pod("a", "10.9.0.1", true, json!({})));
    api.seed(pod("b", "10.9.0.2", false, json!({})));
    api.seed(pod("other", "10.9.0.9", true, json!({"metadata": {"labels": {"app": "db"}}})));
    api.settle().await;
    assert_eq!(endpoints(&slices()), ["10.9.0.1 rs", "10.9.0.2 -"]);
    let first = &slices()[0]["endpoints"][0];
    assert_eq!(
        (&first["nodeName"], &first["zone"], &first["targetRef"]["uid"]),
        (&json!("n"), &json!("a"), &json!("uid-a"))
    );

    // Another client changes and deletes the slice.
    let key = format!("ns/{}", slices()[0]["metadata"]["name"].as_str().unwrap());
    api.patch("endpointslices", &key, "", json!({"endpoints": []}));
    api.settle().await;
    assert_eq!(endpoints(&slices()), ["10.9.0.1 rs", "10.9.0.2 -"]);
    api.delete("endpointslices", &key);
    api.settle().await;
    assert_eq!(endpoints(&slices()), ["10.9.0.1 rs", "10.9.0.2 -"]);

    // A Service without a selector keeps its slices; other clients write them.
    api.take_writes();
    api.patch("services", "ns/s", "", json!({"spec": {"selector": null}}));
    api.delete_with("pods", "ns/a", json!({"gracePeriodSeconds": 0}));
    api.settle().await;
    assert_eq!(api.take_writes(), []);
}

#[tokio::test(start_paused = true)]
async fn failed_write_is_reported_and_retried() {
    let api = FakeApi::new();
    api.seed(service(json!({})));
    let kind = FaultKind::Status(403, "Forbidden", "exceeded quota");
    api.fail(Fault { verb: "create", resource: "endpointslices", skip: 0, kind });
    let _running = api.start(&[run], Options::default());
    api.settle().await;
    assert_eq!(api.list("endpointslices").len(), 1);
    let text = "Service ns/s Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service ns/s: \
        failed to create EndpointSlice for Service ns/s: exceeded quota";
    assert_eq!(api.events(), [text]);
}

#[tokio::test(start_paused = true)]
async fn i6_every_write_may_fail_once() {
    let seed = |api: &FakeApi| {
        api.seed(node("n", "a", "1"));
        api.seed(service(json!({})));
        api.seed(pod("a", "10.9.0.1", true, json!({})));
    };
    let act = |api: &FakeApi| {
        api.seed(pod("b", "10.9.0.2", true, json!({})));
        api.delete_with("pods", "ns/a", json!({"gracePeriodSeconds": 0}));
    };
    every_write_fails_once(&[run], seed, act, |api, when| {
        assert_eq!(endpoints(&api.list("endpointslices")), ["10.9.0.2 rs"], "{when}");
    })
    .await;
}
