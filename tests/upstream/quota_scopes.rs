//! Scopes of quotas (upstream: test/e2e/apimachinery/resource_quota.go), overridden hostnames, and the
//! VolumeAttributesClass of a claim.

use serde_json::{Value, json};

use super::rows::{compare, message, post};
use super::{PODS, plane, pod, server};
use crate::harness::http::Http;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn quota(name: &str, hard: Value, scope: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"hard": hard, "scopes": [scope]}})
}

fn selecting(name: &str, hard: Value, scope: &str, operator: &str, values: &[&str]) -> Value {
    let mut expression = json!({"scopeName": scope, "operator": operator});
    if !values.is_empty() {
        expression["values"] = json!(values);
    }
    let selector = json!({"matchExpressions": [expression]});
    json!({"metadata": {"name": name}, "spec": {"hard": hard, "scopeSelector": selector}})
}

async fn until_used(http: &Http, quota: &str, resource: &str, used: &str) {
    let is_used = |quota: &Value| quota["status"]["used"][resource] == used;
    http.until(&format!("{QUOTAS}/{quota}"), &format!("{quota} uses {used}"), is_used).await;
}

/// Whether the server accepts a pod.
async fn accepts(http: &Http, name: &str, spec: Value) -> bool {
    let mut body = pod(name);
    for (field, value) in spec.as_object().unwrap() {
        body["spec"][field] = value.clone();
    }
    let answer = http.post(PODS, &body).await;
    assert!(answer.code == 201 || answer.text().contains("exceeded quota"), "{}", answer.text());
    answer.code == 201
}

/// "should verify ResourceQuota with terminating scopes", "with best effort scope", "with cross namespace pod affinity
/// scope" and "ResourceQuota [Feature:PodPriority]": each pod counts in the quotas that select it, and in no other
#[tokio::test]
async fn each_scope_counts_its_pods() {
    let (_plane, http) = plane().await;
    let one = || json!({"pods": "1"});
    for name in ["low", "high"] {
        let class = json!({"metadata": {"name": name}, "value": 10});
        http.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    }
    let quotas = [
        quota("terminating", one(), "Terminating"),
        quota("not-terminating", json!({"pods": "9"}), "NotTerminating"),
        quota("best-effort", json!({"pods": "9"}), "BestEffort"),
        quota("not-best-effort", one(), "NotBestEffort"),
        quota("elsewhere", one(), "CrossNamespacePodAffinity"),
        quota("any-class", json!({"pods": "9"}), "PriorityClass"),
        selecting("high", one(), "PriorityClass", "In", &["high"]),
        selecting("not-high", json!({"pods": "9"}), "PriorityClass", "NotIn", &["high"]),
        selecting("no-class", json!({"pods": "9"}), "PriorityClass", "DoesNotExist", &[]),
        selecting("some-class", json!({"pods": "9"}), "PriorityClass", "Exists", &[]),
    ];
    for quota in &quotas {
        http.create(QUOTAS, quota).await;
        until_used(&http, quota["metadata"]["name"].as_str().unwrap(), "pods", "0").await;
    }
    let deadline = || json!({"activeDeadlineSeconds": 3600});
    let busy =
        || json!({"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1m"}}}]});
    let term =
        json!({"topologyKey": "k", "namespaces": ["other"], "labelSelector": {"matchLabels": {"a": "b"}}});
    let near =
        || json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let high = || json!({"priorityClassName": "high"});
    for (name, spec) in [("deadline", deadline()), ("busy", busy()), ("near", near()), ("high", high())] {
        assert!(accepts(&http, name, spec.clone()).await, "{name}");
        assert!(!accepts(&http, &format!("{name}-2"), spec).await, "a second {name}");
    }
    assert!(accepts(&http, "low", json!({"priorityClassName": "low"})).await);
    // Admission charges each pod, and the controller counts the same.
    for round in 0..2 {
        for (quota, used) in [
            ("terminating", "1"),
            ("not-terminating", "4"),
            ("best-effort", "4"),
            ("not-best-effort", "1"),
            ("elsewhere", "1"),
            ("any-class", "2"),
            ("high", "1"),
            ("not-high", "4"),
            ("no-class", "3"),
            ("some-class", "2"),
        ] {
            until_used(&http, quota, "pods", used).await;
            // The controller counts again for another limit.
            if round == 0 {
                let more = json!({"spec": {"hard": {"pods": "20"}}});
                http.patch(&format!("{QUOTAS}/{quota}"), &more).await.expect(200);
                let counted = |quota: &Value| quota["status"]["hard"]["pods"] == "20";
                http.until(&format!("{QUOTAS}/{quota}"), "counted", counted).await;
            }
        }
    }
    // A deadline moves a pod between scopes.
    http.patch(&format!("{PODS}/low"), &json!({"spec": {"activeDeadlineSeconds": 3600}})).await.expect(200);
    until_used(&http, "terminating", "pods", "2").await;
    until_used(&http, "not-terminating", "pods", "3").await;
}

/// "should verify ResourceQuota with VolumeAttributesClass scope": a change of the class moves the claim
#[tokio::test]
async fn claims_move_between_scopes_with_their_attributes_class() {
    let (_plane, http) = plane().await;
    let vac = "VolumeAttributesClass";
    let hard = |count: &str| json!({"persistentvolumeclaims": count});
    for quota in [
        selecting("gold", hard("1"), vac, "In", &["gold"]),
        selecting("not-gold", hard("9"), vac, "NotIn", &["gold"]),
        selecting("any", hard("9"), vac, "Exists", &[]),
        selecting("none", hard("9"), vac, "DoesNotExist", &[]),
    ] {
        http.create(QUOTAS, &quota).await;
        until_used(&http, quota["metadata"]["name"].as_str().unwrap(), "persistentvolumeclaims", "0").await;
    }
    let used = async |wanted: [&str; 4]| {
        for (quota, used) in ["gold", "not-gold", "any", "none"].into_iter().zip(wanted) {
            until_used(&http, quota, "persistentvolumeclaims", used).await;
        }
    };
    let claim = |name: &str, class: Value| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "volumeAttributesClassName": class, "resources": {"requests": {"storage": "1Gi"}}}})
    };
    http.create(CLAIMS, &claim("a", Value::Null)).await;
    used(["0", "1", "0", "1"]).await;
    http.create(CLAIMS, &claim("b", json!("gold"))).await;
    used(["1", "1", "1", "1"]).await;
    let refused = http.post(CLAIMS, &claim("c", json!("gold"))).await.expect(403);
    let why = "exceeded quota: gold, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");

    for (name, class) in [("a", Value::Null), ("b", json!("gold"))] {
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": class,
            "csi": {"driver": "none.example.com", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name}}});
        http.create("/api/v1/persistentvolumes", &volume).await;
        let path = format!("{CLAIMS}/{name}");
        http.until(&path, "bound", |claim| claim["status"]["phase"] == "Bound").await;
    }
    // A claim counts in the scopes of its new class and of the one in effect.
    let class = |class: &str| json!({"spec": {"volumeAttributesClassName": class}});
    let (a, b) = (format!("{CLAIMS}/a"), format!("{CLAIMS}/b"));
    http.patch(&b, &class("silver")).await.expect(200);
    used(["1", "2", "1", "1"]).await;
    // It cannot move into a full quota.
    let refused = http.patch(&a, &class("gold")).await.expect(403);
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    let silver = json!({"status": {"currentVolumeAttributesClassName": "silver"}});
    http.patch(&format!("{b}/status"), &silver).await.expect(200);
    used(["0", "2", "1", "1"]).await;
    http.patch(&a, &class("gold")).await.expect(200);
    used(["1", "1", "2", "0"]).await;
}

/// core/validation, ValidatePersistentVolumeClaimUpdate
#[tokio::test]
async fn attributes_class_changes_only_on_bound_claims() {
    let (_plane, http) = server().await;
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}}});
    http.create(CLAIMS, &claim).await;
    let path = format!("{CLAIMS}/a");
    let class = |class: Value| json!({"spec": {"volumeAttributesClassName": class}});
    let message = |answer: &Value| answer["message"].as_str().unwrap().to_owned();
    let refused = http.patch(&path, &class(json!("gold"))).await.expect(422);
    let why = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    assert!(message(&refused).contains(why), "{refused}");
    http.patch(&format!("{path}/status"), &json!({"status": {"phase": "Bound"}})).await.expect(200);
    http.patch(&path, &class(json!("gold"))).await.expect(200);
    http.patch(&path, &class(json!("silver"))).await.expect(200);
    let current = json!({"status": {"currentVolumeAttributesClassName": "silver"}});
    http.patch(&format!("{path}/status"), &current).await.expect(200);
    for (value, what) in [(Value::Null, "nil"), (json!(""), "empty string")] {
        let refused = http.patch(&path, &class(value)).await.expect(422);
        let why = format!(
            "spec.volumeAttributesClassName: Forbidden: update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        );
        assert!(message(&refused).contains(&why), "{refused}");
    }
    http.patch(&path, &class(json!("gold"))).await.expect(200);
}

/// core/validation, ValidateResourceQuota
#[tokio::test]
async fn wrong_combinations_of_scopes_are_rejected() {
    let (_plane, http) = server().await;
    let invalid = |why: &str| json!([422, format!("ResourceQuota \"q\" is invalid: {why}")]);
    let selector = "spec.scopeSelector.matchExpressions";
    let pods = || json!({"pods": "1"});
    let mut both = quota("q", pods(), "BestEffort");
    both["spec"]["scopes"] = json!(["BestEffort", "NotBestEffort"]);
    let rows = [
        (quota("q", pods(), "Odd"), invalid("spec.scopes: Invalid value: [\"Odd\"]: unsupported scope")),
        (
            quota("q", json!({"cpu": "1"}), "BestEffort"),
            invalid("spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"),
        ),
        (
            quota("q", json!({"requests.storage": "1Gi"}), "Terminating"),
            invalid("spec.scopes: Invalid value: [\"Terminating\"]: unsupported scope applied to resource"),
        ),
        (
            quota("q", pods(), "VolumeAttributesClass"),
            invalid(
                "spec.scopes: Invalid value: [\"VolumeAttributesClass\"]: unsupported scope applied to resource",
            ),
        ),
        (both, invalid("spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes")),
        (
            selecting("q", pods(), "Terminating", "In", &["x"]),
            invalid(&format!(
                "{selector}.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            )),
        ),
        (
            selecting("q", pods(), "PriorityClass", "NotIn", &[]),
            invalid(&format!(
                "{selector}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )),
        ),
        (
            selecting("q", pods(), "PriorityClass", "Exists", &["x"]),
            invalid(&format!(
                "{selector}.values: Invalid value: [\"x\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )),
        ),
    ];
    compare(&http, message, rows.map(|(body, want)| (post(QUOTAS, &body.to_string()), want))).await;
}

/// core/validation, validatePodHostName
#[tokio::test]
async fn overridden_hostname_excludes_other_sources_of_the_hostname() {
    let (_plane, http) = server().await;
    let with = |fields: Value| {
        let mut body = pod("p");
        body["spec"]["hostnameOverride"] = "a.example.com".into();
        for (field, value) in fields.as_object().unwrap() {
            body["spec"][field] = value.clone();
        }
        post(PODS, &body.to_string())
    };
    let invalid = |why: &str| json!([422, format!("Pod \"p\" is invalid: {why}")]);
    let network = "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true";
    let fqdn = "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true";
    compare(
        &http,
        message,
        [
            (with(json!({"hostNetwork": true})), invalid(network)),
            (with(json!({"setHostnameAsFQDN": true})), invalid(fqdn)),
            (
                with(json!({"hostNetwork": true, "setHostnameAsFQDN": true})),
                invalid(&format!("[{fqdn}, {network}]")),
            ),
            (
                with(json!({"hostnameOverride": "a".repeat(65)})),
                invalid("spec.hostnameOverride: Too long: may not be more than 64 bytes"),
            ),
            (with(json!({"hostname": "h", "subdomain": "s"})), json!([201, Value::Null])),
        ],
    )
    .await;
}
