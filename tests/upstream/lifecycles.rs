//! Every verb of every kind of the storage group, one after the other
//! (upstream: test/e2e/storage/csistoragecapacity.go, csi_inline.go, csi_node.go, storageclass.go,
//! volume_attachment.go, volumeattributesclass.go, and test/e2e/common/storage/volumes of ConfigMaps and Secrets
//! as far as the API goes).

use serde_json::{Value, json};

use super::{apply, labelled, name, names, plane, server, strategic, version};
use crate::harness::http::Http;

/// A kind's collection, and one object of it.
struct Life {
    collection: &'static str,
    body: Value,
}

fn lives() -> Vec<Life> {
    let life = |collection, body| Life { collection, body };
    vec![
        life(
            "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
            json!({"storageClassName": "e2e.example.com"}),
        ),
        life(
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"spec": {"volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "ReadWriteOnceWithFSType"}}),
        ),
        life("/apis/storage.k8s.io/v1/csinodes", json!({"spec": {"drivers": []}})),
        life("/apis/storage.k8s.io/v1/storageclasses", json!({"provisioner": "e2e-fake-provisioner"})),
        life(
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"spec": {
                "attacher": "e2e-test.storage.k8s.io", "nodeName": "n", "source": {"persistentVolumeName": "pv"},
            }, "status": {"attached": false}}),
        ),
        life(
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"driverName": "e2e-fake-csi-driver", "parameters": {"foo": "bar"}}),
        ),
        life("/api/v1/namespaces/default/configmaps", json!({"data": {"a": "b"}})),
        life("/api/v1/namespaces/default/secrets", json!({"stringData": {"a": "b"}})),
        life("/api/v1/namespaces/default/serviceaccounts", json!({})),
        life(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"spec": {"holderIdentity": "h"}}),
        ),
        life(
            "/api/v1/namespaces/default/events",
            json!({"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "message": "m"}),
        ),
        life(
            "/api/v1/namespaces/default/pods",
            // Ignored by the scheduler, whose status update of the pod would be an extra change.
            json!({"spec": {"schedulerName": "other", "containers": [{"name": "c", "image": "i"}]}}),
        ),
    ]
}

impl Life {
    fn named(&self, name: &str) -> Value {
        let mut body = self.body.clone();
        body["metadata"] = json!({"name": name, "labels": {"e2e": "life"}});
        body
    }
}

/// The lifecycles of each of the files named above: create, create again, get, list, watch, patch, update,
/// apply, delete, and delete the rest as a collection.
#[tokio::test]
async fn every_kind_passes_its_lifecycle() {
    // With controllers, because one of the kinds is protected until a controller removes its finalizer.
    let (_plane, http) = plane().await;
    for life in lives() {
        live(&http, &life).await;
    }
}

async fn live(http: &Http, life: &Life) {
    let all = life.collection;
    let item = |name: &str| format!("{all}/{name}");
    let selected = labelled(all, "e2e=life");
    let begin = http.get(all).await.expect(200);
    let made = http.create(all, &life.named("one")).await;
    assert_eq!(http.post(all, &life.named("one")).await.expect(409)["reason"], "AlreadyExists", "{all}");
    http.create(all, &life.named("two")).await;
    let mut watch = http.watch(&format!("{selected}&watch=true&resourceVersion={}", version(&begin))).await;
    http.create(all, &life.named("three")).await;

    let got = http.get(&item("one")).await.expect(200);
    assert_eq!(got["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(http.get(&selected).await.expect(200)["items"].as_array().unwrap().len(), 3, "{all}");

    let patched = http
        .patch(&item("one"), &json!({"metadata": {"annotations": {"patched": "true"}}}))
        .await
        .expect(200);
    assert_eq!(patched["metadata"]["annotations"]["patched"], "true", "{all}");
    let labels = json!({"metadata": {"labels": {"strategic": "patched"}}});
    strategic(http, &item("one"), &labels).await.expect(200);
    assert_eq!(names(&http.get(&labelled(all, "strategic=patched")).await.expect(200)), ["one"], "{all}");
    let mut update = http.get(&item("one")).await.expect(200);
    let stale = version(&patched).to_owned();
    update["metadata"]["annotations"]["updated"] = "true".into();
    let updated = http.put(&item("one"), &update).await.expect(200);
    assert_eq!(updated["metadata"]["annotations"], json!({"patched": "true", "updated": "true"}), "{all}");
    update["metadata"]["resourceVersion"] = stale.into();
    assert_eq!(http.put(&item("one"), &update).await.expect(409)["reason"], "Conflict", "{all}");
    let mut config = json!({"metadata": {"labels": {"applied": "yes"}}});
    for member in ["kind", "apiVersion"] {
        config[member] = made[member].clone();
    }
    let applied = apply(http, &item("one"), "applier", &config).await.expect(200);
    assert_eq!(applied["metadata"]["labels"]["applied"], "yes", "{all}");

    for (kind, object) in [("ADDED", "one"), ("ADDED", "two"), ("ADDED", "three"), ("MODIFIED", "one")] {
        let event = watch.next().await.expect("the watch continues");
        assert_eq!((&event["type"], name(&event["object"])), (&json!(kind), object), "{all}");
    }

    http.delete(&item("one")).await.expect(200);
    http.until_gone(&item("one")).await;
    assert_eq!(names(&http.get(&selected).await.expect(200)), ["three", "two"], "{all}");
    http.delete(&labelled(all, "e2e=nothing")).await.expect(200);
    assert_eq!(names(&http.get(&selected).await.expect(200)), ["three", "two"], "{all}");
    let gone = http.delete(&selected).await.expect(200);
    assert_eq!(names(&gone), ["three", "two"], "{all}");
    http.until(&selected, "none is left", |list| names(list).is_empty()).await;
}

/// volume_attachment.go: "should apply changes to a volumeattachment status"
#[tokio::test]
async fn attachment_status_can_be_applied() {
    let (_plane, http) = server().await;
    let all = "/apis/storage.k8s.io/v1/volumeattachments";
    let spec = json!({"attacher": "e2e-test.storage.k8s.io", "nodeName": "n", "source": {"persistentVolumeName": "pv"}});
    // A uid set by the client is ignored.
    let body = json!({"metadata": {"name": "va", "uid": "va"}, "spec": spec, "status": {"attached": false}});
    let made = http.create(all, &body).await;
    assert_ne!(made["metadata"]["uid"], "va");
    let item = format!("{all}/va");
    let status = format!("{item}/status");
    http.patch(&item, &json!({"metadata": {"labels": {"va": "patched"}}})).await.expect(200);
    assert_eq!(http.get(&status).await.expect(200)["status"]["attached"], false);
    let patched = http.patch(&status, &json!({"status": {"attached": true}})).await.expect(200);
    assert_eq!(patched["status"]["attached"], true);
    let mut update = http.get(&item).await.expect(200);
    update["status"]["attached"] = false.into();
    assert_eq!(http.put(&status, &update).await.expect(200)["status"]["attached"], false);
    http.delete(&item).await.expect(200);
    assert_eq!(names(&http.get(&labelled(all, "va=patched")).await.expect(200)), [""; 0]);
}

/// volumeattributesclass.go: names are generated from `generateName`, one after the other
#[tokio::test]
async fn generate_name_creates_unique_names() {
    let (_plane, http) = server().await;
    let all = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let body = json!({
        "kind": "VolumeAttributesClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"generateName": "e2e-"},
        "driverName": "e2e-fake-csi-driver", "parameters": {"foo": "bar"},
    });
    let first = http.create(all, &body).await;
    let second = http.create(all, &body).await;
    for object in [&first, &second] {
        assert!(name(object).starts_with("e2e-") && name(object).len() > 4, "{object}");
    }
    assert_ne!(name(&first), name(&second));
    // The parameters of a class are immutable.
    let path = format!("{all}/{}", name(&first));
    let refused = http.patch(&path, &json!({"parameters": {"foo": "other"}})).await.expect(422);
    assert_eq!(refused["reason"], "Invalid");
}

/// storageclass.go and csi_inline.go: a driver with two modes, and a pod with inline volumes of it
#[tokio::test]
async fn pod_with_inline_volumes_is_accepted() {
    let (_plane, http) = server().await;
    let pods = "/api/v1/namespaces/default/pods";
    let volume = |name: &str, more: Value| {
        let mut csi = json!({"driver": "e2e.example.com"});
        for (member, value) in more.as_object().unwrap() {
            csi[member] = value.clone();
        }
        json!({"name": name, "csi": csi})
    };
    let body = json!({
        "metadata": {"name": "pod-csi-inline-volumes"},
        "spec": {
            "volumes": [volume("vol1", json!({})), volume("vol2", json!({"fsType": "ext4", "readOnly": true}))],
            "containers": [{"name": "c", "image": "i", "volumeMounts": [
                {"name": "vol1", "mountPath": "/mnt/vol1"}, {"name": "vol2", "mountPath": "/mnt/vol2"},
            ]}],
        },
    });
    let made = http.create(pods, &body).await;
    http.post(pods, &body).await.expect(409);
    let path = format!("{pods}/pod-csi-inline-volumes");
    assert_eq!(http.get(&path).await.expect(200)["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(names(&http.get(pods).await.expect(200)), ["pod-csi-inline-volumes"]);
    let patched =
        http.patch(&path, &json!({"metadata": {"annotations": {"patched": "true"}}})).await.expect(200);
    assert_eq!(patched["metadata"]["annotations"]["patched"], "true");
    assert_eq!(
        patched["spec"]["volumes"][1]["csi"],
        json!({"driver": "e2e.example.com", "fsType": "ext4", "readOnly": true})
    );
    http.delete(&path).await.expect(200);
    http.get(&path).await.expect(404);
}
