//! Tests for plans that were seen: a verb commits the plan of the revision in the request, or reports a conflict.

use super::served::{ATTACHMENTS, Rig, VOLUMES};
use super::*;
use crate::insight::plan::model::FORCE_WORDS;
use crate::insight::plan::{carry_out, make};

const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const NODES: &str = "/api/v1/nodes";

fn the_attachment() -> ObjectTarget {
    target("volumeattachments", "", "va")
}

impl Rig {
    async fn attached(&self) {
        self.put(ATTACHMENTS, merged(attachment("va", "v", "n1", json!({})), &json!({"status": null}))).await;
    }

    async fn driver(&self) {
        self.put(DRIVERS, json!({"metadata": {"name": "d.example.com"}, "spec": {}})).await;
    }
}

#[tokio::test]
async fn deleted_driver_invalidates_a_seen_plan() {
    let rig = Rig::new().await;
    rig.attached().await;
    rig.driver().await;
    let forced = json!({"force": FORCE_WORDS});
    let seen = rig.verb("release", &the_attachment(), forced.clone(), true).await.unwrap();
    assert!(seen["steps"][0]["message"].as_str().unwrap().starts_with("deleted when the driver"), "{seen}");
    rig.send("DELETE", &format!("{DRIVERS}/d.example.com"), &json!({})).await;
    let before = rig.head();
    let held = merged(forced.clone(), &json!({"revision": seen["revision"]}));
    let error = rig.verb("release", &the_attachment(), held, false).await.unwrap_err();
    assert_eq!(error.code, 409, "{error}");
    assert!(error.message.contains("csidrivers/d.example.com has changed since revision"), "{error}");
    assert_eq!(rig.head(), before);
    // The new plan differs; after it is seen, it is committed.
    let seen = rig.verb("release", &the_attachment(), forced.clone(), true).await.unwrap();
    let held = merged(forced, &json!({"revision": seen["revision"]}));
    rig.verb("release", &the_attachment(), held, false).await.unwrap();
    assert_eq!(rig.get(ATTACHMENTS).await["items"], json!([]));
    let events = rig.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
    assert_eq!(events["items"][0]["reason"], "ReleaseForced", "what was forced is recorded: {events}");
}

#[tokio::test]
async fn new_node_invalidates_a_seen_plan() {
    let rig = Rig::new().await;
    rig.attached().await;
    let seen = rig.verb("release", &the_attachment(), json!({}), true).await.unwrap();
    rig.put(NODES, json!({"metadata": {"name": "n1"}})).await;
    let held = json!({"revision": seen["revision"]});
    let error = rig.verb("release", &the_attachment(), held, false).await.unwrap_err();
    assert!(error.message.contains("may still write"), "{error}");
    // The reverse case: the verb is possible now, but was not at the revision that was seen.
    let there = rig.head().to_string();
    rig.send("DELETE", &format!("{NODES}/n1"), &json!({})).await;
    let held = json!({"revision": there});
    let error = rig.verb("release", &the_attachment(), held, false).await.unwrap_err();
    assert!(error.message.contains("has changed since revision"), "{error}");
}

#[tokio::test]
async fn unrelated_change_keeps_a_seen_plan_valid() {
    let rig = Rig::new().await;
    rig.attached().await;
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let node = rig.put(NODES, json!({"metadata": {"name": "n1"}, "spec": {"taints": [taint]}})).await;
    let seen = rig.verb("release", &the_attachment(), json!({}), true).await.unwrap();
    let labelled = merged(node, &json!({"metadata": {"labels": {"x": "y"}}}));
    rig.send("PUT", &format!("{NODES}/n1"), &labelled).await;
    let held = json!({"revision": seen["revision"]});
    rig.verb("release", &the_attachment(), held, false).await.unwrap();
}

#[tokio::test]
async fn mount_after_planning_is_a_conflict() {
    let rig = Rig::new().await;
    let node = rig.put(NODES, json!({"metadata": {"name": "n1"}})).await;
    rig.put(VOLUMES, volume("v", "Released", points("a", "gone", "u"), json!({}))).await;
    let aim = target("persistentvolumes", "", "v");
    let snapshot = rig.store.head();
    let options = PlanOptions::parse(json!({"keepData": true})).unwrap();
    let (plan, read) = make(&snapshot, &aim, "reclaim", &options, &PlanContext::default(), Stop::default())
        .unwrap()
        .unwrap();
    let user = orlop_auth::UserInfo::new("jane", Vec::new());
    let ready = carry_out::prepare(&rig.inner, &user, &aim, &snapshot, &plan, &read).unwrap();
    let mounted = json!({"status": {"volumesInUse": ["kubernetes.io/csi/d.example.com^handle-v"]}});
    rig.send("PUT", &format!("{NODES}/n1/status"), &merged(node, &mounted)).await;
    rig.store.commit_if(ready.guards, ready.writes).await.unwrap_err();
    let error = rig.verb("reclaim", &aim, json!({"keepData": true}), false).await.unwrap_err();
    assert!(error.message.contains("in use by node n1"), "{error}");
}
