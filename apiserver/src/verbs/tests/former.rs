//! Former versions of Secrets: no request reads their values after a minute, and running watches continue.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orlop_store::{Kv, ManualClock, Memory, MemoryOptions, Redact, Sensitive};
use serde_json::{Value, json};

use super::rig::{Answer, Rig, version};
use crate::authorization::AuthorizationMode;
use crate::insight::redact::former_version;
use crate::projection::Projection;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = "/api/v1/namespaces/default/secrets/a";
const ONE: &str = "/apis/orlop.dev/v1/namespaces/default/secrets/a";
const OLD: &str = "b2xkLXZhbHVl";
const NEW: &str = "bmV3LXZhbHVl";

fn store(clock: &Arc<ManualClock>) -> Arc<dyn Kv<Projection>> {
    retaining_store(clock, Sensitive::default().age)
}

fn retaining_store(clock: &Arc<ManualClock>, age: Duration) -> Arc<dyn Kv<Projection>> {
    let sensitive = Sensitive {
        age,
        prefixes: vec!["/registry/secrets/".to_owned()],
        redact: Redact(Arc::new(former_version)),
        ..Sensitive::default()
    };
    let options = MemoryOptions { clock: clock.clone(), sensitive, ..MemoryOptions::default() };
    Arc::new(Memory::with(options))
}

#[tokio::test(start_paused = true)]
async fn no_request_reads_the_value_of_a_former_version() {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let rig = Rig::on(store(&clock)).await;
    let body = |value: &str| json!({"metadata": {"name": "a"}, "data": {"k": value}});
    rig.post(SECRETS, json!({"metadata": {"name": "0"}})).await.expect(201);
    let first = version(&rig.post(SECRETS, body(OLD)).await.expect(201).json());
    let exact = format!("{SECRETS}?resourceVersionMatch=Exact&resourceVersion={first}");
    // Pages of the state at that revision, whether the server or the client has made their token.
    let page = rig.get(&format!("{SECRETS}?limit=1")).await.expect(200).json();
    let continued = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let made = json!({"v": "meta.k8s.io/v1", "rv": first.parse::<u64>().unwrap(), "start": "/0"});
    let made = URL_SAFE_NO_PAD.encode(made.to_string());
    let mut running = rig.watch(&format!("{SECRETS}?watch=1&resourceVersion={first}")).await;
    rig.put(SECRET, &body(NEW)).await.expect(200);
    assert_eq!(
        rig.get(&exact).await.expect(200).json()["items"][1]["data"]["k"],
        OLD,
        "lists in progress read it"
    );
    assert_eq!(running.short().await, "MODIFIED a");

    clock.set(1_700_000_060_000);
    rig.get(&exact).await.expect(410);
    for target in [
        format!("{exact}&limit=1"),
        format!("{SECRETS}?limit=1&continue={continued}"),
        format!("{SECRETS}?limit=1&continue={made}"),
        format!("{SECRETS}?continue={made}"),
        format!("/api/v1/secrets?resourceVersionMatch=Exact&resourceVersion={first}&limit=500"),
    ] {
        let answer = rig.get(&target).await;
        assert!(answer.code == 410 && !answer.text().contains(OLD), "{target}: {}", answer.text());
    }
    let late = rig.watch(&format!("{SECRETS}?watch=1&resourceVersion={first}")).await.short().await;
    assert_eq!(late, "ERROR 410");
    for target in [
        format!("{ONE}/history?whole=true"),
        format!("{ONE}/diff?from={first}"),
        format!("{ONE}?at={first}"),
        format!("/apis/orlop.dev/v1/stream?at={first}&follow=false"),
        "/apis/orlop.dev/v1/capture".to_owned(),
    ] {
        let answer = rig.get(&target).await;
        assert!(!answer.text().contains(OLD) && !answer.text().contains(NEW), "{target}: {}", answer.text());
    }
    let history = rig.get(&format!("{ONE}/history")).await.expect(200).json();
    assert_eq!(history["items"].as_array().map(Vec::len), Some(2), "{history}");
    // The deletion reaches the running watch with the last state.
    assert_eq!(rig.get(SECRET).await.expect(200).json()["data"]["k"], NEW);
    rig.delete(SECRET, Value::Null).await.expect(200);
    let deleted = running.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["data"]["k"]), (&json!("DELETED"), &json!(NEW)));
    // A Secret without its values is not restored.
    clock.set(1_700_000_120_000);
    let undelete = rig.post(&format!("{ONE}/undelete"), json!({})).await;
    assert!(undelete.code >= 400, "{}", undelete.text());
    rig.get(SECRET).await.expect(404);
}

async fn as_ann(rig: &Rig, target: &str) -> Answer {
    rig.send("GET", target, &[("impersonate-user", "ann")], Body::empty()).await
}

/// A server that retains the versions for a day: the right to read Secrets is not the right to their former values.
#[tokio::test(start_paused = true)]
async fn former_versions_need_a_right_after_a_minute() {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let modes = vec![AuthorizationMode::Rbac];
    let store = retaining_store(&clock, Duration::from_secs(86_400));
    let rig = Rig::on_with(store, |config| config.authorization = modes).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let grant = async |name: &str, group: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": [group], "resources": ["secrets"], "verbs": verbs}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        rig.post(&format!("{rbac}/clusterroles"), role).await.expect(201);
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]});
        rig.post(&format!("{rbac}/clusterrolebindings"), binding).await.expect(201);
    };
    grant("secrets", "", &["get", "list", "watch"]).await;
    let body = |value: &str| json!({"metadata": {"name": "a"}, "data": {"k": value}});
    let first = version(&rig.post(SECRETS, body(OLD)).await.expect(201).json());
    rig.post(SECRETS, json!({"metadata": {"name": "b"}})).await.expect(201);
    let page = as_ann(&rig, &format!("{SECRETS}?limit=1")).await.expect(200).json();
    let continued = page["metadata"]["continue"].as_str().unwrap().to_owned();
    rig.put(SECRET, &body(NEW)).await.expect(200);
    let lists = [
        format!("{SECRETS}?resourceVersionMatch=Exact&resourceVersion={first}"),
        format!("{SECRETS}?limit=5&resourceVersion={first}"),
        format!("/api/v1/secrets?resourceVersionMatch=Exact&resourceVersion={first}"),
    ];
    let watches = [
        format!("{SECRETS}?watch=1&timeoutSeconds=1&resourceVersion={first}"),
        format!("/api/v1/watch/namespaces/default/secrets/a?timeoutSeconds=1&resourceVersion={first}"),
    ];
    // Within the first minute, nothing changes.
    for target in &lists {
        let text = as_ann(&rig, target).await.expect(200).text();
        assert!(text.contains(OLD), "{target}: {text}");
    }
    for target in &watches {
        let text = as_ann(&rig, target).await.expect(200).text();
        assert!(text.contains(NEW) && !text.contains("ERROR"), "{target}: {text}");
    }
    clock.set(1_700_000_060_000);
    for target in lists.iter().chain([&format!("{SECRETS}?limit=1&continue={continued}")]) {
        let answer = as_ann(&rig, target).await;
        assert!(answer.code == 410 && !answer.text().contains(OLD), "{target}: {}", answer.text());
    }
    for target in &watches {
        let text = as_ann(&rig, target).await.expect(200).text();
        assert!(text.contains("ERROR") && text.contains("410") && !text.contains(OLD), "{target}: {text}");
    }
    let current =
        as_ann(&rig, &format!("{SECRETS}?resourceVersionMatch=NotOlderThan&resourceVersion={first}")).await;
    assert!(current.expect(200).text().contains(NEW), "the current state");
    // The administrator has the right, and ann with a role of her own.
    assert!(rig.get(&lists[0]).await.expect(200).text().contains(OLD));
    grant("former", "orlop.dev", &["read-former-versions"]).await;
    for target in &lists {
        let text = as_ann(&rig, target).await.expect(200).text();
        assert!(text.contains(OLD), "{target}: {text}");
    }
    for target in &watches {
        let text = as_ann(&rig, target).await.expect(200).text();
        assert!(text.contains(NEW) && !text.contains("ERROR"), "{target}: {text}");
    }
}

async fn as_node(rig: &Rig, target: &str) -> Answer {
    let headers = [("impersonate-user", "system:node:n1"), ("impersonate-group", "system:nodes")];
    rig.send("GET", target, &headers, Body::empty()).await
}

/// The Secret of this name was another one when no pod of the node used it.
#[tokio::test(start_paused = true)]
async fn node_reads_no_former_secret_of_the_same_name() {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let modes = vec![AuthorizationMode::Node, AuthorizationMode::Rbac];
    let rig = Rig::on_with(store(&clock), |config| config.authorization = modes).await;
    let body = |value: &str| json!({"metadata": {"name": "a"}, "data": {"k": value}});
    let first = version(&rig.post(SECRETS, body(OLD)).await.expect(201).json());
    rig.delete(SECRET, Value::Null).await.expect(200);
    rig.post(SECRETS, body(NEW)).await.expect(201);
    let one = format!("{SECRETS}?fieldSelector=metadata.name%3Da");
    as_node(&rig, &format!("{one}&resourceVersionMatch=Exact&resourceVersion={first}")).await.expect(403);

    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "n1", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "secret": {"secretName": "a"}}],
    }});
    rig.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    clock.set(1_700_000_060_000);
    assert_eq!(as_node(&rig, &one).await.expect(200).json()["items"][0]["data"]["k"], NEW);
    as_node(&rig, &format!("{one}&resourceVersionMatch=Exact&resourceVersion={first}")).await.expect(410);
    let watch = as_node(&rig, &format!("{one}&watch=1&timeoutSeconds=1&resourceVersion={first}")).await;
    let events = watch.expect(200).text();
    assert!(events.contains("ERROR") && !events.contains(OLD), "{events}");
}
