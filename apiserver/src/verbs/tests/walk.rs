//! Every verb on every kind: no kind lacks a part of its implementation.

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{Rig, text, version};
use super::samples::{collection, sample};
use crate::registry::{DeleteAnswer, KINDS, Kind, Scope, StatusSubresource};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// A valid name for every kind.
const NAME: &str = "walk";

fn show(kind: &dyn Kind) -> String {
    format!("{}/{}", kind.names().group, kind.names().plural)
}

fn has(kind: &dyn Kind, verb: &str) -> bool {
    kind.verbs().contains(&verb)
}

/// The stored kinds, with the paths of their collection and of an item.
fn kinds() -> impl Iterator<Item = (&'static dyn Kind, String, String)> {
    // The names of these objects follow from their specs or are addresses. A controller updates definitions during the tests.
    const OTHER_NAMES: [&str; 3] = ["apiservices", "customresourcedefinitions", "ipaddresses"];
    let kinds = KINDS.iter().copied().filter(|kind| !OTHER_NAMES.contains(&kind.names().plural));
    kinds.filter(|kind| kind.is_stored()).map(|kind| {
        let collection = collection(kind);
        let item = format!("{collection}/{NAME}");
        (kind, collection, item)
    })
}

#[tokio::test]
async fn created_object_is_read_back() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        let made = rig.post(&collection, sample(kind, NAME)).await.expect(201).json();
        assert_eq!(made["kind"], kind.names().kind, "{}", show(kind));
        assert_eq!(made["apiVersion"], kind.names().api_version(), "{}", show(kind));
        assert!(text(&made, "/metadata/uid").len() == 36, "{made}");
        assert_eq!(text(&made, "/metadata/creationTimestamp"), "2026-01-01T12:00:00Z");
        let namespace = if kind.scope() == Scope::Namespaced { "default" } else { "" };
        assert_eq!(text(&made, "/metadata/namespace"), namespace);
        assert_eq!(rig.get(&item).await.expect(200).json(), made, "{}", show(kind));

        let again = rig.post(&collection, sample(kind, NAME)).await.expect(409);
        assert_eq!(again.reason(), "AlreadyExists");
        let list = rig.get(&format!("{collection}?labelSelector=walk%3Dyes")).await.expect(200).json();
        assert_eq!(list["kind"], format!("{}List", kind.names().kind));
        let mut shown = list["items"][0].clone();
        assert!(shown.get("kind").is_none(), "items of lists say no kind: {shown}");
        shown["kind"] = made["kind"].clone();
        shown["apiVersion"] = made["apiVersion"].clone();
        assert_eq!(shown, made, "{}", show(kind));
        rig.get(&format!("{collection}/missing")).await.expect(404);
    }
}

#[tokio::test]
async fn dry_run_stores_nothing() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        let before = rig.head();
        rig.post(&format!("{collection}?dryRun=All"), sample(kind, NAME)).await.expect(201);
        assert_eq!(rig.head(), before, "{}: create", show(kind));
        let made = rig.post(&collection, sample(kind, NAME)).await.expect(201).json();
        let before = rig.head();
        let labels = json!({"metadata": {"labels": {"dry": "run"}}});
        rig.patch(&format!("{item}?dryRun=All"), "merge", labels.clone()).await.expect(200);
        let mut changed = made.clone();
        changed["metadata"]["labels"]["dry"] = "run".into();
        let shown = rig.put(&format!("{item}?dryRun=All"), &changed).await.expect(200).json();
        assert_eq!(text(&shown, "/metadata/labels/dry"), "run");
        rig.delete(&format!("{item}?dryRun=All"), Value::Null).await.expect(200);
        if has(kind, "deletecollection") {
            rig.delete(&format!("{collection}?dryRun=All"), Value::Null).await.expect(200);
        }
        assert_eq!(rig.head(), before, "{}", show(kind));
        assert_eq!(rig.get(&item).await.expect(200).json(), made, "{}", show(kind));
    }
}

#[tokio::test]
async fn unchanged_writes_store_nothing_and_stale_writes_conflict() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        rig.post(&collection, sample(kind, NAME)).await.expect(201);
        let set = |value: &str| json!({"metadata": {"annotations": {"a.b/c": value}}});
        rig.patch(&item, "merge", set("1")).await.expect(200);
        rig.patch(&item, "strategic", set("2")).await.expect(200);
        let replace = json!([{"op": "replace", "path": "/metadata/annotations/a.b~1c", "value": "3"}]);
        let patched = rig.patch(&item, "json", replace).await.expect(200).json();
        assert_eq!(text(&patched, "/metadata/annotations/a.b~1c"), "3", "{}", show(kind));

        // Repeated writes store nothing.
        let before = rig.head();
        let same = rig.put(&item, &patched).await.expect(200).json();
        assert_eq!(same, patched, "{}", show(kind));
        rig.patch(&item, "merge", set("3")).await.expect(200);
        assert_eq!(rig.head(), before, "{}", show(kind));

        let mut changed = patched.clone();
        changed["metadata"]["annotations"]["a.b/c"] = "4".into();
        let changed = rig.put(&item, &changed).await.expect(200).json();
        assert_ne!(version(&changed), version(&patched));
        let mut stale = patched.clone();
        stale["metadata"]["annotations"]["a.b/c"] = "5".into();
        assert_eq!(rig.put(&item, &stale).await.expect(409).reason(), "Conflict", "{}", show(kind));
        assert_eq!(rig.get(&item).await.json(), changed, "{}", show(kind));

        stale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let code = if kind.policy().unconditional_update { 200 } else { 422 };
        rig.put(&item, &stale).await.expect(code);
        stale["metadata"]["name"] = "other".into();
        rig.put(&item, &stale).await.expect(400);
        let mut missing = sample(kind, "other");
        let code = if kind.policy().create_on_update { 201 } else { 404 };
        rig.put(&format!("{collection}/other"), &missing).await.expect(code);
        missing["metadata"]["uid"] = "u".into();
        missing["metadata"]["name"] = "another".into();
        rig.put(&format!("{collection}/another"), &missing).await.expect(409);
    }
}

#[tokio::test]
async fn status_subresource_changes_only_the_status() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        let made = rig.post(&collection, sample(kind, NAME)).await.expect(201).json();
        let status = format!("{item}/status");
        if kind.policy().status == StatusSubresource::None {
            rig.get(&status).await.expect(404);
            continue;
        }
        assert_eq!(rig.get(&status).await.expect(200).json(), made, "{}", show(kind));
        // A write to `/status` changes only the status, for every body.
        let mut body = made.clone();
        let had_spec = body.as_object_mut().unwrap().remove("spec");
        if had_spec.is_some() {
            let got =
                rig.patch(&status, "merge", json!({"spec": {"nonsense": null}})).await.expect(200).json();
            assert_eq!(got["spec"], made["spec"], "{}", show(kind));
            // The first update of a claim is stored even if it changes nothing.
            body["metadata"]["resourceVersion"] = got["metadata"]["resourceVersion"].clone();
        }
        body["metadata"]["labels"]["status"] = "was-here".into();
        let put = rig.put(&status, &body).await.expect(200).json();
        assert_eq!(put.get("spec"), made.get("spec"), "{}", show(kind));
        // Labels of deployments stay as well.
        let labels = kind.names().plural != "deployments";
        let metadata = kind.policy().status == StatusSubresource::WithMetadata && labels;
        let want = if metadata { "was-here" } else { "" };
        assert_eq!(text(&put, "/metadata/labels/status"), want, "{}", show(kind));
    }
}

#[tokio::test]
async fn every_kind_is_served_as_table_and_as_metadata() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        let made = rig.post(&collection, sample(kind, NAME)).await.expect(201).json();
        // Upstream takes metadata from the internal form of an object, which lacks these annotations.
        let mut unconverted = made["metadata"].clone();
        if let Some(annotations) = unconverted.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !kind.converted_annotations().contains(&name.as_str()));
            if annotations.is_empty() {
                unconverted.as_object_mut().unwrap().remove("annotations");
            }
        }
        for (target, rows) in [
            (item.clone(), 1),
            (format!("{collection}?labelSelector=walk"), 1),
            (format!("{collection}?labelSelector=no"), 0),
        ] {
            let table = rig.get_as(&target, TABLE).await.expect(200).json();
            assert_eq!(table["kind"], "Table", "{target}");
            let columns = table["columnDefinitions"].as_array().unwrap();
            let shown = table["rows"].as_array().cloned().unwrap_or_default();
            assert_eq!(shown.len(), rows, "{target}");
            for row in shown {
                assert_eq!(row["cells"].as_array().unwrap().len(), columns.len(), "{target}: {row}");
                assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
                assert_eq!(row["object"]["metadata"], unconverted, "{target}");
            }
        }
        let alone = rig.get_as(&item, METADATA).await.expect(200).json();
        assert_eq!(alone["metadata"], unconverted, "{}", show(kind));
        assert!(alone.get("spec").is_none());
        let list = rig.get_as(&collection, METADATA_LIST).await.expect(200).json();
        assert_eq!(list["kind"], "PartialObjectMetadataList");
        rig.get_as(&item, METADATA_LIST).await.expect(406);
        rig.get_as(&collection, METADATA).await.expect(406);
        for accept in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
            for target in [&item, &collection] {
                let answer = rig.get_as(target, accept).await.expect(200);
                assert_eq!(answer.header("content-type"), accept, "{target}");
            }
        }
    }
}

#[tokio::test]
async fn watch_reports_creates_and_updates_of_every_kind() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        let from = rig.head();
        let mut all = rig.watch(&format!("{collection}?watch=1&resourceVersion={from}")).await;
        let mut table = rig.watch_as(&format!("{collection}?watch=1&resourceVersion={from}"), TABLE).await;
        let made = rig.post(&collection, sample(kind, NAME)).await.expect(201).json();
        let added = all.next().await.unwrap();
        assert_eq!((&added["type"], &added["object"]), (&json!("ADDED"), &made), "{}", show(kind));
        let patch = json!({"metadata": {"labels": {"walk": "on"}}});
        let changed = rig.patch(&item, "merge", patch).await.expect(200).json();
        let modified = all.next().await.unwrap();
        assert_eq!(
            (&modified["type"], &modified["object"]),
            (&json!("MODIFIED"), &changed),
            "{}",
            show(kind)
        );
        let mut now = rig.watch(&format!("{collection}?watch=1&labelSelector=walk")).await;
        assert_eq!(now.next().await.unwrap()["object"], changed, "{}", show(kind));
        assert!(table.next().await.unwrap()["object"]["columnDefinitions"].is_array(), "{}", show(kind));
        let second = table.next().await.unwrap();
        assert!(second["object"]["columnDefinitions"].is_null(), "columns are sent once: {second}");
        assert_eq!(second["object"]["rows"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn deletes_check_preconditions_and_selectors() {
    for (kind, collection, item) in kinds() {
        let rig = Rig::new().await;
        let made = rig.post(&collection, sample(kind, NAME)).await.expect(201).json();
        let wrong = json!({"preconditions": {"uid": "unknown"}});
        assert_eq!(rig.delete(&item, wrong).await.expect(409).reason(), "Conflict", "{}", show(kind));
        let right = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
        let deleted = rig.delete(&item, right).await.expect(200).json();
        let left = rig.get(&item).await;
        if left.code == 200 {
            assert!(left.json()["metadata"]["deletionTimestamp"].is_string(), "{}", show(kind));
            assert_eq!(deleted, left.json(), "what is held is answered as it is: {}", show(kind));
        } else {
            let want = match kind.policy().delete_answer {
                DeleteAnswer::Object => kind.names().kind,
                DeleteAnswer::Status => "Status",
            };
            assert_eq!(deleted["kind"], want, "{}", show(kind));
            rig.delete(&item, Value::Null).await.expect(404);
        }
        rig.post(&collection, sample(kind, "b")).await.expect(201);
        rig.post(&collection, sample(kind, "c")).await.expect(201);
        let target = format!("{collection}?fieldSelector=metadata.name%3Db");
        if !has(kind, "deletecollection") {
            rig.delete(&target, Value::Null).await.expect(405);
            continue;
        }
        assert_eq!(rig.delete(&target, Value::Null).await.expect(200).names(), ["b"], "{}", show(kind));
        let b = rig.get(&format!("{collection}/b")).await;
        assert!(b.code == 404 || b.json()["metadata"]["deletionTimestamp"].is_string(), "{}", show(kind));
        let c = rig.get(&format!("{collection}/c")).await.expect(200).json();
        assert!(c["metadata"].get("deletionTimestamp").is_none(), "{}", show(kind));
    }
}

#[tokio::test]
async fn unsupported_verbs_are_rejected() {
    let rig = Rig::new().await;
    for (kind, collection, item) in kinds() {
        for (method, target, verb) in [
            ("POST", &collection, "create"),
            ("PUT", &item, "update"),
            ("DELETE", &collection, "deletecollection"),
            ("HEAD", &item, ""),
            ("OPTIONS", &item, ""),
            ("POST", &item, ""),
            ("PATCH", &collection, ""),
        ] {
            if !has(kind, verb) {
                assert_eq!(rig.send(method, target, &[], Body::empty()).await.code, 405, "{method} {target}");
            }
        }
    }
}
