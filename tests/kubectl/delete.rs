//! `kubectl delete`: waiting, cascading, and selection.

use serde_json::json;

use super::{CLAIM, MYCLAIM, PV3, bound};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn delete_waits_until_the_object_is_gone() {
    let (plane, kubectl) = bound().await;
    let http = plane.http();
    let mut delete = kubectl.start("delete", &["delete", "pv", "pv3"]);
    http.until(PV3, "Terminating", |volume| volume["metadata"]["deletionTimestamp"].is_string()).await;
    delete.says(|said| said.contains("persistentvolume \"pv3\" deleted")).await;
    assert!(delete.runs(), "it waits for the claim: {}", delete.said());
    let out = kubectl.run(&["get", "pv", "pv3", "--no-headers"]).await.ok();
    assert!(out.contains(" Terminating "), "{out}");
    kubectl.run(&["delete", "pvc", "-n", "test", "--all"]).await.ok();
    delete.ok().await;
    assert_eq!(http.get(PV3).await.code, 404);
    // Deleting a namespace deletes its objects.
    kubectl.apply(CLAIM).await;
    kubectl.run(&["create", "configmap", "-n", "test", "c", "--from-literal=a=b"]).await.ok();
    let said = kubectl.run(&["delete", "ns", "test"]).await.ok();
    assert!(said.contains("namespace \"test\" deleted"), "{said}");
    assert_eq!(http.get("/api/v1/namespaces/test").await.code, 404);
    assert_eq!(http.get(MYCLAIM).await.code, 404);
    let said = kubectl.run(&["delete", "pv", "pv3"]).await.refused();
    assert_eq!(said, "Error from server (NotFound): persistentvolumes \"pv3\" not found\n");
    kubectl.run(&["delete", "pv", "pv3", "--ignore-not-found"]).await.ok();
}

/// Creates `owner`, and `child`, which it owns.
async fn family(http: &Http) {
    let owner = http.create(MAPS, &json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "blockOwnerDeletion": true,
        "uid": owner["metadata"]["uid"]});
    let child = json!({"metadata": {"name": "child", "ownerReferences": [reference]}});
    http.create(MAPS, &child).await;
}

#[tokio::test]
async fn delete_cascades_as_requested() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    if !kubectl.can("kubectl delete --cascade with a name", 20).await {
        return;
    }
    let (owner, child) = (format!("{MAPS}/owner"), format!("{MAPS}/child"));
    family(&http).await;
    kubectl.run(&["delete", "cm", "owner", "--cascade=background"]).await.ok();
    http.until_gone(&child).await;

    family(&http).await;
    kubectl.run(&["delete", "cm", "owner", "--cascade=foreground"]).await.ok();
    assert_eq!(http.get(&child).await.code, 404, "children go before their owner");
    assert_eq!(http.get(&owner).await.code, 404);

    family(&http).await;
    kubectl.run(&["delete", "cm", "owner", "--cascade=orphan"]).await.ok();
    let child = http.get(&child).await.expect(200);
    assert!(child["metadata"]["ownerReferences"].is_null(), "{child:#}");
}

#[tokio::test]
async fn delete_removes_selected_objects_only() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    for (name, kind) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "y")] {
        http.create(MAPS, &json!({"metadata": {"name": name, "labels": {"kind": kind}}})).await;
    }
    let steps: [(&[&str], &str); 6] = [
        (&["cm", "-l", "kind=x", "--dry-run=server"], "a b c d e"),
        (&["cm", "-l", "kind=x"], "c d e"),
        (&["cm", "--field-selector", "metadata.name=c"], "d e"),
        (&["cm/d", "--now"], "e"),
        (&["--raw", "/api/v1/namespaces/default/configmaps/e"], ""),
        (&["cm", "--all"], ""),
    ];
    for (args, left) in steps {
        kubectl.run(&[&["delete"], args].concat()).await.ok();
        let out = kubectl.run(&["get", "cm", "-o", "jsonpath={.items[*].metadata.name}"]).await.ok();
        assert_eq!(out, left, "after {args:?}");
    }
    // A pod on a node is removed only when the node reports its end, or immediately by force.
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    http.create("/api/v1/namespaces/default/pods", &pod).await;
    kubectl.run(&["delete", "pod", "p", "--wait=false"]).await.ok();
    let pod = http.get("/api/v1/namespaces/default/pods/p").await.expect(200);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    kubectl.run(&["delete", "pod", "p", "--force", "--grace-period=0"]).await.ok();
    assert_eq!(http.get("/api/v1/namespaces/default/pods/p").await.code, 404);
}
