//! VolumeSnapshots, their contents and classes: built into every server; and the effect of installing definitions
//! with the same names.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SNAPSHOTS: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
const CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
const GROUPS: &str = "/apis/groupsnapshot.storage.k8s.io/v1";

async fn server() -> (Plane, Http) {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    (plane, http)
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let mut object =
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn snapshot(name: &str, spec: Value) -> Value {
    object("VolumeSnapshot", name, json!({ "spec": spec }))
}

fn content(name: &str, change: Value) -> Value {
    let mut spec = json!({
        "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "v"}, "sourceVolumeMode": "Block",
        "volumeSnapshotRef": {"name": "s", "namespace": "default"},
    });
    merge(&mut spec, &change);
    object("VolumeSnapshotContent", name, json!({ "spec": spec }))
}

/// A merge patch: members of the change replace those of the value; a null removes one.
fn merge(value: &mut Value, change: &Value) {
    let (Value::Object(members), Value::Object(changes)) = (&mut *value, change) else {
        *value = change.clone();
        return;
    };
    for (name, change) in changes {
        match change {
            Value::Null => drop(members.remove(name)),
            _ => merge(members.entry(name.clone()).or_insert(json!({})), change),
        }
    }
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn invalid_snapshot_objects_are_rejected() {
    let (_plane, http) = server().await;
    let claim = json!({"source": {"persistentVolumeClaimName": "c"}});
    let one = "spec.source: Invalid value: exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set";
    let class = |change: Value| {
        let mut class =
            object("VolumeSnapshotClass", "k", json!({"driver": "d", "deletionPolicy": "Delete"}));
        merge(&mut class, &change);
        class
    };
    for (case, path, object, want) in [
        ("1 of nothing", SNAPSHOTS, snapshot("s", json!({"source": {}})), one),
        (
            "2 of two things",
            SNAPSHOTS,
            snapshot(
                "s",
                json!({"source": {"persistentVolumeClaimName": "c", "volumeSnapshotContentName": "x"}}),
            ),
            one,
        ),
        ("3 no source", SNAPSHOTS, snapshot("s", json!({})), "spec.source: Required value"),
        ("4 no spec", SNAPSHOTS, object("VolumeSnapshot", "s", json!({})), "spec: Required value"),
        (
            "5 an empty class",
            SNAPSHOTS,
            snapshot(
                "s",
                json!({"source": {"persistentVolumeClaimName": "c"}, "volumeSnapshotClassName": ""}),
            ),
            "spec.volumeSnapshotClassName: Invalid value: \"\": volumeSnapshotClassName must not be the empty string when set",
        ),
        (
            "6 no handle",
            CONTENTS,
            content("x", json!({"source": {"volumeHandle": null}})),
            "spec.source: Invalid value: exactly one of volumeHandle and snapshotHandle must be set",
        ),
        (
            "7 no namespace",
            CONTENTS,
            content("x", json!({"volumeSnapshotRef": {"namespace": null}})),
            "spec.volumeSnapshotRef: Invalid value: both spec.volumeSnapshotRef.name and \
             spec.volumeSnapshotRef.namespace must be set",
        ),
        (
            "8 policy",
            CONTENTS,
            content("x", json!({"deletionPolicy": "Recycle"})),
            "spec.deletionPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
        ),
        ("9 driver", CLASSES, class(json!({"driver": null})), "driver: Required value"),
        (
            "10 parameters",
            CLASSES,
            class(json!({"parameters": {"a": 1}})),
            "parameters.a: Invalid value: \"integer\": parameters.a in body must be of type string: \"integer\"",
        ),
    ] {
        let answer = http.post(path, &object).await;
        assert_eq!(answer.code, 422, "{case}: {}", answer.text());
        assert!(message(&answer).contains(want), "{case}: {}", message(&answer));
        let kind = object["kind"].as_str().unwrap();
        assert!(message(&answer).starts_with(&format!("{kind}.snapshot.storage.k8s.io ")), "{case}");
    }

    http.create(SNAPSHOTS, &snapshot("s", claim)).await;
    http.create(CONTENTS, &content("x", json!({}))).await;
    let (s, x) = (format!("{SNAPSHOTS}/s"), format!("{CONTENTS}/x"));
    for (case, path, spec, want) in [
        (
            "1 another claim",
            &s,
            json!({"source": {"persistentVolumeClaimName": "d"}}),
            "persistentVolumeClaimName is immutable",
        ),
        (
            "2 no claim",
            &s,
            json!({"source": {"persistentVolumeClaimName": null, "volumeSnapshotContentName": "x"}}),
            "persistentVolumeClaimName is required once set",
        ),
        ("3 another volume", &x, json!({"source": {"volumeHandle": "w"}}), "volumeHandle is immutable"),
        (
            "4 no volume",
            &x,
            json!({"source": {"volumeHandle": null, "snapshotHandle": "h"}}),
            "volumeHandle is required once set",
        ),
        ("5 another mode", &x, json!({"sourceVolumeMode": "Filesystem"}), "sourceVolumeMode is immutable"),
        ("6 no mode", &x, json!({"sourceVolumeMode": null}), "sourceVolumeMode is required once set"),
    ] {
        let answer = http.patch(path, &json!({ "spec": spec })).await;
        assert_eq!(answer.code, 422, "{case}: {}", answer.text());
        assert!(message(&answer).contains(want), "{case}: {}", message(&answer));
    }
    let changed = json!({"spec": {"deletionPolicy": "Retain", "volumeSnapshotRef": {"uid": "u"}}});
    let changed = http.patch(&x, &changed).await.expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    // The status has its own subresource and its own schema.
    let status = http.patch(&format!("{x}/status"), &json!({"status": {"restoreSize": -1}})).await;
    assert!(
        message(&status).contains(
            "status.restoreSize: Invalid value: -1: restoreSize in body should be greater than or equal to 0"
        ),
        "{}",
        message(&status)
    );
    let status = http.patch(&format!("{s}/status"), &json!({"status": {"restoreSize": "1Gx"}})).await;
    assert_eq!(status.code, 422, "{}", status.text());
    let unchanged = http.patch(&s, &json!({"status": {"readyToUse": true}})).await.expect(200);
    assert_eq!(unchanged.get("status"), None);
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let answer = http.send(Method::POST, SNAPSHOTS, &headers, b"k8s\0".to_vec()).await;
    assert_eq!(answer.code, 415, "{}", answer.text());
}

#[tokio::test]
async fn kubectl_finds_snapshots_in_a_fresh_server() {
    let (plane, http) = server().await;
    let kubectl = plane.kubectl();
    assert_eq!(kubectl.run(&["get", "crd", "-o", "name"]).await.ok(), "");
    let class = "
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: fast}
driver: d.example.com
deletionPolicy: Delete
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: first, namespace: default}
spec: {volumeSnapshotClassName: fast, source: {persistentVolumeClaimName: claim}}
---
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshotClass
metadata: {name: fast}
driver: d.example.com
deletionPolicy: Delete
---
apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: all, namespace: default}
spec: {volumeGroupSnapshotClassName: fast, source: {selector: {matchLabels: {app: one}}}}
---
apiVersion: groupsnapshot.storage.k8s.io/v1beta2
kind: VolumeGroupSnapshotContent
metadata: {name: c}
spec:
  deletionPolicy: Delete
  driver: d.example.com
  source: {volumeHandles: [v]}
  volumeGroupSnapshotClassName: fast
  volumeGroupSnapshotRef: {name: all, namespace: default}
";
    kubectl.apply(class).await;
    assert!(kubectl.apply(class).await.contains("unchanged"));
    http.create(CONTENTS, &content("c", json!({}))).await;
    let status = json!({"status": {
        "readyToUse": true, "restoreSize": "5Gi", "boundVolumeSnapshotContentName": "c",
        "creationTime": "2000-01-02T03:04:05Z"}});
    http.patch(&format!("{SNAPSHOTS}/first/status"), &status).await.expect(200);
    let status = json!({"status": {"readyToUse": true, "restoreSize": 1024, "creationTime": 1}});
    http.patch(&format!("{CONTENTS}/c/status"), &status).await.expect(200);
    let status = json!({"status": {"readyToUse": true, "creationTime": "2000-01-02T03:04:05Z"}});
    http.patch(&format!("{GROUPS}/volumegroupsnapshotcontents/c/status"), &status).await.expect(200);
    let status = json!({"status": {
        "readyToUse": true, "creationTime": "2000-01-02T03:04:05Z", "boundVolumeGroupSnapshotContentName": "c"}});
    let path = format!("{GROUPS}/namespaces/default/volumegroupsnapshots/all/status");
    http.patch(&path, &status).await.expect(200);
    for (what, heads, cells) in [
        (
            "vs",
            "NAME READYTOUSE SOURCEPVC SOURCESNAPSHOTCONTENT RESTORESIZE SNAPSHOTCLASS SNAPSHOTCONTENT CREATIONTIME AGE",
            "first true claim 5Gi fast c ",
        ),
        (
            "vsc",
            "NAME READYTOUSE RESTORESIZE DELETIONPOLICY DRIVER VOLUMESNAPSHOTCLASS VOLUMESNAPSHOT \
             VOLUMESNAPSHOTNAMESPACE AGE",
            "c true 1024 Delete d s default ",
        ),
        ("vsclasses", "NAME DRIVER DELETIONPOLICY AGE", "fast d.example.com Delete "),
        (
            "vgs",
            "NAME READYTOUSE VOLUMEGROUPSNAPSHOTCLASS VOLUMEGROUPSNAPSHOTCONTENT CREATIONTIME AGE",
            "all true fast c ",
        ),
        (
            "vgsc",
            "NAME READYTOUSE DELETIONPOLICY DRIVER VOLUMEGROUPSNAPSHOTCLASS VOLUMEGROUPSNAPSHOTNAMESPACE \
             VOLUMEGROUPSNAPSHOT AGE",
            "c true Delete d.example.com fast default all ",
        ),
        ("vgsclasses", "NAME DRIVER DELETIONPOLICY AGE", "fast d.example.com Delete "),
    ] {
        let table = kubectl.run(&["get", what]).await.ok();
        let lines: Vec<String> =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], heads, "{what}");
        assert!(lines[1].starts_with(cells), "{what}: {}", lines[1]);
    }
    let explained = kubectl.run(&["explain", "vs.spec.source.persistentVolumeClaimName"]).await.ok();
    assert!(explained.contains("Name of a claim in the snapshot's namespace."), "{explained}");
    let described = kubectl.run(&["describe", "vs", "first"]).await.ok();
    assert!(described.contains("Persistent Volume Claim Name:  claim"), "{described}");
    let explained = kubectl.run(&["explain", "vgs.spec.source.selector"]).await.ok();
    assert!(explained.contains("Selects claims in the namespace of the group snapshot"), "{explained}");
    kubectl.run(&["delete", "vs,vsclass,vgs,vgsc,vgsclass", "--all"]).await.ok();
    http.until_gone(&format!("{SNAPSHOTS}/first")).await;
}

#[tokio::test]
async fn definitions_of_built_in_names_are_stored_without_effect() {
    let (mut plane, http) = server().await;
    let kept =
        http.create(SNAPSHOTS, &snapshot("s", json!({"source": {"persistentVolumeClaimName": "c"}}))).await;
    // Like the one from upstream's installer, but older.
    let definition = |plural: &str, kind: &str, short: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.snapshot.storage.k8s.io"),
                "annotations": {"api-approved.kubernetes.io": "https://example.com/1"}},
            "spec": {
                "group": "snapshot.storage.k8s.io", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind, "shortNames": [short]},
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
    };
    let own = definition("volumesnapshots", "VolumeSnapshot", "vs");
    http.create(DEFINITIONS, &own).await;
    let path = format!("{DEFINITIONS}/volumesnapshots.snapshot.storage.k8s.io");
    let is = |object: &Value, ty: &str, status: &str| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == ty && condition["status"] == status)
    };
    let taken = http.until(&path, "Established", |object| is(object, "Established", "True")).await;
    assert!(is(&taken, "NamesAccepted", "True"), "{taken}");
    assert_eq!(taken["status"]["storedVersions"], json!(["v1beta1"]));
    // The built-in names are not available to other kinds of the group.
    http.create(DEFINITIONS, &definition("others", "Other", "vs")).await;
    let other = format!("{DEFINITIONS}/others.snapshot.storage.k8s.io");
    http.until(&other, "refused", |object| is(object, "NamesAccepted", "False")).await;
    // A definition with other names is served next to the built-in kinds.
    http.create(DEFINITIONS, &definition("thirds", "Third", "th")).await;
    let third = format!("{DEFINITIONS}/thirds.snapshot.storage.k8s.io");
    http.until(&third, "Established", |object| is(object, "Established", "True")).await;
    let group = http.get("/apis/snapshot.storage.k8s.io").await.expect(200);
    let versions: Vec<&Value> = group["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);

    let serves = async |http: &Http| {
        let object = http.get(&format!("{SNAPSHOTS}/s")).await.expect(200);
        assert_eq!(object, kept);
        let refused = http.post(SNAPSHOTS, &snapshot("t", json!({"source": {}}))).await;
        assert_eq!(refused.code, 422, "{}", refused.text());
        let older = SNAPSHOTS.replace("/v1/", "/v1beta1/");
        assert_eq!(http.get(&older).await.code, 404);
    };
    serves(&http).await;
    plane.kill_and_restart().await;
    let http = plane.http();
    serves(&http).await;
    // Only the definition is deleted.
    http.delete(&path).await.expect(200);
    http.until_gone(&path).await;
    serves(&http).await;
}
