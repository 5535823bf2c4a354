//! Create, update and patch: server-managed metadata, rejected writes, and writes that store nothing.

use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{CONFIG_MAPS, Rig, text, version};

#[tokio::test]
async fn creates_check_name_namespace_and_kind() {
    let rig = Rig::new().await;
    for (case, target, body, code) in [
        ("1 plain", CONFIG_MAPS, json!({"metadata": {"name": "a"}}), 201),
        ("2 taken", CONFIG_MAPS, json!({"metadata": {"name": "a"}}), 409),
        ("3 no name", CONFIG_MAPS, json!({}), 422),
        ("4 a bad name", CONFIG_MAPS, json!({"metadata": {"name": "A"}}), 422),
        ("5 a name with a slash", CONFIG_MAPS, json!({"metadata": {"name": "a/b"}}), 422),
        ("6 another namespace", CONFIG_MAPS, json!({"metadata": {"name": "b", "namespace": "x"}}), 400),
        ("7 its own namespace", CONFIG_MAPS, json!({"metadata": {"name": "b", "namespace": "default"}}), 201),
        ("8 no such namespace", "/api/v1/namespaces/no/configmaps", json!({"metadata": {"name": "a"}}), 404),
        ("9 all namespaces", "/api/v1/configmaps", json!({"metadata": {"name": "a"}}), 405),
        ("10 a version", CONFIG_MAPS, json!({"metadata": {"name": "c", "resourceVersion": "1"}}), 500),
        ("11 another kind", CONFIG_MAPS, json!({"kind": "Pod", "apiVersion": "v1"}), 400),
        (
            "12 a namespace for a node",
            "/api/v1/nodes",
            json!({"metadata": {"name": "n", "namespace": "x"}}),
            201,
        ),
    ] {
        let answer = rig.post(target, body).await;
        assert_eq!(answer.code, code, "{case}: {}", answer.text());
    }
    let node = rig.get("/api/v1/nodes/n").await.expect(200).json();
    assert!(node["metadata"].get("namespace").is_none(), "a node has no namespace");
}

#[tokio::test]
async fn clients_cannot_set_server_managed_metadata() {
    let rig = Rig::new().await;
    let body = json!({"metadata": {
        "name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "generation": 7,
    }});
    let made = rig.post(CONFIG_MAPS, body).await.expect(201).json();
    assert_ne!(text(&made, "/metadata/uid"), "mine");
    assert_eq!(text(&made, "/metadata/creationTimestamp"), "2026-01-01T12:00:00Z");
    for gone in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        assert!(made["metadata"].get(gone).is_none(), "{gone}");
    }
    assert_eq!(made["metadata"]["generation"], 7, "without counting, the client's number stays");

    let target = format!("{CONFIG_MAPS}/a");
    let mut body = made.clone();
    body["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    body["metadata"]["generation"] = 99.into();
    body["data"] = json!({"k": "v"});
    rig.advance(Duration::from_millis(1_700));
    let put = rig.put(&target, &body).await.expect(200).json();
    assert_eq!(put["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    assert_eq!(put["metadata"]["generation"], 7);
    for (case, pointer, value, by_put, by_patch) in [
        ("1 the uid", "uid", json!("u"), 409, 422),
        ("2 a deletion", "deletionTimestamp", json!("2026-01-01T12:00:00Z"), 422, 422),
        ("3 an old version", "resourceVersion", json!("1"), 409, 409),
        ("4 no version", "resourceVersion", json!("abc"), 500, 500),
    ] {
        let mut body = put.clone();
        body["metadata"][pointer] = value.clone();
        assert_eq!(rig.put(&target, &body).await.code, by_put, "{case}");
        let patch = json!({"metadata": {pointer: value}});
        assert_eq!(rig.patch(&target, "merge", patch).await.code, by_patch, "{case}");
    }
    let second = rig.post(CONFIG_MAPS, json!({"metadata": {"name": "b"}})).await.json();
    assert_eq!(text(&second, "/metadata/creationTimestamp"), "2026-01-01T12:00:01Z", "whole seconds");
}

#[tokio::test]
async fn names_are_generated_from_a_prefix() {
    let rig = Rig::new().await;
    let long = "x".repeat(100);
    for (case, base, kept) in [("1 short", "web-", 4), ("2 long", long.as_str(), 58)] {
        let made =
            rig.post(CONFIG_MAPS, json!({"metadata": {"generateName": base}})).await.expect(201).json();
        let name = text(&made, "/metadata/name");
        assert_eq!(name.len(), kept + 5, "{case}");
        assert!(name.starts_with(&base[..kept]), "{case}");
        let suffix = &name[kept..];
        assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{case}: {suffix}");
        assert_eq!(text(&made, "/metadata/generateName"), base, "{case}");
    }
    for base in ["É", "é".repeat(80).as_str(), "a_b"] {
        rig.post(CONFIG_MAPS, json!({"metadata": {"generateName": base}})).await.expect(422);
    }
    // A name takes precedence over `generateName`, and a conflict is not retried.
    let both = json!({"metadata": {"name": "a", "generateName": "g-"}});
    rig.post(CONFIG_MAPS, both.clone()).await.expect(201);
    let taken = rig.post(CONFIG_MAPS, both).await.expect(409).json();
    assert!(text(&taken, "/message").contains("not able to generate a unique name"), "{taken}");
    let dry =
        rig.post(&format!("{CONFIG_MAPS}?dryRun=All"), json!({"metadata": {"generateName": "d-"}})).await;
    assert!(text(&dry.expect(201).json(), "/metadata/name").starts_with("d-"));
}

#[tokio::test]
async fn write_options_are_validated() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let long = "m".repeat(129);
    for query in ["dryRun=Some", "fieldValidation=Loud", &format!("fieldManager={long}"), "fieldManager=%01"]
    {
        let body = json!({"metadata": {"name": "b"}});
        assert_eq!(rig.post(&format!("{CONFIG_MAPS}?{query}"), body.clone()).await.code, 422, "{query}");
        let target = format!("{CONFIG_MAPS}/a?{query}");
        assert_eq!(rig.put(&target, &json!({"metadata": {"name": "a"}})).await.code, 422, "{query}");
        assert_eq!(rig.patch(&target, "merge", json!({})).await.code, 422, "{query}");
    }
    rig.patch(&format!("{CONFIG_MAPS}/a?force=true"), "merge", json!({})).await.expect(422);
}

#[tokio::test]
async fn bodies_are_checked_against_their_content_type() {
    let rig = Rig::new().await;
    let send = |method: &'static str, target: String, content_type: &'static str, body: &str| {
        let body = Body::from(body.to_owned());
        let rig = &rig;
        async move { rig.send(method, &target, &[("content-type", content_type)], body).await }
    };
    let yaml = "metadata:\n  name: yam\ndata:\n  a: 'yes'\n---\nmetadata: {name: second}\n";
    let list = || CONFIG_MAPS.to_owned();
    send("POST", list(), "application/yaml", yaml).await.expect(201);
    send("POST", list(), "application/json; charset=utf-8", "{\"metadata\":{\"name\":\"j\"}}")
        .await
        .expect(201);
    send("POST", list(), "text/plain", "{}").await.expect(415);
    for bad in ["", "{", "[]", "nonsense", "{\"metadata\":{\"name\":5}}", "{\"data\":{\"a\":1}}"] {
        let answer = send("POST", list(), "application/json", bad).await;
        assert!(answer.code == 400 || answer.code == 422, "{bad:?}: {}", answer.text());
    }
    let item = || format!("{CONFIG_MAPS}/yam");
    for (content_type, body, code) in [
        ("", "{}", 415),
        ("application/json", "{}", 415),
        ("application/merge-patch+json", "{", 400),
        ("application/merge-patch+json", "5", 400),
        ("application/json-patch+json", "{}", 400),
        ("application/json-patch+json", "[{\"op\":\"test\",\"path\":\"/data/a\",\"value\":\"no\"}]", 422),
        ("application/json-patch+json", "[{\"op\":\"remove\",\"path\":\"/data/none\"}]", 422),
        ("application/json-patch+json", "[{\"op\":\"remove\",\"path\":\"/metadata\"}]", 400),
    ] {
        let answer = send("PATCH", item(), content_type, body).await;
        assert_eq!(answer.code, code, "{content_type} {body}: {}", answer.text());
    }
    let large = format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(3 * 1024 * 1024));
    for (method, target) in [("POST", list()), ("PUT", item()), ("DELETE", item())] {
        assert_eq!(
            send(method, target, "application/json", &large).await.expect(413).reason(),
            "RequestEntityTooLarge"
        );
    }
}

#[tokio::test]
async fn unknown_and_duplicate_fields_follow_the_field_validation() {
    let rig = Rig::new().await;
    let body = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"1\",\"k\":\"2\"},\"what\":1}";
    let post = |query: &'static str| {
        let rig = &rig;
        async move { rig.send("POST", &format!("{CONFIG_MAPS}?dryRun=All&{query}"), &[], Body::from(body)).await }
    };
    let warnings = |answer: &super::rig::Answer| answer.headers.get_all("warning").iter().count();
    assert_eq!(warnings(&post("").await.expect(201)), 2);
    assert_eq!(warnings(&post("fieldValidation=Warn").await.expect(201)), 2);
    assert_eq!(warnings(&post("fieldValidation=Ignore").await.expect(201)), 0);
    let strict = post("fieldValidation=Strict").await.expect(400);
    assert!(strict.text().contains("strict decoding error"), "{}", strict.text());
}

#[tokio::test]
async fn dry_run_of_an_update_validates_and_returns_the_result() {
    let rig = Rig::new().await;
    let made = rig.config_map("a", json!({})).await;
    let target = format!("{CONFIG_MAPS}/a?dryRun=All");
    let shown = rig.patch(&target, "merge", json!({"data": {"x": "y"}})).await.expect(200).json();
    assert_eq!(text(&shown, "/data/x"), "y");
    assert_eq!(version(&shown), version(&made));
    let bad = rig.patch(&target, "merge", json!({"metadata": {"labels": {"not a key": "x"}}})).await;
    assert_eq!(bad.expect(422).reason(), "Invalid", "a dry run is judged as well");
}

#[tokio::test]
async fn duplicate_owners_are_removed_with_a_warning() {
    let rig = Rig::new().await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"});
    let body = json!({"metadata": {"name": "a", "ownerReferences": [owner, owner]}});
    let made = rig.post(CONFIG_MAPS, body).await.expect(201);
    assert!(made.header("warning").contains("duplicate UID(s) observed: u1"), "{}", made.header("warning"));
    assert_eq!(made.json()["metadata"]["ownerReferences"], json!([owner]));
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec() {
    let rig = Rig::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = rig.post(pods, pod).await.expect(201).json();
    assert_eq!(made["metadata"]["generation"], 1);
    let target = format!("{pods}/p");
    let generation = |value: Value| value["metadata"]["generation"].clone();
    let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    assert_eq!(generation(rig.patch(&target, "strategic", image).await.expect(200).json()), 2);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(generation(rig.patch(&target, "merge", label).await.expect(200).json()), 2);
    let phase = json!({"status": {"phase": "Running"}});
    assert_eq!(
        generation(rig.patch(&format!("{target}/status"), "merge", phase).await.expect(200).json()),
        2
    );
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    let driver = rig.post(drivers, json!({"metadata": {"name": "d"}, "spec": {}})).await.expect(201).json();
    assert!(driver["metadata"].get("generation").is_none());
    let change = json!({"spec": {"requiresRepublish": true}});
    assert_eq!(generation(rig.patch(&format!("{drivers}/d"), "merge", change).await.expect(200).json()), 1);
}
