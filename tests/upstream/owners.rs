//! The garbage collector (upstream: test/e2e/apimachinery/garbage_collector.go). Upstream's owners are
//! ReplicationControllers and Deployments; the collector treats all owners alike, so here
//! config maps own pods and each other.

use serde_json::{Value, json};

use super::{MAPS, PODS, delete_with, names, plane, pod};
use crate::harness::http::Http;

async fn owner(http: &Http, name: &str) -> Value {
    http.create(MAPS, &json!({"metadata": {"name": name}})).await
}

fn reference(owner: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
    })
}

async fn owned(http: &Http, name: &str, owners: &[Value]) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["ownerReferences"] = Value::from(owners.to_vec());
    http.create(PODS, &pod).await
}

/// Deletes this owner, and no other of the same name.
async fn delete(http: &Http, owner: &Value, policy: &str) -> Value {
    let path = format!("{MAPS}/{}", owner["metadata"]["name"].as_str().unwrap());
    let options = json!({"propagationPolicy": policy, "preconditions": {"uid": owner["metadata"]["uid"]}});
    delete_with(http, &path, &options).await.expect(200)
}

/// "should delete pods created by rc when not orphaning" and "should keep the rc around until all its pods
/// are deleted if the deleteOptions says so"
#[tokio::test]
async fn dependents_are_deleted_with_their_owner() {
    let (_plane, http) = plane().await;
    for policy in ["Background", "Foreground"] {
        let one = owner(&http, "simpletest").await;
        for n in 0..5 {
            owned(&http, &format!("p{n}"), &[reference(&one, true)]).await;
        }
        let answered = delete(&http, &one, policy).await;
        if policy == "Foreground" {
            assert_eq!(answered["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{answered}");
            assert!(answered["metadata"]["deletionTimestamp"].is_string());
        }
        http.until(PODS, "the pods are gone", |list| names(list).is_empty()).await;
        http.until_gone(&format!("{MAPS}/simpletest")).await;
    }
}

/// "should keep the rc around until all its pods are deleted": a dependent with a finalizer blocks the deletion
/// of its owner
#[tokio::test]
async fn owner_waits_for_blocking_dependents() {
    let (_plane, http) = plane().await;
    let one = owner(&http, "waits").await;
    let mut held = pod("held");
    held["metadata"]["ownerReferences"] = json!([reference(&one, true)]);
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    http.create(PODS, &held).await;
    owned(&http, "free", &[reference(&one, true)]).await;
    delete(&http, &one, "Foreground").await;
    http.until(PODS, "one is left", |list| names(list) == ["held"]).await;
    let path = format!("{PODS}/held");
    http.until(&path, "it is to go", |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    http.get(&format!("{MAPS}/waits")).await.expect(200);
    http.patch(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    http.until_gone(&path).await;
    http.until_gone(&format!("{MAPS}/waits")).await;
}

/// "should orphan pods created by rc if delete options say so" and "should orphan RS created by deployment
/// when deleteOptions.PropagationPolicy is Orphan"
#[tokio::test]
async fn orphaned_dependents_remain() {
    let (_plane, http) = plane().await;
    let one = owner(&http, "orphans").await;
    for n in 0..10 {
        owned(&http, &format!("p{n}"), &[reference(&one, false)]).await;
    }
    delete(&http, &one, "Orphan").await;
    http.until_gone(&format!("{MAPS}/orphans")).await;
    let pods = http.get(PODS).await.expect(200);
    let items = pods["items"].as_array().unwrap();
    assert_eq!(items.len(), 10);
    for pod in items {
        assert!(pod["metadata"].get("ownerReferences").is_none(), "{pod}");
        assert!(pod["metadata"].get("deletionTimestamp").is_none(), "{pod}");
    }
}

/// "should not delete dependents that have both valid owner and owner that's waiting for dependents to be
/// deleted"
#[tokio::test]
async fn dependent_with_another_owner_remains() {
    let (_plane, http) = plane().await;
    let goes = owner(&http, "to-be-deleted").await;
    let stays = owner(&http, "to-stay").await;
    for n in 0..4 {
        owned(&http, &format!("own{n}"), &[reference(&goes, true)]).await;
        owned(&http, &format!("shared{n}"), &[reference(&goes, true), reference(&stays, false)]).await;
    }
    delete(&http, &goes, "Foreground").await;
    http.until_gone(&format!("{MAPS}/to-be-deleted")).await;
    let pods = http.until(PODS, "the shared ones are left", |list| names(list).len() == 4).await;
    for pod in pods["items"].as_array().unwrap() {
        assert_eq!(pod["metadata"]["ownerReferences"], json!([reference(&stays, false)]), "{pod}");
        assert!(pod["metadata"].get("deletionTimestamp").is_none(), "{pod}");
    }
}

/// "should not be blocked by dependency circle"
#[tokio::test]
async fn circle_of_owners_is_deleted() {
    let (_plane, http) = plane().await;
    let mut circle = Vec::new();
    for name in ["pod1", "pod2", "pod3"] {
        circle.push(http.create(PODS, &pod(name)).await);
    }
    for (at, name) in ["pod1", "pod2", "pod3"].iter().enumerate() {
        let next = &circle[(at + 2) % 3]["metadata"];
        let reference = json!({
            "apiVersion": "v1", "kind": "Pod", "name": next["name"], "uid": next["uid"], "controller": true,
            "blockOwnerDeletion": true,
        });
        let patch = json!({"metadata": {"ownerReferences": [reference]}});
        http.patch(&format!("{PODS}/{name}"), &patch).await.expect(200);
    }
    delete_with(&http, &format!("{PODS}/pod1"), &json!({"propagationPolicy": "Foreground"}))
        .await
        .expect(200);
    http.until(PODS, "the circle is gone", |list| names(list).is_empty()).await;
}

/// "should support cascading deletion of custom resources", with built-in kinds: a chain, and an owner
/// that does not exist
#[tokio::test]
async fn chains_and_absent_owners_are_collected() {
    let (_plane, http) = plane().await;
    let first = owner(&http, "first").await;
    let second = http
        .create(MAPS, &json!({"metadata": {"name": "second", "ownerReferences": [reference(&first, false)]}}))
        .await;
    owned(&http, "third", &[reference(&second, false)]).await;
    let unknown = json!({"metadata": {"name": "unknown", "uid": "d9607e19-f88f-11e6-a518-42010a800195"}});
    owned(&http, "absent", &[reference(&unknown, false)]).await;
    http.until_gone(&format!("{PODS}/absent")).await;
    delete(&http, &first, "Background").await;
    http.until_gone(&format!("{MAPS}/second")).await;
    http.until_gone(&format!("{PODS}/third")).await;
}
