//! An object that cannot be read exists: nothing that depends on it may conclude that it is missing.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::Rig;
use super::unreadable::open_for;

/// Writes objects in a store that encrypts a topic, and returns a server that cannot decrypt them.
async fn without_key(dir: &std::path::Path, topic: &str, write: impl AsyncFnOnce(&Rig)) -> Rig {
    let first = Rig::on(open_for(dir, 1, &[topic])).await;
    write(&first).await;
    first.store.close().await;
    drop(first);
    Rig::on(open_for(dir, 2, &[topic])).await
}

fn message(key: &str) -> String {
    format!("Internal error occurred: unable to transform key \"{key}\": no matching prefix found")
}

#[tokio::test]
async fn flow_schema_of_an_unreadable_priority_level_is_not_dangling() {
    let dir = tempfile::tempdir().unwrap();
    let rig = without_key(dir.path(), "/registry/prioritylevelconfigurations/", async |_: &Rig| {}).await;
    let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
    rig.get(&format!("{group}/prioritylevelconfigurations/global-default")).await.expect(500);
    let schema = rig.get(&format!("{group}/flowschemas/global-default")).await.expect(200).json();
    let conditions = schema["status"]["conditions"].as_array().unwrap();
    let dangling = conditions.iter().find(|condition| condition["type"] == "Dangling").unwrap();
    assert_eq!(dangling["status"], "False", "{dangling}");
    rig.store.close().await;
}

#[tokio::test]
async fn api_service_of_an_unreadable_definition_is_retained() {
    let dir = tempfile::tempdir().unwrap();
    let topic = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions,
        },
    });
    let rig = without_key(dir.path(), topic, async |first: &Rig| {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        first.post(definitions, definition).await.expect(201);
        let written = async {
            while first.get(service).await.code != 200 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), written).await.expect("it is written");
    })
    .await;
    rig.get(service).await.expect(200);
    rig.store.close().await;
}

#[tokio::test]
async fn requests_about_an_unreadable_secret_do_not_report_that_it_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = "/api/v1/namespaces/default";
    let rig = without_key(dir.path(), "/registry/secrets/", async |first: &Rig| {
        first.post(&format!("{namespace}/secrets"), json!({"metadata": {"name": "a"}})).await.expect(201);
        let account = json!({"metadata": {"name": "s"}});
        first.post(&format!("{namespace}/serviceaccounts"), account).await.expect(201);
    })
    .await;
    let want = message("/registry/secrets/default/a");
    let token = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "a"}},
    });
    let answers: [(&str, Value); 2] = [
        ("token", rig.post(&format!("{namespace}/serviceaccounts/s/token"), token).await.expect(500).json()),
        (
            "impact",
            rig.get("/apis/orlop.dev/v1/namespaces/default/secrets/a/impact").await.expect(500).json(),
        ),
    ];
    for (case, answer) in answers {
        assert_eq!(answer["message"], want, "{case}");
    }
    rig.store.close().await;
}
