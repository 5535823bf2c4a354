//! The lifecycles of volumes, claims and classes, and their binding (upstream:
//! test/e2e/storage/persistent_volumes.go, pvc_storageclass.go and storageclass.go).

use serde_json::{Value, json};

use super::{labelled, name, names, plane, server, strategic};
use crate::harness::http::Http;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn volume(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"e2e-pv-pool": "pv-lifecycle"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": class,
            "hostPath": {"path": "/tmp/e2e"}, "persistentVolumeReclaimPolicy": "Retain",
        },
    })
}

fn claim(name: &str, class: Option<&str>) -> Value {
    let mut claim = json!({
        "metadata": {"name": name, "labels": {"e2e-pv-pool": "pv-lifecycle"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}

async fn bound(http: &Http, name: &str) -> Value {
    http.until(&format!("{CLAIMS}/{name}"), "bound", |claim| claim["status"]["phase"] == "Bound").await
}

/// persistent_volumes.go: "should run through the lifecycle of a PV and a PVC". Objects are deleted once the
/// controllers have removed their protection, which upstream's test waits for.
#[tokio::test]
async fn volume_and_claim_pass_their_lifecycles() {
    let (_plane, http) = plane().await;
    // Classes without a provisioner: the volume and the claim are not bound to each other.
    for (all, body) in [(VOLUMES, volume("one", "pv-class")), (CLAIMS, claim("one", Some("pvc-class")))] {
        let made = http.create(all, &body).await;
        let path = format!("{all}/one");
        let selected = labelled(all, "e2e-pv-pool=pv-lifecycle");
        assert_eq!(names(&http.get(&selected).await.expect(200)), ["one"], "{all}");
        let patched =
            strategic(&http, &path, &json!({"metadata": {"labels": {"one": "patched"}}})).await.expect(200);
        assert_eq!(patched["metadata"]["labels"]["one"], "patched");
        let got = http.get(&path).await.expect(200);
        assert_eq!(got["metadata"]["uid"], made["metadata"]["uid"]);
        http.delete(&path).await.expect(200);
        http.until_gone(&path).await;
        // A second object of the same name has another uid.
        let second = http.create(all, &body).await;
        assert_ne!(second["metadata"]["uid"], made["metadata"]["uid"]);
        let updated = crate::harness::wait::until("an update without a conflict", async || {
            let mut update = http.get(&path).await.expect(200);
            update["metadata"]["labels"]["one"] = "updated".into();
            let answer = http.put(&path, &update).await;
            if answer.code == 200 { Ok(answer.json()) } else { Err(answer.text()) }
        })
        .await;
        assert_eq!(updated["metadata"]["labels"]["one"], "updated");
        let selected = labelled(all, "one=updated");
        assert_eq!(names(&http.get(&selected).await.expect(200)), ["one"]);
        http.delete(&selected).await.expect(200);
        http.until(&selected, "none is left", |list| names(list).is_empty()).await;
    }
}

/// persistent_volumes.go: "should apply changes to a pv/pvc status"
#[tokio::test]
async fn status_of_volume_and_claim_can_be_changed() {
    let (_plane, http) = server().await;
    http.create(VOLUMES, &volume("one", "")).await;
    http.create(CLAIMS, &claim("one", Some(""))).await;
    let status = format!("{CLAIMS}/one/status");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "E2E", "message": "m"});
    let read = http.get(&status).await.expect(200);
    assert_eq!(read["status"], json!({"phase": "Pending"}));
    let patch = json!({"metadata": {"annotations": {"e2e": "patched"}}, "status": {"conditions": [condition("StatusPatched")]}});
    let mut patched = http.patch(&status, &patch).await.expect(200);
    assert_eq!(patched["status"]["conditions"][0]["type"], "StatusPatched");
    patched["status"]["conditions"] = json!([condition("StatusUpdated")]);
    let updated = http.put(&status, &patched).await.expect(200);
    assert_eq!(updated["status"]["conditions"][0]["type"], "StatusUpdated");

    let status = format!("{VOLUMES}/one/status");
    let read = http.get(&status).await.expect(200);
    assert_eq!(read["status"]["phase"], "Pending", "{read}");
    let patch = json!({"status": {"message": "StatusPatched", "reason": "E2E patchStatus"}});
    let mut patched = http.patch(&status, &patch).await.expect(200);
    assert_eq!(patched["status"]["message"], "StatusPatched");
    patched["status"]["message"] = "StatusUpdated".into();
    patched["spec"]["capacity"]["storage"] = "9Gi".into();
    let updated = http.put(&status, &patched).await.expect(200);
    assert_eq!(updated["status"]["message"], "StatusUpdated");
    assert_eq!(updated["spec"]["capacity"]["storage"], "1Gi", "the spec is not written here");
}

/// persistent_volumes.go: "should create a non-pre-bound PV and PVC: test write access", the two pre-bound
/// orders and "should create 2 PVs and 4 PVCs", as far as binding goes
#[tokio::test]
async fn claims_bind_to_matching_volumes_only() {
    let (_plane, http) = plane().await;
    let check = async |claim: &str, wanted: Option<&str>| {
        let bound = bound(&http, claim).await;
        let found = bound["spec"]["volumeName"].as_str().unwrap().to_owned();
        assert!(wanted.is_none_or(|wanted| wanted == found), "{bound}");
        let volume = http
            .until(&format!("{VOLUMES}/{found}"), "bound", |volume| volume["status"]["phase"] == "Bound")
            .await;
        assert_eq!(volume["spec"]["claimRef"]["name"], claim);
        assert_eq!(volume["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
        found
    };
    // Neither refers to the other; created in both orders.
    http.create(VOLUMES, &volume("v1", "plain")).await;
    http.create(CLAIMS, &claim("c1", Some("plain"))).await;
    check("c1", Some("v1")).await;
    http.create(CLAIMS, &claim("c2", Some("late"))).await;
    http.create(VOLUMES, &volume("v2", "late")).await;
    check("c2", Some("v2")).await;
    // The claim names its volume, although another one matches.
    http.create(VOLUMES, &volume("v3", "named")).await;
    http.create(VOLUMES, &volume("v4", "named")).await;
    let mut named = claim("c3", Some("named"));
    named["spec"]["volumeName"] = "v4".into();
    http.create(CLAIMS, &named).await;
    check("c3", Some("v4")).await;
    // The volume names its claim; another claim has to wait.
    let mut reserved = volume("v5", "reserved");
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "c5"});
    http.create(VOLUMES, &reserved).await;
    http.create(CLAIMS, &claim("c4", Some("reserved"))).await;
    http.create(CLAIMS, &claim("c5", Some("reserved"))).await;
    check("c5", Some("v5")).await;
    assert_eq!(http.get(&format!("{CLAIMS}/c4")).await.expect(200)["status"]["phase"], "Pending");
    // Two volumes for four claims: two claims are bound, each to one volume.
    for n in 1..=2 {
        http.create(VOLUMES, &volume(&format!("few{n}"), "few")).await;
    }
    for n in 1..=4 {
        http.create(CLAIMS, &claim(&format!("many{n}"), Some("few"))).await;
    }
    let list = http
        .until(CLAIMS, "two of the many are bound", |list| {
            let items = list["items"].as_array().unwrap();
            items
                .iter()
                .filter(|claim| name(claim).starts_with("many") && claim["status"]["phase"] == "Bound")
                .count()
                == 2
        })
        .await;
    let mut taken: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|claim| name(claim).starts_with("many"))
        .filter_map(|claim| claim["spec"]["volumeName"].as_str())
        .collect();
    taken.sort_unstable();
    assert_eq!(taken, ["few1", "few2"]);
}

/// pvc_storageclass.go: "should assign default SC to PVCs that have no SC set"
#[tokio::test]
async fn later_default_class_is_assigned_to_claims() {
    let (_plane, http) = plane().await;
    http.create(CLAIMS, &claim("retro", None)).await;
    let path = format!("{CLAIMS}/retro");
    assert!(http.get(&path).await.expect(200)["spec"].get("storageClassName").is_none());
    let class = http
        .create(
            CLASSES,
            &json!({
                "metadata": {
                    "generateName": "retro", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "fake-1",
            }),
        )
        .await;
    let class = name(&class);
    http.until(&path, "the class is the default one", |claim| claim["spec"]["storageClassName"] == class)
        .await;
    http.create(VOLUMES, &volume("late", class)).await;
    assert_eq!(bound(&http, "retro").await["spec"]["storageClassName"], class);
}
