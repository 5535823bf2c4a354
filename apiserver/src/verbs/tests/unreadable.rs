//! Objects whose stored form cannot be read, for example because the key of their encryption is not configured.

use std::sync::Arc;

use bytes::Bytes;
use orlop_store::embedded::{Embedded, Options};
use orlop_store::{Decoded, Key, Kv, TransformError, Transformer};
use serde_json::json;

use super::rig::Rig;
use crate::projection::Projection;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MESSAGE: &str = "Internal error occurred: unable to transform key \"/registry/secrets/default/a\": no matching prefix found";

/// Stores the bytes of Secrets in reverse order, after a prefix with the number of the key.
struct Reversing {
    key: u8,
    /// Whether it also reads values of other keys.
    reads_all: bool,
}

impl Transformer for Reversing {
    fn encode(&self, key: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError> {
        let reversed = || [b'%', self.key].into_iter().chain(value.iter().rev().copied()).collect();
        Ok((key.topic() == "/registry/secrets/").then(reversed))
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
    let transformer: Arc<dyn Transformer> = Arc::new(Reversing { key, reads_all });
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
    assert_eq!(rig.watch(&format!("{SECRETS}?watch=1")).await.short().await, "ERROR 500");
    rig.post(SECRETS, body.clone()).await.expect(409);
    // Others are not affected.
    rig.get(&format!("{SECRETS}?fieldSelector=metadata.name%3Db")).await.expect(200);
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
