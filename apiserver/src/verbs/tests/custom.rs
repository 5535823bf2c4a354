//! Custom kinds come and go while requests are under way.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use serde_json::{Value, json};

use super::rig::Rig;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}

/// Waits until a GET has this code.
async fn until(rig: &Rig, target: &str, code: u16) {
    let asks = async {
        while rig.get(target).await.code != code {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asks).await.expect(target);
}

#[tokio::test]
async fn nothing_is_left_by_who_comes_behind_the_end_of_a_kind() {
    let rig = Rig::new().await;
    rig.post(DEFINITIONS, definition()).await.expect(201);
    until(&rig, WIDGETS, 200).await;

    let (body, chunks) = futures::channel::mpsc::unbounded();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "late"}});
    let late = rig.send("POST", WIDGETS, &[], Body::from_stream(chunks));
    let end = async {
        // The request is under way and waits for its body.
        tokio::task::yield_now().await;
        let named = format!("{DEFINITIONS}/widgets.example.com");
        rig.delete(&named, Value::Null).await.expect(200);
        until(&rig, &named, 404).await;
        until(&rig, WIDGETS, 404).await;
        body.unbounded_send(Ok::<_, Infallible>(Bytes::from(widget.to_string()))).unwrap();
        drop(body);
    };
    let (answer, ()) = futures::join!(late, end);
    answer.expect(404);
    let left = rig.store.head().range("/registry/example.com/widgets/", None).count();
    assert_eq!(left, 0, "nobody would ever remove it");
}
