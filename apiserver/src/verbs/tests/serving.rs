//! Properties of every response, and the non-resource endpoints.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use orlop_store::BoxFuture;
use serde_json::json;

use super::rig::{CONFIG_MAPS, Rig, text};

#[tokio::test]
async fn responses_have_upstreams_headers_and_codes() {
    let rig = Rig::new().await;
    let plain = rig.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(plain.header("content-type"), "application/json");
    assert_eq!(plain.header("cache-control"), "no-cache, private");
    assert_eq!(plain.header("audit-id").len(), 36);
    let own = rig.send("GET", CONFIG_MAPS, &[("audit-id", "mine")], Body::empty()).await;
    assert_eq!(own.header("audit-id"), "mine");
    let long = "x".repeat(65);
    let too_long = rig.send("GET", CONFIG_MAPS, &[("audit-id", &long)], Body::empty()).await;
    assert_ne!(too_long.header("audit-id"), long);
    let lost = rig.get("/nowhere").await.expect(404);
    assert_eq!(
        (lost.text().as_str(), lost.header("x-content-type-options")),
        ("404 page not found\n", "nosniff")
    );
    for method in ["HEAD", "OPTIONS", "TRACE", "POST", "PUT"] {
        assert_eq!(
            rig.send(method, "/api/v1", &[], Body::empty()).await.code,
            if method == "HEAD" { 200 } else { 405 },
            "{method}"
        );
        assert_eq!(rig.send(method, "/api/v1/pods", &[], Body::empty()).await.code, 405, "{method}");
    }
    let yaml = rig.get_as(&format!("{CONFIG_MAPS}/none"), "application/yaml").await.expect(404);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.text().contains("reason: NotFound"), "errors come in the form that was asked for");
}

/// No request, however malformed, causes a server error.
#[tokio::test(start_paused = true)]
async fn malformed_requests_cause_no_server_error() {
    let rig = Rig::new().await;
    for target in [
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1//",
        "/api/v1/namespaces/%2e%2e/configmaps",
        "/apis//",
        "/apis/",
        "/api/v1/watch",
        "/api/v1/watch/",
        "/api/v1/namespaces/a/b/c/d/e",
        "/api/v1/nodes?%",
        "/api/v1/nodes?labelSelector=%ff",
        "/api/v1/nodes?fieldSelector=%5C",
        "/api/v1/nodes?limit=&continue=",
        "/api/v1/nodes?labelSelector=a%20in%20(",
        "/api/v1/nodes?timeout=1h",
        "/api/v1/nodes?pretty=%00",
        "/api/v1/nodes?watch=1&timeoutSeconds=1&resourceVersion=18446744073709551615",
    ] {
        for accept in [
            "application/json",
            "application/yaml",
            ";;;q=x",
            "*/*;q=nan",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
        ] {
            let answer = rig.get_as(target, accept).await;
            assert!(answer.code < 500, "{target} {accept}: {}", answer.text());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn request_with_an_endless_body_times_out() {
    let rig = Rig::new().await;
    let endless = || Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let started = tokio::time::Instant::now();
    let late = rig.send("POST", CONFIG_MAPS, &[], endless()).await.expect(504);
    assert_eq!(late.reason(), "Timeout");
    assert_eq!(started.elapsed().as_secs(), 34);
    rig.send("POST", &format!("{CONFIG_MAPS}?timeout=2s"), &[], endless()).await.expect(504);
    assert_eq!(started.elapsed().as_secs(), 36);
    rig.send("POST", &format!("{CONFIG_MAPS}?timeout=soon"), &[], endless()).await.expect(400);
    rig.send("GET", CONFIG_MAPS, &[], endless()).await.expect(200);
    let metrics = rig.get("/metrics").await.text();
    assert!(
        metrics.contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn readyz_fails_during_shutdown() {
    let rig = Rig::new().await;
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/etcd", "/readyz?exclude=etcd"] {
        assert_eq!(rig.get(path).await.expect(200).text(), "ok", "{path}");
    }
    assert!(rig.get("/readyz?verbose").await.expect(200).text().ends_with("readyz check passed\n"));
    rig.get("/livez/nothing").await.expect(404);
    rig.server.begin_shutdown();
    rig.get("/livez").await.expect(200);
    let ready = rig.get("/readyz").await.expect(500).text();
    assert!(ready.contains("[-]shutdown failed"), "{ready}");
    rig.get("/readyz/shutdown").await.expect(500);
    rig.config_map("a", json!({})).await;
}

#[tokio::test]
async fn kms_plugins_are_checked_by_readyz_and_healthz_but_not_by_livez() {
    let rig = Rig::new().await;
    rig.get("/readyz/kms-providers").await.expect(404);
    assert!(!rig.get("/readyz?verbose").await.expect(200).text().contains("kms-providers"));
    let health = || -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Err("kms-provider-0: down".to_owned()) })
    };
    let rig = Rig::with(|config| config.kms_health = Some(Arc::new(health))).await;
    for path in ["/readyz", "/healthz"] {
        let text = rig.get(path).await.expect(500).text();
        assert!(text.contains("[-]kms-providers failed: reason withheld\n"), "{text}");
        rig.get(&format!("{path}?exclude=kms-providers")).await.expect(200);
        let one = rig.get(&format!("{path}/kms-providers")).await.expect(500).text();
        assert_eq!(one, "internal server error: kms-provider-0: down\n");
    }
    rig.get("/livez").await.expect(200);
    rig.get("/livez/kms-providers").await.expect(404);
}

#[tokio::test]
async fn discovery_matches_the_served_resources() {
    let rig = Rig::new().await;
    let mut versions = vec!["/api/v1".to_owned()];
    for group in rig.get("/apis").await.expect(200).json()["groups"].as_array().unwrap() {
        let name = text(group, "/name");
        assert_eq!(text(&rig.get(&format!("/apis/{name}")).await.expect(200).json(), "/name"), name);
        versions.push(format!("/apis/{}", text(group, "/preferredVersion/groupVersion")));
    }
    for version in versions {
        let list = rig.get(&version).await.expect(200).json();
        for resource in list["resources"].as_array().unwrap() {
            let name = text(resource, "/name");
            let verbs: Vec<String> = serde_json::from_value(resource["verbs"].clone()).unwrap();
            if name.contains('/') || !verbs.contains(&"list".to_owned()) {
                continue;
            }
            rig.get(&format!("{version}/{name}")).await.expect(200);
        }
    }
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let first = rig.get_as(path, accept).await.expect(200);
        assert_eq!(first.header("content-type"), accept);
        let tag = first.header("etag").to_owned();
        let again =
            rig.send("GET", path, &[("accept", accept), ("if-none-match", &tag)], Body::empty()).await;
        assert!(again.expect(304).bytes.is_empty());
    }
    rig.get("/apis/nope.example").await.expect(404);
    rig.get("/apis/apps.example/v1").await.expect(404);
    for path in ["/version", "/openapi/v2", "/openapi/v3", "/"] {
        rig.get(path).await.expect(200);
    }
}

#[tokio::test]
async fn requests_are_counted_by_verb_scope_and_code() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    rig.get(&format!("{CONFIG_MAPS}/none")).await.expect(404);
    rig.get(CONFIG_MAPS).await.expect(200);
    let text = rig.get("/metrics").await.expect(200).text();
    for (verb, scope, code) in
        [("POST", "namespace", 201), ("GET", "resource", 404), ("LIST", "namespace", 200)]
    {
        let found = text.lines().any(|line| {
            line.starts_with("apiserver_request_total{")
                && line.contains(&format!("verb=\"{verb}\""))
                && line.contains(&format!("scope=\"{scope}\""))
                && line.contains(&format!("code=\"{code}\""))
                && line.contains("resource=\"configmaps\"")
                && line.ends_with(" 1")
        });
        assert!(found, "{verb}: {text}");
    }
    assert!(text.contains("apiserver_resource_objects{group=\"\",resource=\"configmaps\"} 1"), "{text}");
    assert!(text.contains(&format!("orlop_store_revision {}", rig.head())), "{text}");
}

#[tokio::test(start_paused = true)]
async fn deleted_system_namespace_is_recreated() {
    let rig = Rig::new().await;
    let names = rig.get("/api/v1/namespaces").await.names();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let target = "/api/v1/namespaces/kube-node-lease";
    let mut held = rig.delete(target, json!(null)).await.expect(200).json();
    held["spec"]["finalizers"] = json!([]);
    rig.put(&format!("{target}/finalize"), &held).await.expect(200);
    rig.get(target).await.expect(404);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let back = rig.get(target).await.expect(200).json();
    assert_ne!(back["metadata"]["uid"], held["metadata"]["uid"]);
    assert_eq!(text(&back, "/status/phase"), "Active");
}

#[tokio::test(start_paused = true)]
async fn events_expire_after_their_last_write() {
    let rig = Rig::with(|config| config.event_ttl = Duration::from_secs(3600)).await;
    let events = "/api/v1/namespaces/default/events";
    let body = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    rig.post(events, body("old")).await.expect(201);
    rig.post(events, body("touched")).await.expect(201);
    rig.config_map("a", json!({})).await;
    let from = rig.head();
    rig.advance(Duration::from_secs(3000));
    rig.patch(&format!("{events}/touched"), "merge", json!({"count": 2})).await.expect(200);
    rig.advance(Duration::from_secs(601));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(rig.get(events).await.names(), ["touched"], "a write starts the hour again");
    let mut watch = rig.watch(&format!("{events}?watch=1&resourceVersion={from}")).await;
    assert_eq!(watch.short().await, "MODIFIED touched");
    assert_eq!(watch.short().await, "DELETED old");
    rig.get(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    rig.advance(Duration::from_secs(3000));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(rig.get(events).await.names().is_empty());
}
