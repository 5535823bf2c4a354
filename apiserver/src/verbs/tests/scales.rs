//! `/scale` of every kind that supports it.

use axum::body::Body;
use serde_json::{Value, json};

use super::rig::{Rig, text, version};
use super::samples::{collection, sample};
use crate::registry::{KINDS, Kind};

/// The scalable kinds, with the paths of an object and of its Scale.
fn kinds() -> impl Iterator<Item = (&'static dyn Kind, String, String)> {
    KINDS.iter().copied().filter(|kind| kind.scale().is_some()).map(|kind| {
        let item = format!("{}/a", collection(kind));
        let scale = format!("{item}/scale");
        (kind, item, scale)
    })
}

async fn apply(rig: &Rig, target: &str, manager: &str, body: Value) -> super::rig::Answer {
    let target = format!("{target}?fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    rig.send("PATCH", &target, &headers, Body::from(body.to_string())).await
}

#[tokio::test]
async fn scale_can_be_updated_and_patched() {
    for (kind, item, scale) in kinds() {
        let rig = Rig::new().await;
        let made = rig.post(&collection(kind), sample(kind, "a")).await.expect(201).json();
        let shown = rig.get(&scale).await.expect(200).json();
        assert_eq!(
            shown,
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {
                    "name": "a", "namespace": "default", "uid": made["metadata"]["uid"],
                    "resourceVersion": version(&made), "creationTimestamp": "2026-01-01T12:00:00Z",
                },
                "spec": {"replicas": 1}, "status": {"replicas": 0, "selector": "app=a"},
            })
        );
        let mut put = shown.clone();
        put["spec"]["replicas"] = json!(2);
        let changed = rig.put(&scale, &put).await.expect(200).json();
        assert_eq!(changed["spec"]["replicas"], 2, "{item}");
        assert_eq!(rig.put(&scale, &put).await.expect(409).reason(), "Conflict", "{item}: outdated");
        let three = json!({"spec": {"replicas": 3}});
        rig.patch(&scale, "merge", three.clone()).await.expect(200);
        rig.patch(&scale, "strategic", json!({"spec": {"replicas": 4}})).await.expect(200);
        let op = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
        rig.patch(&scale, "json", op).await.expect(200);
        let object = rig.get(&item).await.expect(200).json();
        assert_eq!(
            (&object["spec"]["replicas"], &object["metadata"]["generation"]),
            (&json!(5), &json!(5)),
            "{item}"
        );

        let before = rig.head();
        let status = rig.patch(&scale, "merge", json!({"status": {"replicas": 9}})).await.expect(200).json();
        assert_eq!(status["status"]["replicas"], 0, "{item}: the status is the object's");
        rig.patch(&format!("{scale}?dryRun=All"), "merge", three).await.expect(200);
        let below = rig.patch(&scale, "merge", json!({"spec": {"replicas": -1}})).await.expect(422).json();
        assert_eq!(below["details"]["group"], "autoscaling", "{below}");
        let mut other = put.clone();
        other["metadata"]["name"] = "b".into();
        rig.put(&scale, &other).await.expect(400);
        other["metadata"] = json!({"name": "a", "uid": "other"});
        let conflict = rig.put(&scale, &other).await.expect(409).json();
        assert_eq!(conflict["details"]["kind"], format!("{}/scale", kind.names().plural));
        assert_eq!(rig.head(), before, "{item}: none of that is a write");

        // Replicas that are not specified are 0.
        let none = json!({"metadata": {"name": "a"}});
        assert_eq!(rig.put(&scale, &none).await.expect(200).json()["spec"], json!({}), "{item}");
        assert_eq!(rig.get(&item).await.expect(200).json()["spec"]["replicas"], 0);
        rig.get(&scale.replace("/a/", "/missing/")).await.expect(404);
        rig.put(&scale.replace("/a/", "/missing/"), &json!({"metadata": {"name": "missing"}}))
            .await
            .expect(404);
    }
}

#[tokio::test]
async fn scale_is_served_as_table_and_protobuf() {
    let rig = Rig::new().await;
    for (kind, _, scale) in kinds() {
        rig.post(&collection(kind), sample(kind, "a")).await.expect(201);
        let table =
            rig.get_as(&scale, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200).json();
        assert_eq!(table["rows"][0]["cells"][0], "a", "{table}");
        let bytes = rig.get_as(&scale, "application/vnd.kubernetes.protobuf").await.expect(200).bytes;
        assert!(bytes.starts_with(b"k8s\0"));
        let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
        rig.send("PUT", &scale, &headers, Body::from(bytes)).await.expect(200);
    }
}

#[tokio::test]
async fn object_and_scale_share_field_ownership() {
    for (kind, item, scale) in kinds() {
        let rig = Rig::new().await;
        let names = kind.names();
        let mut config = sample(kind, "a");
        config["kind"] = names.kind.into();
        config["apiVersion"] = names.api_version().into();
        config["spec"]["replicas"] = 2.into();
        apply(&rig, &item, "owner", config.clone()).await.expect(201);
        rig.patch(&format!("{scale}?fieldManager=scaler"), "merge", json!({"spec": {"replicas": 5}}))
            .await
            .expect(200);

        let refused = apply(&rig, &item, "owner", config.clone()).await.expect(409).json();
        let scaler =
            format!("conflict with \"scaler\" with subresource \"scale\" using {}", names.api_version());
        assert_eq!(refused["details"]["causes"][0]["message"], scaler, "{item}");

        // A Scale is applied like any object; a forced apply takes the field from the owners in the object.
        let body = |replicas: i64| json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, "spec": {"replicas": replicas}});
        let refused = apply(&rig, &scale, "third", body(7)).await.expect(409).json();
        let scaler = "conflict with \"scaler\" with subresource \"scale\" using autoscaling/v1";
        assert_eq!(refused["details"]["causes"][0]["message"], scaler, "{item}");
        let forced = format!("{scale}?fieldManager=third&force=true");
        let headers = [("content-type", "application/apply-patch+yaml")];
        rig.send("PATCH", &forced, &headers, Body::from(body(7).to_string())).await.expect(200);
        let object = rig.get(&item).await.expect(200).json();
        let owners: Vec<String> = object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some())
            .map(|entry| {
                format!(
                    "{} {} {}",
                    text(entry, "/manager"),
                    text(entry, "/operation"),
                    text(entry, "/apiVersion")
                )
            })
            .collect();
        assert_eq!(owners, [format!("third Apply {}", names.api_version())], "{item}");

        let mut less = config;
        less["spec"].as_object_mut().unwrap().remove("replicas");
        let kept = apply(&rig, &item, "owner", less).await.expect(200).json();
        assert_eq!(
            kept["spec"]["replicas"], 7,
            "{item}: giving up a field that another manager owns changes nothing"
        );
    }
}
