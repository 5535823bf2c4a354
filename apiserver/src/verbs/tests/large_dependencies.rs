//! Requests that depend on a large object of another user: the thread of a connection, which also serves health checks and Leases, reads
//! no more of it than of a small one. Whatever has to decode the object runs on other threads.

use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::BodyExt as _;
use orlop_apimachinery::thread_time::ThreadTime;
use orlop_auth::UserInfo;
use orlop_auth::service_account::legacy::LegacyClaims;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::rig::Rig;

const CORE: &str = "/api/v1/namespaces/default";
const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const BOOTSTRAP_TOKEN: &str = "abcdef.0123456789abcdef";

/// A cluster whose objects have this many further values each.
struct Cluster {
    rig: Rig,
    pod_uid: String,
    pod_token: String,
    legacy_token: String,
}

enum Client {
    User(UserInfo),
    Token(String),
}

/// A request: its name, client, path, body and status code.
type Case = (&'static str, Client, String, Value, u16);

impl Cluster {
    async fn new(size: usize) -> Self {
        let rig = Rig::with(|config| {
            config.auth.bootstrap_tokens = true;
            config.enabled_admission_plugins = vec!["NodeRestriction".to_owned()];
        })
        .await;
        let annotations = |size: usize| {
            let pairs = (0..size / 4).map(|n| (format!("a{n}"), json!("")));
            Value::Object(pairs.collect())
        };
        let accounts = format!("{CORE}/serviceaccounts");
        // With the account `default`, the admission plugin of accounts applies.
        for name in ["default", "a"] {
            rig.post(&accounts, json!({"metadata": {"name": name}})).await.expect(201);
        }
        let names: Vec<Value> = (0..size).map(|n| json!({"name": format!("s{n}")})).collect();
        let large = json!({"metadata": {"name": "b"}, "secrets": names});
        let large = rig.post(&accounts, large).await.expect(201).json();
        let conditions: Vec<Value> =
            (0..size).map(|n| json!({"type": format!("example.com/c{n}"), "status": "True"})).collect();
        let status = json!({"status": {"conditions": conditions}});
        let node = json!({"metadata": {"name": "n", "annotations": annotations(size)}});
        rig.post("/api/v1/nodes", node).await.expect(201);
        rig.patch("/api/v1/nodes/n/status", "merge", status.clone()).await.expect(200);
        let spec = json!({"nodeName": "n", "serviceAccountName": "a", "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": "p", "annotations": annotations(size)}, "spec": spec});
        let pod = rig.post(&format!("{CORE}/pods"), pod).await.expect(201).json();
        rig.patch(&format!("{CORE}/pods/p/status"), "merge", status).await.expect(200);
        let pod_uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let claims = LegacyClaims::new("default", "t", "b", large["metadata"]["uid"].as_str().unwrap());
        let legacy_token = rig.server.sign_legacy_token(&claims).unwrap();
        let mut data: serde_json::Map<_, _> = (0..size).map(|n| (format!("d{n}"), json!(""))).collect();
        data.insert("token".to_owned(), STANDARD.encode(&legacy_token).into());
        let secret = json!({"metadata": {"name": "t",
            "annotations": {"kubernetes.io/service-account.name": "b"},
            "labels": {"kubernetes.io/legacy-token-last-used": "2026-01-01"}},
            "type": "kubernetes.io/service-account-token", "data": data});
        rig.post(&format!("{CORE}/secrets"), secret).await.expect(201);
        let mut data: serde_json::Map<_, _> = (0..size).map(|n| (format!("d{n}"), json!(""))).collect();
        for (name, text) in [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ] {
            data.insert(name.to_owned(), STANDARD.encode(text).into());
        }
        let secret = json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "data": data});
        rig.post("/api/v1/namespaces/kube-system/secrets", secret).await.expect(201);
        let mut cluster = Cluster { rig, pod_uid, pod_token: String::new(), legacy_token };
        let request = cluster.token_request("Pod", "p");
        let token =
            cluster.rig.post(&format!("{CORE}/serviceaccounts/a/token"), request).await.expect(201).json();
        cluster.pod_token = token["status"]["token"].as_str().unwrap().to_owned();
        cluster
    }

    fn token_request(&self, kind: &str, name: &str) -> Value {
        let uid = if kind == "Pod" { self.pod_uid.as_str() } else { "" };
        let bound = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
        json!({"spec": {"boundObjectRef": bound}})
    }

    fn cases(&self, is_large: bool) -> Vec<Case> {
        let admin = || Client::User(UserInfo::admin());
        let node = || Client::User(UserInfo::node("n"));
        let token = |token: &str| Client::Token(token.to_owned());
        let (pods, tokens) = (format!("{CORE}/pods"), format!("{CORE}/serviceaccounts/a/token"));
        let owner =
            json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "other", "controller": true});
        let mirror = json!({"metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "h"}, "ownerReferences": [owner]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        let pod = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {"serviceAccountName": "b", "automountServiceAccountToken": false,
                "containers": [{"name": "c", "image": "i"}]}})
        };
        let review = |token: &str| json!({"spec": {"token": token}});
        let bootstrap = if is_large { 401 } else { 201 };
        vec![
            ("1 token of a pod", token(&self.pod_token), SELF_REVIEW.to_owned(), json!({}), 201),
            ("2 review of the token", admin(), REVIEWS.to_owned(), review(&self.pod_token), 201),
            ("3 token in a Secret", token(&self.legacy_token), SELF_REVIEW.to_owned(), json!({}), 201),
            ("4 bootstrap token", token(BOOTSTRAP_TOKEN), SELF_REVIEW.to_owned(), json!({}), bootstrap),
            ("5 token request for a pod", admin(), tokens.clone(), self.token_request("Pod", "p"), 201),
            ("6 token request for a Node", admin(), tokens.clone(), self.token_request("Node", "n"), 201),
            ("7 token request by a node", node(), tokens, self.token_request("Pod", "p"), 201),
            ("8 mirror pod of another Node", node(), pods.clone(), mirror, 403),
            ("9 existing pod", admin(), pods.clone(), pod("p"), 409),
            ("10 pod with a large account", admin(), format!("{pods}?dryRun=All"), pod("x"), 201),
        ]
    }

    /// The time of this thread for a request: the least of a few, because caches are cold at first.
    async fn time(&self, (name, client, path, body, code): &Case) -> Duration {
        let mut least = Duration::MAX;
        for _ in 0..4 {
            let body = Body::from(body.to_string());
            let request =
                Request::post(path).header("host", "localhost").header("content-type", "application/json");
            let request = match client {
                Client::User(user) => request.extension(user.clone()),
                Client::Token(token) => request.header("authorization", format!("Bearer {token}")),
            };
            let request = request.body(body).unwrap();
            let started = ThreadTime::start();
            let service = match client {
                Client::User(_) => self.rig.server.service(),
                Client::Token(_) => self.rig.server.protect(self.rig.server.service()),
            };
            let response = service.oneshot(request).await.unwrap();
            least = least.min(started.spent());
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(status, *code, "{name}: {}", String::from_utf8_lossy(&body));
        }
        least
    }
}

/// The requests of the class, with objects of a few values and of thousands. Decoding the large ones takes more than a hundred times as
/// long as all of a request with small ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connection_threads_read_no_more_of_large_objects() {
    let (small, large) = (Cluster::new(2).await, Cluster::new(8_000).await);
    for (of_small, of_large) in small.cases(false).into_iter().zip(large.cases(true)) {
        let (with_small, with_large) = (small.time(&of_small).await, large.time(&of_large).await);
        println!("{}: {with_small:?}, {with_large:?}", of_small.0);
        let bound = with_small.max(Duration::from_millis(1)) * 5;
        assert!(with_large < bound, "{}: {with_large:?} instead of {with_small:?}", of_small.0);
    }
}
