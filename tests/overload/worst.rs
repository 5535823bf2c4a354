//! The worst requests: each is small enough to be read, and would take minutes or gigabytes if its cost grew faster than its
//! size. While one is processed, health checks and the renewal of a Lease are answered.

use std::time::Instant;

use axum::http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::others::other_clients;
use super::{CONFIG_MAPS, server};
use crate::harness::http::{Answer, Http};

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PODS: &str = "/api/v1/namespaces/default/pods";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const POD_TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";

/// A request.
pub(super) struct Worst {
    pub(super) name: &'static str,
    method: Method,
    pub(super) path: String,
    /// Content-Type of the body, or Accept of a request without a body.
    pub(super) media: &'static str,
    pub(super) body: String,
    /// The allowed codes of the response.
    pub(super) codes: &'static [u16],
}

fn numbered(count: usize, prefix: &str) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:06}")).collect()
}

/// A volume with a member of its spec, many times.
fn volume(member: &str) -> String {
    let repeated = member.repeat(140_000);
    format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"v"}},"spec":{{{repeated}
        "capacity":{{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/tmp/v"}}}}}}"#
    )
}

/// A patch of the ConfigMap `long`, which has 60,000 finalizers.
fn patch(name: &'static str, media: &'static str, body: &Value, codes: &'static [u16]) -> Worst {
    let path = format!("{CONFIG_MAPS}/long?dryRun=All&fieldManager=other&force=true");
    let path = if media == APPLY { path } else { path.replace("&force=true", "") };
    Worst { name, method: Method::PATCH, path, media, body: body.to_string(), codes }
}

fn create(name: &'static str, path: &str, body: String, codes: &'static [u16]) -> Worst {
    Worst { name, method: Method::POST, path: path.to_owned(), media: "application/json", body, codes }
}

pub(super) fn worst_requests() -> Vec<Worst> {
    let reversed: Vec<String> = numbered(45_000, "a/n").into_iter().rev().collect();
    let mut at_the_front = vec![json!({"op": "add", "path": "/x", "value": vec![0; 250_000]})];
    at_the_front.extend(vec![json!({"op": "add", "path": "/x/0", "value": 1}); 9_999]);
    let owner = |n: usize| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": n.to_string(), "controller": true});
    let owners: Vec<Value> = (0..30_000).map(owner).collect();
    let mut copies = vec![json!({"op": "add", "path": "/x", "value": vec![json!({"": 0}); 2000]})];
    copies.extend((0..222).map(|n| json!({"op": "copy", "from": "/x", "path": format!("/y{n}")})));
    let containers = "{},".repeat(900_000);
    let selector = numbered(7_000, "!k").join(",");
    let long_key = format!("{{\"data\":{{\"{}\":[{}0]}}}}", "k".repeat(1_500_000), "0,".repeat(200_000));
    vec![
        create("repeated null source", VOLUMES, volume("\"nfs\":null,"), &[201, 409]),
        create("repeated null name", VOLUMES, volume("\"volumeMode\":null,"), &[201, 409]),
        create(
            "owners",
            CONFIG_MAPS,
            json!({"metadata": {"name": "o", "ownerReferences": owners}}).to_string(),
            &[422],
        ),
        create(
            "empty containers",
            PODS,
            format!("{{\"metadata\":{{\"name\":\"p\"}},\"spec\":{{\"containers\":[{containers}{{}}]}}}}"),
            &[400],
        ),
        create("values below a long key", CONFIG_MAPS, long_key, &[400, 422]),
        patch(
            "deletions from a list",
            STRATEGIC,
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": numbered(72_000, "a/n")}}),
            &[200],
        ),
        patch(
            "additions to a list",
            STRATEGIC,
            &json!({"metadata": {"finalizers": numbered(60_000, "a/m")}}),
            &[200],
        ),
        patch(
            "reversed list",
            APPLY,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "long", "finalizers": reversed}}),
            &[200],
        ),
        patch("insertions at the front", JSON_PATCH, &Value::Array(at_the_front), &[413]),
        patch("copies of many values", JSON_PATCH, &Value::Array(copies), &[413]),
        Worst {
            name: "printer column",
            method: Method::GET,
            path: "/apis/example.com/v1/namespaces/default/deeps".to_owned(),
            media: TABLE,
            body: String::new(),
            codes: &[200],
        },
        Worst {
            name: "log of a large pod on a large node",
            method: Method::GET,
            path: format!("{PODS}/large/log?container=c005499"),
            media: "application/json",
            body: String::new(),
            codes: &[500],
        },
        Worst {
            name: "label selector",
            method: Method::GET,
            path: format!("{CONFIG_MAPS}?labelSelector={selector}"),
            media: "application/json",
            body: String::new(),
            codes: &[200],
        },
    ]
}

/// A custom kind whose column takes a number of steps that is exponential in its parts, with one object.
async fn create_deep_kind(http: &Http) {
    let definition = json!({"metadata": {"name": "deeps.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "additionalPrinterColumns": [{"name": "X", "type": "string", "jsonPath": format!("{}..z", "..a".repeat(10))}],
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    http.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let mut deep = json!({"b": 1});
    for _ in 0..80 {
        deep = json!({"a": deep});
    }
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Deep", "metadata": {"name": "d"}, "deep": deep});
    let path = "/apis/example.com/v1/namespaces/default/deeps";
    http.until("/apis/example.com/v1", "served", |found| found["resources"].is_array()).await;
    http.create(path, &object).await;
}

/// A policy for PodTemplates with these variables. Each uses the one before, and the rule uses the last one.
fn chained_policy(variables: usize) -> Value {
    let text =
        |at: usize| at.checked_sub(1).map_or("1".to_owned(), |before| format!("variables.v{before} + 1"));
    let rule = format!("variables.v{} > 0", variables - 1);
    let variables: Vec<Value> =
        (0..variables).map(|at| json!({"name": format!("v{at}"), "expression": text(at)})).collect();
    json!({"metadata": {"name": "chained"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["podtemplates"]}]},
        "variables": variables, "validations": [{"expression": rule}]}})
}

/// Requests with admission policies. The last one is a write to which a stored policy applies.
fn policy_requests() -> Vec<Worst> {
    let policies = &format!("{ADMISSION}/validatingadmissionpolicies");
    let chained = |variables: usize| chained_policy(variables).to_string();
    vec![
        create("policy with a chain of 2,000 variables", policies, chained(2_000), &[422]),
        create("policy with 20,000 variables", policies, chained(20_000), &[422]),
        create("policy with a chain of 300 variables", policies, chained(300), &[201]),
        create(
            "binding",
            &format!("{ADMISSION}/validatingadmissionpolicybindings"),
            json!({"metadata": {"name": "chained"}, "spec": {"policyName": "chained", "validationActions": ["Deny"]}})
                .to_string(),
            &[201],
        ),
        create(
            "write with a chain of variables",
            POD_TEMPLATES,
            json!({"metadata": {"name": "t"}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "none"}]}}})
            .to_string(),
            &[422],
        ),
    ]
}

impl Worst {
    pub(super) async fn send(&self, http: &Http) -> Answer {
        let header = if self.body.is_empty() { "accept" } else { "content-type" };
        let body = self.body.clone().into_bytes();
        http.send(self.method.clone(), &self.path, &[(header, self.media)], body).await
    }
}

/// Creates the objects of the requests.
pub(super) async fn prepare(http: &Http) {
    let long = json!({"metadata": {"name": "long", "finalizers": numbered(60_000, "a/n")}});
    http.create(CONFIG_MAPS, &long).await;
    let taints: Vec<Value> =
        numbered(20_000, "k").iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
    http.create("/api/v1/nodes", &json!({"metadata": {"name": "large"}, "spec": {"taints": taints}})).await;
    let containers: Vec<Value> =
        numbered(5_500, "c").iter().map(|name| json!({"name": name, "image": "none"})).collect();
    let pod = json!({"metadata": {"name": "large"}, "spec": {"nodeName": "large", "automountServiceAccountToken": false, "containers": containers}});
    http.create(PODS, &pod).await;
    create_deep_kind(http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worst_requests_are_answered_beside_others() {
    let plane = server(&[]).await;
    let http = plane.http();
    prepare(&http).await;
    for worst in worst_requests().into_iter().chain(policy_requests()) {
        let ended = CancellationToken::new();
        let others = tokio::spawn(other_clients(plane.http(), ended.clone()));
        let started = Instant::now();
        let answer = worst.send(&http).await;
        let took = started.elapsed();
        ended.cancel();
        println!("{}: {} after {took:?}; others: {}", worst.name, answer.code, others.await.unwrap());
        assert!(worst.codes.contains(&answer.code), "{}: {}", worst.name, answer.text());
    }
}
