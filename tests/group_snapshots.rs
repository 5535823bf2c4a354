//! VolumeGroupSnapshots, their contents and classes: built into every server, for upstream's controllers.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const GROUP: &str = "groupsnapshot.storage.k8s.io";

/// A kind, its collection below the version, a valid object without a name, and a status if the kind has one.
fn kinds() -> [(&'static str, &'static str, Value, Option<Value>); 3] {
    let time = "2000-01-02T03:04:05Z";
    let content = json!({"spec": {
        "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandles": ["v"]}, "volumeGroupSnapshotClassName": "k",
        "volumeGroupSnapshotRef": {"name": "g", "namespace": "default"},
    }});
    let content_status = json!({
        "readyToUse": true, "creationTime": time, "volumeGroupSnapshotHandle": "h",
        "volumeSnapshotInfoList": [
            {"creationTime": 1, "readyToUse": true, "restoreSize": 1024, "snapshotHandle": "s", "volumeHandle": "v"}],
    });
    let snapshot = json!({"spec": {
        "volumeGroupSnapshotClassName": "k", "source": {"selector": {"matchLabels": {"app": "one"}}},
    }});
    let snapshot_status =
        json!({"readyToUse": true, "creationTime": time, "boundVolumeGroupSnapshotContentName": "g"});
    [
        (
            "VolumeGroupSnapshotClass",
            "volumegroupsnapshotclasses",
            json!({"driver": "d", "deletionPolicy": "Delete", "parameters": {"a": "b"}}),
            None,
        ),
        ("VolumeGroupSnapshotContent", "volumegroupsnapshotcontents", content, Some(content_status)),
        ("VolumeGroupSnapshot", "namespaces/default/volumegroupsnapshots", snapshot, Some(snapshot_status)),
    ]
}

/// The object named `g`, in a version.
fn named(kind: &str, version: &str, mut object: Value) -> Value {
    object["apiVersion"] = format!("{GROUP}/{version}").into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": "g"});
    object
}

/// Creates, reads, changes and deletes an object of each kind. Every second request uses the other version.
async fn write_each_kind(http: &Http, version: &str, other: &str) {
    for (kind, place, object, status) in kinds() {
        let case = format!("{version} {kind}");
        let object = named(kind, version, object);
        let collection = format!("/apis/{GROUP}/{version}/{place}");
        let others = format!("/apis/{GROUP}/{other}/{place}");
        let (own, too) = (format!("{collection}/g"), format!("{others}/g"));
        let mut watch = http.watch(&format!("{others}?watch=1")).await;
        let made = http.create(&collection, &object).await;
        assert_eq!(made["apiVersion"], object["apiVersion"], "{case}");
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "ADDED", "{case}");
        assert_eq!(event["object"]["metadata"]["uid"], made["metadata"]["uid"], "{case}");
        assert_eq!(event["object"]["apiVersion"], format!("{GROUP}/{other}"), "{case}");

        let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]);
        let headers = [("content-type", "application/json-patch+json")];
        let patched = http.send(Method::PATCH, &too, &headers, patch.to_string().into()).await.expect(200);
        assert_eq!(patched["apiVersion"], format!("{GROUP}/{other}"), "{case}");
        let read = http.get(&own).await.expect(200);
        assert_eq!(read["metadata"]["annotations"]["a"], "b", "{case}");
        assert_eq!(read["spec"], object["spec"], "{case}");
        assert_eq!(read["parameters"], object["parameters"], "{case}");

        let change = json!({ "status": status });
        match &status {
            None => assert_eq!(http.patch(&format!("{own}/status"), &change).await.code, 404, "{case}"),
            Some(status) => {
                http.patch(&format!("{own}/status"), &change).await.expect(200);
                let mut read = http.get(&format!("{too}/status")).await.expect(200);
                assert_eq!(&read["status"], status, "{case}");
                read["status"]["readyToUse"] = false.into();
                http.put(&format!("{too}/status"), &read).await.expect(200);
            }
        }
        let list = http.get(&collection).await.expect(200);
        assert_eq!(list["kind"], format!("{kind}List"));
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{case}");
        if status.is_some() {
            assert_eq!(list["items"][0]["status"]["readyToUse"], false, "{case}");
        }
        http.delete(&own).await.expect(200);
        http.until_gone(&too).await;
    }
}

#[tokio::test]
async fn group_snapshots_are_served_in_both_versions() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let group = http.get(&format!("/apis/{GROUP}")).await.expect(200);
    let versions: Vec<&Value> = group["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta2"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(http.get(&format!("/apis/{GROUP}/v1beta1/volumegroupsnapshotclasses")).await.code, 404);
    write_each_kind(&http, "v1", "v1beta2").await;
    write_each_kind(&http, "v1beta2", "v1").await;
}

#[tokio::test]
async fn invalid_changes_of_group_snapshots_are_rejected() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    for (kind, place, object, status) in kinds() {
        let path = format!("/apis/{GROUP}/v1/{place}");
        http.create(&path, &named(kind, "v1", object)).await;
        if let Some(status) = status {
            http.patch(&format!("{path}/g/status"), &json!({ "status": status })).await.expect(200);
        }
        let (part, change, want) = match kind {
            "VolumeGroupSnapshotClass" => {
                ("", json!({"driver": "e"}), "driver: Invalid value: \"e\": driver is immutable once set")
            }
            "VolumeGroupSnapshotContent" => (
                "/status",
                json!({"status": {"volumeGroupSnapshotHandle": "i"}}),
                "status.volumeGroupSnapshotHandle: Invalid value: \"i\": volumeGroupSnapshotHandle is immutable once set",
            ),
            _ => (
                "",
                json!({"spec": {"source": {"selector": null, "volumeGroupSnapshotContentName": "g"}}}),
                "spec.source: Invalid value: selector is required once set",
            ),
        };
        let answer = http.patch(&format!("{path}/g{part}"), &change).await;
        assert_eq!(answer.code, 422, "{kind}: {}", answer.text());
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(message, format!("{kind}.{GROUP} \"g\" is invalid: {want}"));
    }
}
