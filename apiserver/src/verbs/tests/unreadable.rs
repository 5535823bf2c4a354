//! Objects whose stored form cannot be read, for example because the key of their encryption is not configured.

use std::sync::Arc;

use bytes::Bytes;
use orlop_store::embedded::{Embedded, Options};
use orlop_store::{Decoded, Key, Kv, TransformError, Transformer};
use serde_json::json;

use super::rig::Rig;
use crate::authorization::AuthorizationMode;
use crate::projection::Projection;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MESSAGE: &str = "Internal error occurred: unable to transform key \"/registry/secrets/default/a\": no matching prefix found";

/// Reverses the bytes of the records of some topics behind a prefix with the number of its key.
struct Reversing {
    key: u8,
    /// The topics; empty means all.
    topics: Vec<String>,
    /// Whether it reads the values of other keys.
    reads_all: bool,
}

impl Transformer for Reversing {
    fn encode(&self, key: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError> {
        let reversed = || [b'%', self.key].into_iter().chain(value.iter().rev().copied()).collect();
        let is_covered = self.topics.is_empty() || self.topics.iter().any(|topic| topic == key.topic());
        Ok(is_covered.then(reversed))
    }

    fn decode(&self, _key: &Key, stored: &Bytes) -> Result<Decoded, TransformError> {
        match &stored[..] {
            [b'%', key, rest @ ..] if *key == self.key || self.reads_all => {
                let value = Some(rest.iter().rev().copied().collect());
                Ok(Decoded { value, is_stale: *key != self.key })
            }
            [b'%', ..] => Err("no matching prefix found".into()),
            _ => Ok(Decoded { value: None, is_stale: false }),
        }
    }
}

fn open(dir: &std::path::Path, key: u8, reads_all: bool) -> Arc<dyn Kv<Projection>> {
    open_with(dir, Reversing { key, reads_all, topics: vec!["/registry/secrets/".to_owned()] })
}

/// Opens a store that encrypts the records of some topics (all if there are none) with a key, and reads no other key.
pub(super) fn open_for(dir: &std::path::Path, key: u8, topics: &[&str]) -> Arc<dyn Kv<Projection>> {
    let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
    open_with(dir, Reversing { key, reads_all: false, topics })
}

fn open_with(dir: &std::path::Path, reversing: Reversing) -> Arc<dyn Kv<Projection>> {
    let transformer: Arc<dyn Transformer> = Arc::new(reversing);
    let options = Options { ballast_bytes: Some(0), transformer: Some(transformer), ..Options::default() };
    Arc::new(Embedded::<Projection>::open(dir, options).unwrap())
}

async fn rig(dir: &std::path::Path, key: u8, reads_all: bool) -> Rig {
    Rig::on(open(dir, key, reads_all)).await
}

#[tokio::test]
async fn requests_for_unreadable_objects_fail_and_others_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let first = rig(dir.path(), 1, false).await;
    let body = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "dmFsdWU="}});
    first.post(SECRETS, body.clone()).await.expect(201);
    first.store.close().await;
    drop(first);

    let rig = rig(dir.path(), 2, false).await;
    let item = format!("{SECRETS}/a");
    let put = json!({"metadata": {"name": "a"}, "data": {"k": "bmV3"}});
    let apply = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    for (case, answer) in [
        ("get", rig.get(&item).await),
        ("list", rig.get(SECRETS).await),
        ("list of all namespaces", rig.get("/api/v1/secrets").await),
        ("list by label", rig.get(&format!("{SECRETS}?labelSelector=x%3Dz")).await),
        ("list by field", rig.get(&format!("{SECRETS}?fieldSelector=type%3DOpaque")).await),
        ("table", rig.get_as(SECRETS, "application/json;as=Table;v=v1;g=meta.k8s.io").await),
        ("update", rig.put(&item, &put).await),
        ("patch", rig.patch(&item, "merge", json!({"data": {"k": "bmV3"}})).await),
        ("apply", {
            let headers = [("content-type", "application/apply-patch+yaml")];
            rig.send("PATCH", &format!("{item}?fieldManager=m"), &headers, apply.to_string().into()).await
        }),
        ("delete", rig.delete(&item, json!({})).await),
        ("delete of the collection", rig.delete(SECRETS, json!({})).await),
    ] {
        let answer = answer.expect(500).json();
        assert_eq!(
            (answer["reason"].as_str(), answer["message"].as_str()),
            (Some("InternalError"), Some(MESSAGE)),
            "{case}"
        );
    }
    // The stream ends with the error: its client must not take the bookmark for a complete state.
    let mut initial = rig
        .watch(&format!(
            "{SECRETS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        ))
        .await;
    assert_eq!(initial.short().await, "ERROR 500");
    assert_eq!(initial.short().await, "end");
    rig.post(SECRETS, body.clone()).await.expect(409);
    // Others are not affected.
    rig.get(&format!("{SECRETS}?fieldSelector=metadata.name%3Db")).await.expect(200);
    rig.get("/api/v1/secrets?fieldSelector=metadata.name%3Db").await.expect(200);
    rig.get("/api/v1/secrets?fieldSelector=metadata.namespace%3Dother").await.expect(200);
    rig.post(SECRETS, json!({"metadata": {"name": "b"}})).await.expect(201);
    rig.get(&format!("{SECRETS}/b")).await.expect(200);
    rig.get(MAPS).await.expect(200);
    rig.store.close().await;
    drop(rig);

    let again = self::rig(dir.path(), 1, true).await;
    assert_eq!(again.get(&item).await.expect(200).json()["data"], body["data"]);
    again.store.close().await;
}

#[tokio::test]
async fn unchanged_update_rewrites_an_object_of_an_old_key() {
    let dir = tempfile::tempdir().unwrap();
    let first = rig(dir.path(), 1, true).await;
    let created = first.post(SECRETS, json!({"metadata": {"name": "a"}})).await.expect(201).json();
    let item = format!("{SECRETS}/a");
    let version = |object: &serde_json::Value| object["metadata"]["resourceVersion"].clone();
    // Secrets are written by their first update; from then on, an unchanged update writes nothing.
    let object = first.put(&item, &created).await.expect(200).json();
    assert_eq!(version(&first.put(&item, &object).await.expect(200).json()), version(&object));
    first.store.close().await;
    drop(first);

    let rig = rig(dir.path(), 2, true).await;
    let rewritten = rig.put(&item, &object).await.expect(200).json();
    assert_ne!(version(&rewritten), version(&object));
    assert_eq!(version(&rig.put(&item, &rewritten).await.expect(200).json()), version(&rewritten));
    let stored = rig.store.head().get("/registry/secrets/default/a").unwrap().stored_bytes().clone();
    assert_eq!(&stored[..2], b"%\x02");
    rig.store.close().await;
}

const IGNORE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

#[tokio::test]
async fn unreadable_object_is_deleted_on_request_only() {
    let dir = tempfile::tempdir().unwrap();
    let first = rig(dir.path(), 1, false).await;
    let body = |name: &str| json!({"metadata": {"name": name, "finalizers": ["example.com/f"]}});
    first.post(SECRETS, body("a")).await.expect(201);
    first.store.close().await;
    drop(first);

    let rig = rig(dir.path(), 2, false).await;
    let item = format!("{SECRETS}/a");
    let mut watch = rig.watch(&format!("{SECRETS}?watch=1&resourceVersion={}", rig.head())).await;
    for (field, value) in [
        ("dryRun", json!(["All"])),
        ("gracePeriodSeconds", json!(0)),
        ("propagationPolicy", json!("Background")),
        ("orphanDependents", json!(true)),
        ("preconditions", json!({"uid": "u"})),
    ] {
        let refused = rig.delete(&item, json!({IGNORE: true, field: value})).await.expect(422).json();
        let why = format!("{IGNORE}: Invalid value: true: cannot be set together with .{field}");
        assert_eq!(refused["details"]["causes"][0]["message"], why[IGNORE.len() + 2..], "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(&why), "{refused}");
    }
    rig.delete(SECRETS, json!({IGNORE: true})).await.expect(422);
    rig.delete(&item, json!({IGNORE: false})).await.expect(500);
    let deleted =
        rig.delete(&format!("{item}?{IGNORE}=true"), serde_json::Value::Null).await.expect(200).json();
    let want = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "Secret"}, "code": 200});
    assert_eq!(deleted, want);
    assert_eq!(watch.short().await, "ERROR 500");
    assert_eq!(watch.short().await, "end");
    rig.get(&item).await.expect(404);
    rig.get(SECRETS).await.expect(200);
    rig.delete(&item, json!({IGNORE: true})).await.expect(404);
    // Objects that can be read have to be deleted normally.
    rig.post(SECRETS, body("b")).await.expect(201);
    let refused = rig.delete(&format!("{SECRETS}/b"), json!({IGNORE: true})).await.expect(409).json();
    let why = "Operation cannot be fulfilled on secrets \"b\": StorageError: invalid object, Code: 4, Key: \
               /registry/secrets/default/b, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed \
               because the object is decodable from storage";
    assert_eq!(refused["message"], why);
    rig.store.close().await;
}

/// An unreadable Service keeps its addresses until it is deleted; another Service can then have them.
#[tokio::test]
async fn deleted_unreadable_service_releases_its_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let (topic, services) = ("/registry/services/", "/api/v1/namespaces/default/services");
    let first = Rig::on(open_for(dir.path(), 1, &[topic])).await;
    let spec =
        json!({"clusterIP": "10.0.0.50", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]});
    let body = |name: &str| json!({"metadata": {"name": name}, "spec": spec});
    first.post(services, body("a")).await.expect(201);
    first.store.close().await;
    drop(first);
    let rig = Rig::on(open_for(dir.path(), 2, &[topic])).await;
    rig.post(services, body("b")).await.expect(422);
    rig.delete(&format!("{services}/a"), json!({IGNORE: true})).await.expect(200);
    rig.post(services, body("b")).await.expect(201);
    rig.store.close().await;
}

#[tokio::test]
async fn deletion_of_unreadable_objects_needs_its_own_right() {
    let dir = tempfile::tempdir().unwrap();
    let first = rig(dir.path(), 1, false).await;
    first.post(SECRETS, json!({"metadata": {"name": "a"}})).await.expect(201);
    first.store.close().await;
    drop(first);

    let change = |config: &mut crate::server::Config| config.authorization = vec![AuthorizationMode::Rbac];
    let rig = Rig::on_with(open(dir.path(), 2, false), change).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["secrets"], "verbs": [verb]});
    let role = |rules: serde_json::Value| json!({"metadata": {"name": "r"}, "rules": rules});
    rig.post(&format!("{rbac}/roles"), role(json!([rule("delete")]))).await.expect(201);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "ann"}]});
    rig.post(&format!("{rbac}/rolebindings"), binding).await.expect(201);
    let item = format!("{SECRETS}/a");
    let delete = async || {
        let headers = [("impersonate-user", "ann"), ("content-type", "application/json")];
        rig.send("DELETE", &item, &headers, json!({IGNORE: true}).to_string().into()).await
    };
    let refused = delete().await.expect(403).json();
    let why =
        "secrets \"a\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: ";
    assert_eq!(refused["message"], why);
    let both = json!([rule("delete"), rule("unsafe-delete-ignore-read-errors")]);
    rig.put(&format!("{rbac}/roles/r"), &role(both)).await.expect(200);
    delete().await.expect(200);
    rig.store.close().await;
}
