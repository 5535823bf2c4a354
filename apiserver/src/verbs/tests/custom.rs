//! Custom kinds that are created and deleted while requests are in progress.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};

use super::rig::{Rig, text};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}

/// Waits until a GET returns this status code.
async fn until(rig: &Rig, target: &str, code: u16) {
    let asks = async {
        while rig.get(target).await.code != code {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asks).await.expect(target);
}

#[tokio::test]
async fn create_that_outlives_its_kind_leaves_no_object() {
    let rig = Rig::new().await;
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;

    let (body, chunks) = futures::channel::mpsc::unbounded();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "late"}});
    let late = rig.send("POST", WIDGETS, &[], Body::from_stream(chunks));
    let end = async {
        // The request has begun and waits for its body.
        tokio::task::yield_now().await;
        let named = format!("{DEFINITIONS}/widgets.example.com");
        rig.delete(&named, Value::Null).await.expect(200);
        until(&rig, &named, 404).await;
        until(&rig, WIDGETS, 404).await;
        body.unbounded_send(Ok::<_, Infallible>(Bytes::from(widget.to_string()))).unwrap();
        drop(body);
    };
    let (answer, ()) = futures::join!(late, end);
    answer.expect(404);
    let left = rig.store.head().range("/registry/example.com/widgets/", None).count();
    assert_eq!(left, 0, "no controller would remove it");
}

fn widget(name: &str, finalizers: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "finalizers": finalizers}})
}

#[tokio::test]
async fn undelete_in_a_terminating_kind_is_rejected() {
    let rig = Rig::new().await;
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;
    rig.post(WIDGETS, widget("one", json!([]))).await.expect(201);
    rig.post(WIDGETS, widget("held", json!(["example.com/held"]))).await.expect(201);
    let verb = "/apis/orlop.dev/v1/namespaces/default/widgets.example.com/one/undelete";
    rig.delete(&format!("{WIDGETS}/one"), Value::Null).await.expect(200);
    rig.post(verb, json!({})).await.expect(200);
    rig.get(&format!("{WIDGETS}/one")).await.expect(200);
    rig.delete(&format!("{WIDGETS}/one"), Value::Null).await.expect(200);
    rig.delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null).await.expect(200);
    for path in [verb.to_owned(), format!("{verb}?dryRun=All")] {
        let refused = rig.post(&path, json!({})).await.expect(409);
        assert!(refused.text().contains("widgets.example.com is being deleted"), "{}", refused.text());
    }
    let left = rig.store.head().range("/registry/example.com/widgets/", None).count();
    assert_eq!(left, 1, "the one that is held");
}

#[tokio::test]
async fn stream_reports_the_deletes_of_a_removed_kind() {
    let rig = Rig::new().await;
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;
    rig.post(WIDGETS, widget("one", json!([]))).await.expect(201);
    let mut stream = rig.watch("/apis/orlop.dev/v1/stream").await;
    while stream.next().await.unwrap()["type"] != "SYNCED" {}
    let named = format!("{DEFINITIONS}/widgets.example.com");
    rig.delete(&named, Value::Null).await.expect(200);
    until(&rig, &named, 404).await;
    until(&rig, WIDGETS, 404).await;
    let (mut gone, end) = (Vec::new(), rig.head());
    loop {
        let line = stream.next().await.unwrap();
        if line["type"] == "DELETED" {
            gone.push(text(&line, "/object/metadata/name"));
        }
        let is_whole = line["type"] == "PROGRESS" && text(&line, "/revision") == end.to_string();
        if is_whole || gone.len() == 2 {
            break;
        }
    }
    assert_eq!(gone, ["one", "widgets.example.com"]);
}

#[tokio::test]
async fn definition_is_removed_after_its_last_object() {
    let rig = Rig::new().await;
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;
    for name in ["a", "b", "free"] {
        let held = if name == "free" { json!([]) } else { json!(["example.com/held"]) };
        rig.post(WIDGETS, widget(name, held)).await.expect(201);
    }
    let named = format!("{DEFINITIONS}/widgets.example.com");
    rig.delete(&named, Value::Null).await.expect(200);
    until(&rig, &format!("{WIDGETS}/free"), 404).await;
    for name in ["a", "b"] {
        rig.get(&named).await.expect(200);
        let release = json!({"metadata": {"finalizers": null}});
        rig.patch(&format!("{WIDGETS}/{name}"), "merge", release).await.expect(200);
    }
    until(&rig, &named, 404).await;
    until(&rig, WIDGETS, 404).await;
}

/// The processor time of updates to one object of a definition that is being deleted, where finalizers hold many.
async fn updates_among(held: usize) -> Duration {
    let rig = Rig::new().await;
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;
    for at in 0..held {
        rig.post(WIDGETS, widget(&format!("w{at}"), json!(["example.com/held"]))).await.expect(201);
    }
    let named = format!("{DEFINITIONS}/widgets.example.com");
    rig.delete(&named, Value::Null).await.expect(200);
    let is_marked = async {
        while !rig.get(&named).await.text().contains("InstanceDeletionInProgress") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_marked).await.expect("the objects are marked");
    let turns = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    turns.await;
    let time = orlop_apimachinery::thread_time::ThreadTime::start();
    for at in 0..20 {
        let change = json!({"metadata": {"annotations": {"at": at.to_string()}}});
        rig.patch(&format!("{WIDGETS}/w0"), "merge", change).await.expect(200);
        tokio::task::yield_now().await;
    }
    time.spent()
}

#[tokio::test]
async fn objects_with_finalizers_add_no_cost_to_other_changes() {
    let (few, many) = (updates_among(2).await, updates_among(200).await);
    assert!(many < few * 5, "{few:?} among 2, {many:?} among 200");
}

#[tokio::test]
async fn definitions_are_limited_in_number() {
    let rig = Rig::new().await;
    let named = |at: usize| {
        let mut definition = definition();
        definition["metadata"]["name"] = format!("w{at}s.example.com").into();
        definition["spec"]["names"] =
            json!({"plural": format!("w{at}s"), "singular": format!("w{at}"), "kind": format!("W{at}")});
        definition
    };
    for at in 0..1000 {
        rig.post(DEFINITIONS, named(at)).await.expect(201);
    }
    let refused = rig.post(DEFINITIONS, named(1000)).await;
    assert_eq!(refused.code, 403, "{}", refused.text());
    rig.delete(&format!("{DEFINITIONS}/w0s.example.com"), Value::Null).await.expect(200);
    until(&rig, &format!("{DEFINITIONS}/w0s.example.com"), 404).await;
    rig.post(DEFINITIONS, named(1000)).await.expect(201);
}

/// The prefix of the objects of a definition consists of its group and plural.
#[tokio::test]
async fn definition_cannot_use_the_names_of_a_built_in_kind() {
    let rig = Rig::new().await;
    for (plural, group, field) in [
        ("customresourcedefinitions", "apiextensions.k8s.io", "spec.names.plural"),
        ("clusterroles", "rbac.authorization.k8s.io", "spec.names.plural"),
        ("widgets", "orlop.dev", "spec.group"),
    ] {
        let mut shadow = definition();
        shadow["metadata"] = json!({"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "yes"}});
        shadow["spec"]["group"] = group.into();
        shadow["spec"]["names"]["plural"] = plural.into();
        shadow["spec"]["versions"][0]["name"] = "v9".into();
        let refused = rig.post(DEFINITIONS, shadow).await.expect(422).json();
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
    }
}

/// A definition can get into the store without validation, for example with a capture.
#[tokio::test]
async fn stored_definition_with_the_prefix_of_secrets_is_not_served() {
    use crate::encode::stored;
    use crate::registry::by_resource;
    use orlop_api::object::Object;
    use orlop_store::{Expect, Key, Op, Write};

    let rig = Rig::new().await;
    rig.post("/api/v1/namespaces", json!({"metadata": {"name": "team-b"}})).await.expect(201);
    let secrets = "/api/v1/namespaces/team-b/secrets";
    rig.post(secrets, json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}})).await.expect(201);
    let mut bad = definition();
    bad["metadata"] = json!({"name": "team-b.secrets", "uid": "u", "creationTimestamp": "2026-01-01T12:00:00Z",
        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"]});
    bad["spec"]["group"] = "secrets".into();
    bad["spec"]["scope"] = "Cluster".into();
    let names = json!({"plural": "team-b", "singular": "zz", "kind": "Zz", "listKind": "ZzList"});
    bad["spec"]["names"] = names.clone();
    bad["status"] = json!({"acceptedNames": names, "storedVersions": ["v1"],
        "conditions": [{"type": "Established", "status": "True"}]});
    let kind = by_resource("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
    let (value, view) = stored::encode(kind, &Object::from_value(bad));
    let key = Key::from("/registry/apiextensions.k8s.io/customresourcedefinitions/team-b.secrets".to_owned());
    rig.store.commit(vec![Write { key, expect: Expect::Absent, op: Op::Put { value, view } }]).await.unwrap();
    // A later definition is served, so the controller has seen this one, too.
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;
    rig.get("/apis/secrets/v1/team-b").await.expect(404);
    let named = format!("{DEFINITIONS}/team-b.secrets");
    rig.delete(&named, Value::Null).await.expect(200);
    until(&rig, &named, 404).await;
    assert_eq!(rig.get(&format!("{secrets}/s")).await.expect(200).json()["data"]["k"], "dg==");
}

#[tokio::test]
async fn answers_about_custom_kinds_are_upstreams() {
    let rig = Rig::new().await;
    let mut definition = definition();
    let mut old = definition["spec"]["versions"][0].clone();
    old["name"] = "v1beta1".into();
    old["storage"] = false.into();
    old["deprecated"] = true.into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(old);
    rig.post(DEFINITIONS, definition).await.expect(201);
    until(&rig, WIDGETS, 200).await;
    rig.post(WIDGETS, widget("a", json!([]))).await.expect(201);

    let list = rig.get(WIDGETS).await.expect(200).json();
    assert_eq!(
        (text(&list, "/metadata/continue"), list["items"].as_array().map(Vec::len)),
        (String::new(), Some(1))
    );
    let old = rig.get("/apis/example.com/v1beta1/namespaces/default/widgets/a").await.expect(200);
    let want = "299 - \"example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget\"";
    assert_eq!(old.header("warning"), want);
    let missing = rig.get(&format!("{WIDGETS}/a/status")).await.expect(404);
    assert_eq!(text(&missing.json(), "/message"), "widgets.example.com \"a\" not found");
    let unknown = rig.get("/apis/example.com/v2/namespaces/default/widgets/a").await.expect(404);
    assert_eq!(unknown.text(), "404 page not found\n");
    let refused = rig.post(&format!("{WIDGETS}/a"), json!({})).await.expect(405);
    let want = "create is not supported on resources of kind \"widgets.example.com\"";
    assert_eq!(text(&refused.json(), "/message"), want);
    let html = rig.get_as(&format!("{WIDGETS}/a"), "text/html").await.expect(406);
    assert!(text(&html.json(), "/message").starts_with("only the following media types are accepted"));

    let named = format!("{DEFINITIONS}/widgets.example.com");
    let ending = rig.delete(&named, Value::Null).await.expect(200).json();
    assert_eq!(
        (&ending["metadata"]["generation"], &ending["metadata"]["deletionGracePeriodSeconds"]),
        (&json!(1), &Value::Null)
    );
}
