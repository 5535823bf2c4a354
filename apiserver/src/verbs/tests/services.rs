//! Addresses and node ports of services: unique, and released with the service.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::Rig;
use crate::services::pool::Ranges;

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// The string at a JSON pointer; `""` if there is none.
fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A server with six addresses, 10.0.0.1 to 10.0.0.6, and four node ports, 30000 to 30003.
async fn small() -> Rig {
    let ranges = Ranges { addresses: "10.0.0.0/29".parse().unwrap(), node_ports: 30000..=30003 };
    Rig::with(|config| config.services = ranges).await
}

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("ports").is_none() {
        spec["ports"] = json!([{"port": 80}]);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn ip_of(rig: &Rig, name: &str) -> String {
    let made = rig.post(SERVICES, service(name, json!({}))).await.expect(201).json();
    text(&made, "/spec/clusterIP").to_owned()
}

#[tokio::test]
async fn address_is_unique_and_released_with_its_service() {
    let rig = small().await;
    let mut seen = BTreeSet::new();
    for i in 0..6 {
        assert!(seen.insert(ip_of(&rig, &format!("s{i}")).await), "{seen:?}");
    }
    let full = rig.post(SERVICES, service("more", json!({}))).await.expect(500).json();
    let why = "Internal error occurred: failed to allocate a serviceIP: range is full";
    assert_eq!(text(&full, "/message"), why);
    let freed = rig.delete(&format!("{SERVICES}/s3"), Value::Null).await.expect(200).json();
    let again = ip_of(&rig, "again").await;
    assert_eq!(again, text(&freed, "/spec/clusterIP"), "the one that was freed");
}

#[tokio::test]
async fn concurrent_creates_get_different_addresses() {
    let rig = small().await;
    let posts = (0..6).map(|i| rig.post(SERVICES, service(&format!("s{i}"), json!({"type": "ClusterIP"}))));
    let made = futures::future::join_all(posts).await;
    let ips: BTreeSet<String> = made
        .into_iter()
        .map(|answer| text(&answer.expect(201).json(), "/spec/clusterIP").to_owned())
        .collect();
    assert_eq!(ips.len(), 6, "{ips:?}");
}

#[tokio::test]
async fn different_spellings_of_an_address_conflict() {
    let ranges = Ranges { addresses: "fd00::/112".parse().unwrap(), ..Ranges::default() };
    let rig = Rig::with(|config| config.services = ranges).await;
    rig.post(SERVICES, service("first", json!({"clusterIP": "fd00::5"}))).await.expect(201);
    let other = |ip: &str| service("other", json!({ "clusterIP": ip }));
    for ip in ["fd00::5", "FD00::5", "fd00:0::0005"] {
        let answer = rig.post(SERVICES, other(ip)).await.expect(422).json();
        assert!(text(&answer, "/message").contains("already allocated"), "{ip}: {answer}");
    }
    rig.delete(&format!("{SERVICES}/first"), Value::Null).await.expect(200);
    rig.post(SERVICES, other("FD00::5")).await.expect(201);
    rig.delete(&format!("{SERVICES}/other"), Value::Null).await.expect(200);
    rig.post(SERVICES, other("fd00::5")).await.expect(201);
}

#[tokio::test]
async fn specified_addresses_are_checked() {
    let rig = small().await;
    let with = |ip: &str| service("s", json!({ "clusterIP": ip }));
    rig.post(SERVICES, with("10.0.0.4")).await.expect(201);
    for (ip, why) in [
        ("10.0.0.4", "failed to allocate IP 10.0.0.4: provided IP is already allocated"),
        (
            "10.0.0.7",
            "failed to allocate IP 10.0.0.7: the provided IP (10.0.0.7) is not in the valid range. The range of valid \
             IPs is 10.0.0.0/29",
        ),
    ] {
        let mut other = with(ip);
        other["metadata"]["name"] = "other".into();
        let answer = rig.post(SERVICES, other).await.expect(422).json();
        let want = format!("Service \"other\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: {why}");
        assert_eq!(text(&answer, "/message"), want);
    }
    // Failed requests and dry runs hold no address.
    let path = format!("{SERVICES}?dryRun=All");
    let tried = rig.post(&path, service("dry", json!({"clusterIP": "10.0.0.5"}))).await.expect(201).json();
    assert_eq!(text(&tried, "/spec/clusterIPs/0"), "10.0.0.5");
    rig.post(SERVICES, service("real", json!({"clusterIP": "10.0.0.5"}))).await.expect(201);
}

#[tokio::test]
async fn changing_the_type_releases_or_assigns_the_address() {
    let rig = small().await;
    let item = format!("{SERVICES}/s");
    let made = rig.post(SERVICES, service("s", json!({"clusterIP": "10.0.0.4"}))).await.expect(201).json();
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(text(&made, "/spec/ipFamilyPolicy"), "SingleStack");
    let outside = json!({"spec": {"type": "ExternalName", "externalName": "a.example", "ports": null}});
    let changed = rig.patch(&item, "merge", outside).await.expect(200).json();
    assert_eq!(changed["spec"].get("clusterIP"), None, "{changed}");
    rig.post(SERVICES, service("t", json!({"clusterIP": "10.0.0.4"}))).await.expect(201);
    let back = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 5}]}});
    let changed = rig.patch(&item, "merge", back).await.expect(200).json();
    let given = text(&changed, "/spec/clusterIP");
    assert!(given.starts_with("10.0.0."), "{changed}");
    assert_ne!(given, "10.0.0.4");
    let other = if given == "10.0.0.6" { "10.0.0.5" } else { "10.0.0.6" };
    let moved = json!({"spec": {"clusterIP": other, "clusterIPs": [other]}});
    rig.patch(&item, "merge", moved).await.expect(422);
}

#[tokio::test]
async fn node_ports_are_assigned_checked_and_released() {
    let rig = small().await;
    let nodes = |name: &str, ports: Value| service(name, json!({"type": "NodePort", "ports": ports}));
    let both = json!([
        {"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"},
        {"name": "x", "port": 80, "nodePort": 30002},
    ]);
    let made = rig.post(SERVICES, nodes("a", both)).await.expect(201).json();
    let given: Vec<i64> = (0..3).map(|i| made["spec"]["ports"][i]["nodePort"].as_i64().unwrap()).collect();
    assert_eq!(given[0], given[1], "one number for both protocols");
    assert_eq!(given[2], 30002);
    let taken =
        rig.post(SERVICES, nodes("b", json!([{"port": 1, "nodePort": 30002}]))).await.expect(422).json();
    let why = "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30002: provided port is already allocated";
    assert_eq!(text(&taken, "/message"), why);
    let far = rig.post(SERVICES, nodes("b", json!([{"port": 1, "nodePort": 80}]))).await.expect(422).json();
    let why = "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid \
               range. The range of valid ports is 30000-30003";
    assert_eq!(text(&far, "/message"), why);
    let balanced = service("l", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}));
    let made = rig.post(SERVICES, balanced).await.expect(201).json();
    assert!(made["spec"]["healthCheckNodePort"].as_i64().unwrap() >= 30000);
    let full = rig.post(SERVICES, nodes("c", json!([{"port": 1}]))).await.expect(500).json();
    let why = "Internal error occurred: failed to allocate a nodePort: range is full";
    assert_eq!(text(&full, "/message"), why);
    // A service that no longer needs its node ports releases them.
    rig.patch(&format!("{SERVICES}/a"), "merge", json!({"spec": {"type": "ClusterIP"}})).await.expect(200);
    rig.post(SERVICES, nodes("c", json!([{"port": 1, "nodePort": 30002}]))).await.expect(201);
}

#[tokio::test]
async fn further_ranges_give_addresses_when_the_first_is_full() {
    let rig = small().await;
    for i in 0..6 {
        assert!(ip_of(&rig, &format!("s{i}")).await.starts_with("10.0.0."));
    }
    rig.post(SERVICES, service("more", json!({}))).await.expect(500);
    let outside = || service("named", json!({"clusterIP": "10.9.0.77"}));
    rig.post(SERVICES, outside()).await.expect(422);
    let cidrs = "/apis/networking.k8s.io/v1/servicecidrs";
    let further = json!({"metadata": {"name": "further"}, "spec": {"cidrs": ["10.9.0.0/24"]}});
    rig.post(cidrs, further).await.expect(201);
    assert!(ip_of(&rig, "more").await.starts_with("10.9.0."));
    rig.post(SERVICES, outside()).await.expect(201);
    let again =
        rig.post(SERVICES, service("again", json!({"clusterIP": "10.9.0.77"}))).await.expect(422).json();
    assert!(text(&again, "/message").ends_with("provided IP is already allocated"), "{again}");
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    rig.get(&format!("{addresses}/10.9.0.77")).await.expect(200);
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Terminating",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    rig.patch(&format!("{cidrs}/further/status"), "merge", not_ready).await.expect(200);
    rig.post(SERVICES, service("last", json!({}))).await.expect(500);
}

#[tokio::test]
async fn put_without_addresses_keeps_them() {
    let rig = small().await;
    let made = rig.post(SERVICES, service("s", json!({"type": "NodePort"}))).await.expect(201).json();
    let item = format!("{SERVICES}/s");
    let changed = rig.put(&item, &service("s", json!({"type": "NodePort"}))).await.expect(200).json();
    assert_eq!(changed, made, "nothing has changed");
    let text_of = |answer: &Value| text(answer, "/spec/clusterIP").to_owned();
    let put = rig.put(&format!("{SERVICES}/new"), &service("new", json!({}))).await.expect(201).json();
    assert_ne!(text_of(&put), text_of(&made), "a put that creates gets its own");
}

#[tokio::test]
async fn kubernetes_service_follows_the_advertised_address() {
    let at = |address: &str| -> Option<SocketAddr> { Some(address.parse().unwrap()) };
    let rig = Rig::with(|config| config.advertised = at("192.0.2.7:6443")).await;
    let service = rig.get(&format!("{SERVICES}/kubernetes")).await.expect(200).json();
    assert_eq!(text(&service, "/spec/clusterIP"), "10.0.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
    assert_eq!(text(&rig.get(endpoints).await.expect(200).json(), "/subsets/0/addresses/0/ip"), "192.0.2.7");
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let shown = rig.get(slice).await.expect(200).json();
    assert_eq!(text(&shown, "/endpoints/0/addresses/0"), "192.0.2.7");
    assert_eq!(text(&shown, "/metadata/labels/kubernetes.io~1service-name"), "kubernetes");
    let first = super::services::service("mine", json!({"clusterIP": "10.0.0.1"}));
    rig.post(SERVICES, first).await.expect(422);

    // The same store with another address.
    let config = crate::Config { advertised: at("192.0.2.8:443"), ..crate::Config::default() };
    let again = crate::Server::start(rig.store.clone(), config).await.unwrap();
    let moved = rig.get(slice).await.expect(200).json();
    assert_eq!(text(&moved, "/endpoints/0/addresses/0"), "192.0.2.8");
    assert_eq!(moved["metadata"]["uid"], shown["metadata"]["uid"], "the object stays");
    again.drain().await;
}

#[tokio::test]
async fn endpoints_requests_return_a_deprecation_warning() {
    let rig = Rig::new().await;
    let answer = rig.send("GET", "/api/v1/endpoints", &[], Body::empty()).await.expect(200);
    let warning = answer.headers.get("warning").unwrap().to_str().unwrap();
    assert!(warning.contains("v1 Endpoints is deprecated in v1.33+"), "{warning}");
    assert_eq!(rig.get("/api/v1/services").await.expect(200).headers.get("warning"), None);
}
