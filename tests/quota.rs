//! Limits of a namespace: quotas under concurrent creates and `kill -9`, limit ranges for
//! sizes, and the default objects of every namespace.

use axum::http::Request;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};

const NAMESPACES: &str = "/api/v1/namespaces";
const QUOTAS: &str = "/api/v1/namespaces/team/resourcequotas";
const QUOTA: &str = "/api/v1/namespaces/team/resourcequotas/q";
const CLAIMS: &str = "/api/v1/namespaces/team/persistentvolumeclaims";

fn claim(name: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": size}}}})
}

async fn team(http: &Http) {
    http.create(NAMESPACES, &json!({"metadata": {"name": "team"}})).await;
}

async fn quota(http: &Http, hard: Value) {
    http.create(QUOTAS, &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
}

async fn until_used(http: &Http, used: &Value) {
    http.until(QUOTA, &format!("uses {used}"), |quota| quota["status"]["used"] == *used).await;
}

fn count(answers: &[Answer], code: u16) -> usize {
    answers.iter().filter(|answer| answer.code == code).count()
}

#[tokio::test]
async fn concurrent_creates_never_exceed_the_quota_and_deletes_release_it() {
    for layout in [Layout::OneProcess, Layout::TwoProcesses] {
        let plane = Plane::of(layout).start().await;
        let (http, kubectl) = (plane.http(), plane.kubectl());
        team(&http).await;
        http.create(CLAIMS, &claim("before", "1Gi")).await;
        quota(
            &http,
            json!({"requests.storage": "10Gi", "persistentvolumeclaims": "20", "count/secrets": "1"}),
        )
        .await;
        until_used(
            &http,
            &json!({"requests.storage": "1Gi", "persistentvolumeclaims": "1", "count/secrets": "0"}),
        )
        .await;
        let create = async |at: usize| http.post(CLAIMS, &claim(&format!("c{at}"), "4Gi")).await;
        let answers = join_all((0..20).map(create)).await;
        assert_eq!((count(&answers, 201), count(&answers, 403)), (2, 18), "{layout:?}");
        let refused = answers.iter().find(|answer| answer.code == 403).unwrap().text();
        let why = "exceeded quota: q, requested: requests.storage=4Gi, used: requests.storage=9Gi, limited: requests.storage=10Gi";
        assert!(refused.contains(why), "{refused}");
        let shown = kubectl.run(&["describe", "quota", "q", "-n", "team"]).await.ok();
        for line in [
            ["persistentvolumeclaims", "3", "20"],
            ["requests.storage", "9Gi", "10Gi"],
            ["count/secrets", "0", "1"],
        ] {
            let found = shown.lines().any(|shown| shown.split_whitespace().eq(line));
            assert!(found, "{line:?} in\n{shown}");
        }
        let rows = kubectl.run(&["get", "quota", "-n", "team"]).await.ok();
        assert!(rows.contains("requests.storage: 9Gi/10Gi"), "{rows}");
        http.delete(&format!("{CLAIMS}/before")).await.expect(200);
        until_used(
            &http,
            &json!({"requests.storage": "8Gi", "persistentvolumeclaims": "2", "count/secrets": "0"}),
        )
        .await;
        http.create(CLAIMS, &claim("after", "2Gi")).await;
        // The controllers watch this kind only for quotas.
        let secrets = "/api/v1/namespaces/team/secrets";
        http.create(secrets, &json!({"metadata": {"name": "a"}})).await;
        http.post(secrets, &json!({"metadata": {"name": "b"}})).await.expect(403);
        http.delete(&format!("{secrets}/a")).await.expect(200);
        until_used(
            &http,
            &json!({"requests.storage": "10Gi", "persistentvolumeclaims": "3", "count/secrets": "0"}),
        )
        .await;
    }
}

/// No controller recalculates usage here: after each kill, the charged usage must match the objects.
#[tokio::test]
async fn kill_leaves_usage_and_objects_consistent() {
    let mut plane = Plane::of(Layout::ServerAlone).start().await;
    team(&plane.http()).await;
    let hard = json!({"requests.storage": "1000Gi", "persistentvolumeclaims": "1000"});
    quota(&plane.http(), hard.clone()).await;
    let status =
        json!({"status": {"hard": hard, "used": {"requests.storage": "0", "persistentvolumeclaims": "0"}}});
    plane.http().patch(&format!("{QUOTA}/status"), &status).await.expect(200);
    let mut acknowledged = 0;
    for round in 0..4 {
        let http = plane.http();
        let (sender, mut answered) = tokio::sync::mpsc::unbounded_channel();
        let creates = join_all((0..40).map(|at| {
            let (http, sender) = (http.clone(), sender.clone());
            async move {
                let body = claim(&format!("r{round}-{at}"), "1Gi").to_string().into_bytes();
                let request =
                    Request::post(CLAIMS).header("content-type", "application/json").body(body).unwrap();
                // Most requests no longer reach a server.
                let created = http.try_send(request).await.is_ok_and(|answer| answer.code == 201);
                if created {
                    let _ = sender.send(());
                }
                created
            }
        }));
        drop(sender);
        let creates = tokio::spawn(creates);
        for _ in 0..=round {
            answered.recv().await.expect("some are answered before the kill");
        }
        plane.kill_and_restart().await;
        acknowledged += creates.await.unwrap().into_iter().filter(|created| *created).count();
        let http = plane.http();
        let there = http.get(CLAIMS).await.expect(200)["items"].as_array().unwrap().len();
        let used = http.get(QUOTA).await.expect(200)["status"]["used"].clone();
        let want =
            json!({"requests.storage": format!("{there}Gi"), "persistentvolumeclaims": there.to_string()});
        assert_eq!(used, want, "round {round}");
        assert!(there >= acknowledged, "round {round}: {there} of {acknowledged}");
    }
}

#[tokio::test]
async fn limit_ranges_bound_claim_sizes() {
    let plane = Plane::start().await;
    let (http, kubectl) = (plane.http(), plane.kubectl());
    team(&http).await;
    let range = "
apiVersion: v1
kind: LimitRange
metadata:
  name: sizes
  namespace: team
spec:
  limits:
  - type: PersistentVolumeClaim
    min: {storage: 1Gi}
    max: {storage: 10Gi}
  - type: Container
    default: {cpu: 500m}
    max: {cpu: '1'}
";
    kubectl.apply(range).await;
    let shown = kubectl.run(&["describe", "limits", "sizes", "-n", "team"]).await.ok();
    assert!(shown.contains("PersistentVolumeClaim") && shown.contains("500m"), "{shown}");
    let refused = http.post(CLAIMS, &claim("small", "500Mi")).await.expect(403);
    let why = "persistentvolumeclaims \"small\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, \
               but request is 500Mi";
    assert_eq!(refused["message"], why);
    http.create(CLAIMS, &claim("right", "5Gi")).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = http.create("/api/v1/namespaces/team/pods", &pod).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}})
    );
    let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
    assert_eq!(made["metadata"]["annotations"]["kubernetes.io/limit-ranger"], note);
}

#[tokio::test]
async fn every_namespace_has_a_service_account_and_certificates() {
    let plane = Plane::start().await;
    let http = plane.http();
    team(&http).await;
    for namespace in ["default", "kube-system", "team"] {
        let account = format!("{NAMESPACES}/{namespace}/serviceaccounts/default");
        let map = format!("{NAMESPACES}/{namespace}/configmaps/kube-root-ca.crt");
        http.until(&account, "is there", |_| true).await;
        let published = http.until(&map, "is there", |_| true).await;
        assert_eq!(published["data"], json!({"ca.crt": ""}), "plain HTTP has no authority");
        let uid = http.get(&account).await.expect(200)["metadata"]["uid"].clone();
        http.delete(&account).await.expect(200);
        http.delete(&map).await.expect(200);
        http.until(&account, "is there again", |again| again["metadata"]["uid"] != uid).await;
        http.until(&map, "is there again", |_| true).await;
    }
    http.delete(&format!("{NAMESPACES}/team")).await.expect(200);
    http.until_gone(&format!("{NAMESPACES}/team")).await;

    let alone = Plane::of(Layout::ServerAlone).start().await;
    let maps =
        alone.http().get("/api/v1/configmaps?fieldSelector=metadata.name=kube-root-ca.crt").await.expect(200);
    assert_eq!(maps["items"], json!([]), "a server alone publishes no certificates");
}
