//! Verbs on a server: each is one commit that includes an Event and is guarded by everything that was read.

use std::sync::Arc;

use axum::body::Body;
use http_body_util::BodyExt as _;
use orlop_store::memory::Memory;
use orlop_store::{Kv, Revision};
use tower::ServiceExt as _;

use super::*;
use crate::insight::plan::{PlanUser, carry_out, make, perform};
use crate::server::{Config, Server};
use crate::state::Inner;
use orlop_api::status::ApiError;

pub(super) struct Rig {
    server: Server,
    pub(super) inner: Arc<Inner>,
    pub(super) store: Arc<dyn Kv<Projection>>,
}

impl Rig {
    pub(super) async fn new() -> Self {
        let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
        let server = Server::start(store.clone(), Config::default()).await.unwrap();
        let inner = server.inner();
        Rig { server, inner, store }
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.extension(orlop_auth::UserInfo::admin());
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.server.service().oneshot(request).await.unwrap();
        let ok = response.status().is_success();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(ok, "{method} {path}: {answer}");
        answer
    }

    /// Creates an object and sets its status.
    pub(super) async fn put(&self, path: &str, object: Value) -> Value {
        let mut made = self.send("POST", path, &object).await;
        if object.get("status").is_some() {
            made["status"] = object["status"].clone();
            let name = made["metadata"]["name"].as_str().unwrap().to_owned();
            made = self.send("PUT", &format!("{path}/{name}/status"), &made).await;
        }
        made
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null).await
    }

    /// Creates a claim `a/c` bound to the volume `v`.
    async fn bound(&self) -> (Value, Value) {
        for name in ["a", "b"] {
            self.put("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        }
        let status =
            json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        let claim =
            merged(claim("a", "c", "", "Bound", "v"), &json!({"metadata": {"uid": null}, "status": status}));
        let claim = self.put(CLAIMS_A, claim).await;
        let reference = points("a", "c", claim["metadata"]["uid"].as_str().unwrap());
        let volume = self.put(VOLUMES, volume("v", "Bound", reference, json!({}))).await;
        (claim, volume)
    }

    pub(super) async fn verb(
        &self,
        verb: &str,
        target: &ObjectTarget,
        options: Value,
        dry: bool,
    ) -> Result<Value, ApiError> {
        let user = orlop_auth::UserInfo::new("jane", Vec::new());
        let by = PlanUser { user: &user, with_related: true };
        perform(&self.inner, by, target, verb, options, dry).await
    }

    async fn impact(&self, target: &ObjectTarget) -> Result<Value, ApiError> {
        super::super::impact(&self.inner, &orlop_auth::UserInfo::admin(), target, true).await
    }

    pub(super) fn head(&self) -> Revision {
        self.store.head().revision()
    }
}

pub(super) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(super) const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS_A: &str = "/api/v1/namespaces/a/persistentvolumeclaims";
const CLAIMS_B: &str = "/api/v1/namespaces/b/persistentvolumeclaims";

fn the_claim() -> ObjectTarget {
    target("persistentvolumeclaims", "a", "c")
}

#[tokio::test]
async fn a_transfer_is_one_commit_with_its_event() {
    let rig = Rig::new().await;
    rig.bound().await;
    let before = rig.head();
    let options = json!({"namespace": "b"});
    let seen = rig.verb("transfer", &the_claim(), options.clone(), true).await.unwrap();
    assert_eq!(rig.head(), before, "a dry run writes nothing");
    assert_eq!(seen["revision"], before.to_string());
    let actions: Vec<&str> =
        seen["steps"].as_array().unwrap().iter().map(|s| s["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["update", "create", "delete"]);

    let held = merged(options, &json!({"revision": seen["revision"]}));
    let done = rig.verb("transfer", &the_claim(), held, false).await.unwrap();
    assert_eq!(rig.head().0, before.0 + 4, "volume, claim there, claim here, event");
    assert_eq!(done["committed"], rig.head().to_string());
    let claim = rig.get(&format!("{CLAIMS_B}/c")).await;
    let volume = rig.get(&format!("{VOLUMES}/v")).await;
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["status"]["capacity"], json!({"storage": "1Gi"}));
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(rig.get(CLAIMS_A).await["items"], json!([]));
    let events = rig.get("/apis/events.k8s.io/v1/namespaces/a/events").await;
    let event = &events["items"][0];
    assert_eq!((&event["reason"], &event["action"]), (&json!("Transferred"), &json!("transfer")));
    assert!(
        event["note"].as_str().unwrap().starts_with("a/c becomes b/c with its volume v by jane"),
        "{event}"
    );
}

#[tokio::test]
async fn changed_volume_invalidates_a_seen_plan() {
    let rig = Rig::new().await;
    let (_, volume) = rig.bound().await;
    let seen = rig.head().to_string();
    let changed = merged(volume, &json!({"metadata": {"labels": {"x": "y"}}}));
    rig.send("PUT", &format!("{VOLUMES}/v"), &changed).await;
    let options = json!({"namespace": "b", "revision": seen});
    let before = rig.head();
    let error = rig.verb("transfer", &the_claim(), options, false).await.unwrap_err();
    assert_eq!(error.code, 409, "{error}");
    assert!(error.message.contains("persistentvolumes/v has changed since revision"), "{error}");
    assert_eq!(rig.head(), before);
}

#[tokio::test]
async fn pod_created_after_planning_is_a_conflict() {
    let rig = Rig::new().await;
    rig.bound().await;
    let snapshot = rig.store.head();
    let known = PlanContext { uid: "0-1-2".to_owned(), ..PlanContext::default() };
    let options = PlanOptions::parse(json!({"namespace": "b"})).unwrap();
    let (plan, read) =
        make(&snapshot, &the_claim(), "transfer", &options, &known, Stop::default()).unwrap().unwrap();
    let user = orlop_auth::UserInfo::new("jane", Vec::new());
    let ready = carry_out::prepare(&rig.inner, &user, &the_claim(), &snapshot, &plan, &read).unwrap();
    rig.put(
        "/api/v1/namespaces/a/pods",
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        }),
    )
    .await;
    let before = rig.head();
    rig.store.commit_if(ready.guards, ready.writes).await.unwrap_err();
    assert_eq!(rig.head(), before, "nothing is done");
    let error = rig.verb("transfer", &the_claim(), json!({"namespace": "b"}), false).await.unwrap_err();
    assert!(error.message.contains("used by pods of a: p"), "{error}");
}

#[tokio::test]
async fn transfer_is_charged_to_the_quota() {
    let rig = Rig::new().await;
    rig.bound().await;
    let hard = json!({"persistentvolumeclaims": "1"});
    let quota = |used: &str| json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"persistentvolumeclaims": used}}});
    let path = "/api/v1/namespaces/b/resourcequotas";
    let made = rig.put(path, quota("1")).await;
    let error = rig.verb("transfer", &the_claim(), json!({"namespace": "b"}), true).await.unwrap_err();
    assert_eq!(error.code, 403, "{error}");
    let freed = merged(
        made,
        &json!({"metadata": {"resourceVersion": null}, "status": {"used": {"persistentvolumeclaims": "0"}}}),
    );
    rig.send("PUT", &format!("{path}/q/status"), &freed).await;
    rig.verb("transfer", &the_claim(), json!({"namespace": "b"}), false).await.unwrap();
    let charged = rig.get(&format!("{path}/q")).await;
    assert_eq!(charged["status"]["used"]["persistentvolumeclaims"], "1", "charged in the same commit");
}

#[tokio::test]
async fn deleted_volume_returns_to_its_lost_claim() {
    for (verb, aim) in [("undelete", target("persistentvolumes", "", "v")), ("recover", the_claim())] {
        let rig = Rig::new().await;
        let (claim, volume) = rig.bound().await;
        let free = merged(volume, &json!({"metadata": {"finalizers": null, "resourceVersion": null}}));
        rig.send("PUT", &format!("{VOLUMES}/v"), &free).await;
        rig.send("DELETE", &format!("{VOLUMES}/v"), &json!({})).await;
        let lost = merged(
            claim.clone(),
            &json!({"metadata": {"resourceVersion": null}, "status": {"phase": "Lost"}}),
        );
        rig.send("PUT", &format!("{CLAIMS_A}/c/status"), &lost).await;
        rig.verb(verb, &aim, json!({}), false).await.unwrap();
        let back = rig.get(&format!("{VOLUMES}/v")).await;
        assert_eq!(back["spec"]["csi"]["volumeHandle"], "handle-v", "{verb}");
        assert_eq!(back["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{verb}");
        assert_eq!(back["spec"]["claimRef"]["uid"], claim["metadata"]["uid"], "{verb}");
        assert_eq!(back["status"]["phase"], "Bound", "{verb}");
        let error = rig.verb(verb, &aim, json!({}), false).await.unwrap_err();
        assert_eq!(error.code, 409, "{verb}: a second time: {error}");
    }
}

#[tokio::test]
async fn attachment_keeps_its_finalizer_until_forced() {
    let rig = Rig::new().await;
    rig.bound().await;
    let path = ATTACHMENTS;
    rig.put(path, merged(attachment("va", "v", "n1", json!({})), &json!({"status": null}))).await;
    let aim = target("volumeattachments", "", "va");
    // The absence of objects that mention the driver does not prove that it is gone.
    let done = rig.verb("release", &aim, json!({}), false).await.unwrap();
    assert_eq!(done["steps"][0]["action"], "delete");
    assert!(done["warnings"][0].as_str().unwrap().contains("registered nowhere"), "{done}");
    let held = rig.get(&format!("{path}/va")).await;
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "its driver has to let it go: {held}");
    assert_eq!(held["metadata"]["finalizers"], json!(["external-attacher/d-example-com"]));
    for (verb, options, words) in [
        ("release", json!({}), "can force it"),
        ("unblock", json!({"force": "data may be corrupted"}), "release asks"),
    ] {
        let error = rig.verb(verb, &aim, options, false).await.unwrap_err();
        assert_eq!(error.code, 409, "{verb}: {error}");
        assert!(error.message.contains(words), "{verb}: {error}");
    }
    rig.verb("release", &aim, json!({"force": "data may be corrupted"}), false).await.unwrap();
    assert_eq!(rig.get(path).await["items"], json!([]));
}

#[tokio::test]
async fn undelete_restores_the_state_at_a_revision() {
    let rig = Rig::new().await;
    rig.put("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
    let maps = "/api/v1/namespaces/a/configmaps";
    let one = rig.put(maps, json!({"metadata": {"name": "m"}, "data": {"n": "1"}})).await;
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let two = rig.send("PUT", &format!("{maps}/m"), &merged(one.clone(), &json!({"data": {"n": "2"}}))).await;
    rig.send("DELETE", &format!("{maps}/m"), &json!({})).await;
    let gone = rig.head().to_string();
    rig.put(maps, json!({"metadata": {"name": "other"}})).await;
    let later = rig.head().to_string();
    let aim = target("configmaps", "a", "m");
    for (at, want) in [
        (None, Ok("2")),
        (Some(revision(&one)), Ok("1")),
        (Some(revision(&two)), Ok("2")),
        // The object did not exist at this revision, so neither of its states applies.
        (Some(gone.clone()), Err("no such object at revision")),
        (Some(later), Err("no such object at revision")),
    ] {
        let options = at.as_ref().map_or(json!({}), |at| json!({"at": at}));
        let outcome = rig.verb("undelete", &aim, options, true).await;
        match (outcome, want) {
            (Ok(plan), Ok(n)) => {
                let changes = plan["steps"][0]["changes"].as_array().unwrap();
                let data = changes.iter().find(|change| change["path"] == json!(["data"])).unwrap();
                assert_eq!(data["to"]["n"], n, "{at:?}");
            }
            (Err(error), Err(words)) => {
                assert_eq!(error.code, 409, "{at:?}: {error}");
                assert!(error.message.contains(words), "{at:?}: {error}");
            }
            (outcome, _) => panic!("{at:?}: {outcome:?}"),
        }
    }
    rig.verb("undelete", &aim, json!({"at": revision(&one)}), false).await.unwrap();
    assert_eq!(rig.get(&format!("{maps}/m")).await["data"]["n"], "1");
}

#[tokio::test]
async fn names_that_are_no_dns_names_get_events() {
    let rig = Rig::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for name in ["system:my-reader", "Editor"] {
        rig.put(roles, json!({"metadata": {"name": name}, "rules": []})).await;
        rig.send("DELETE", &format!("{roles}/{name}"), &json!({})).await;
        let kind = KindRef::Builtin(kind("rbac.authorization.k8s.io", "clusterroles"));
        let aim = ObjectTarget { kind, namespace: None, name: name.to_owned() };
        rig.verb("undelete", &aim, json!({}), false).await.unwrap();
        rig.get(&format!("{roles}/{name}")).await;
        let events = rig.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
        let of_it = |event: &&Value| event["regarding"]["name"] == name;
        let event = events["items"].as_array().unwrap().iter().find(of_it).unwrap();
        assert!(event["metadata"]["name"].as_str().unwrap().starts_with("undelete."), "{event}");
    }
}

#[tokio::test]
async fn reclaimed_volume_becomes_available() {
    let rig = Rig::new().await;
    let reference = points("a", "gone", "u");
    rig.put(VOLUMES, volume("v", "Released", reference, json!({}))).await;
    let aim = target("persistentvolumes", "", "v");
    rig.verb("reclaim", &aim, json!({"keepData": true, "for": {"namespace": "a", "name": "next"}}), false)
        .await
        .unwrap();
    let volume = rig.get(&format!("{VOLUMES}/v")).await;
    assert_eq!(volume["status"]["phase"], "Available");
    assert_eq!(volume["spec"]["claimRef"], points("a", "next", ""));
    let events = rig.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
    assert_eq!(events["items"][0]["regarding"]["name"], "v");
}

#[tokio::test]
async fn impact_reports_lost_data_and_protected_namespaces() {
    let rig = Rig::new().await;
    let (_, volume) = rig.bound().await;
    let kept = rig.impact(&the_claim()).await.unwrap();
    assert_eq!(kept["steps"].as_array().unwrap().len(), 2, "{kept}");
    let deletes = merged(volume, &json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}));
    rig.send("PUT", &format!("{VOLUMES}/v"), &deletes).await;
    let before = rig.head();
    for name in ["default", "kube-system", "kube-public"] {
        let refused = rig.impact(&target("namespaces", "", name)).await.unwrap();
        assert_eq!(refused["steps"], json!([]), "{refused}");
        let summary = refused["summary"].as_str().unwrap();
        assert!(summary.starts_with(&format!("namespace {name} stays")), "{summary}");
        assert!(summary.ends_with("this namespace may not be deleted"), "{summary}");
    }
    for aim in [the_claim(), target("namespaces", "", "a")] {
        let lost = rig.impact(&aim).await.unwrap();
        assert!(lost["summary"].as_str().unwrap().contains("the data of v is deleted"), "{lost}");
    }
    assert_eq!(rig.head(), before);
}
