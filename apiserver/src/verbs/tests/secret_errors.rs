//! Errors of patches of Secrets: they contain no value of the Secret, because clients and the audit log record them.

use serde_json::json;

use super::rig::Rig;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = "/api/v1/namespaces/default/secrets/a";
const VALUE: &str = "c2VjcmV0LXZhbHVl";

async fn rig() -> Rig {
    let rig = Rig::new().await;
    rig.post(SECRETS, json!({"metadata": {"name": "a"}, "data": {"k": VALUE}})).await.expect(201);
    rig
}

#[tokio::test]
async fn error_of_a_patch_that_copies_a_value_does_not_contain_it() {
    let rig = rig().await;
    for path in [
        "/metadata/creationTimestamp",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/resourceVersion",
        "/metadata/uid",
        "/metadata/deletionTimestamp",
        "/metadata/labels",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/metadata/generation",
        "/type",
        "/kind",
        "/apiVersion",
        "/immutable",
        "/data",
    ] {
        for op in ["copy", "move"] {
            let body = json!([{"op": op, "from": "/data/k", "path": path}]);
            let answer = rig.patch(SECRET, "json", body).await;
            if answer.code >= 400 {
                let shown = format!("{:?} {}", answer.headers, answer.text());
                assert!(!shown.contains(VALUE) && !shown.contains("secret-value"), "{op} {path}: {shown}");
                assert!(answer.text().contains("the reason is not shown"), "{op} {path}: {shown}");
            }
        }
    }
    // The values of labels, finalizers and owners are checked as well.
    for value in [
        json!([{"op": "add", "path": "/metadata/labels", "value": {}}, {"op": "copy", "from": "/data/k", "path": "/metadata/labels/~0"}]),
        json!([{"op": "add", "path": "/metadata/finalizers", "value": []}, {"op": "copy", "from": "/data/k", "path": "/metadata/finalizers/0"}]),
    ] {
        let answer = rig.patch(SECRET, "json", value.clone()).await;
        assert!(answer.code >= 400 && !answer.text().contains(VALUE), "{value}: {}", answer.text());
    }
}

#[tokio::test]
async fn other_errors_keep_their_reasons() {
    let rig = rig().await;
    let renamed = json!([{"op": "move", "from": "/data/k", "path": "/data/l"}]);
    assert_eq!(rig.patch(SECRET, "json", renamed).await.expect(200).json()["data"]["l"], VALUE);
    let copied = json!([{"op": "copy", "from": "/data/l", "path": "/data/m"}]);
    let missing = rig.patch("/api/v1/namespaces/default/secrets/b", "json", copied).await.expect(404).json();
    assert_eq!(missing["message"], "secrets \"b\" not found");
    let typed = rig.patch(SECRET, "json", json!([{"op": "replace", "path": "/type", "value": "t"}])).await;
    assert!(typed.expect(422).text().contains("type: Invalid value: \\\"t\\\": field is immutable"));
}
