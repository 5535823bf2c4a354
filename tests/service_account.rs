//! Service accounts of pods: admission assigns one to every pod, a node mounts its token, and the token authenticates the pod.

use std::path::Path;

use serde_json::{Value, json};

use crate::authorization::with_token;
use crate::harness::plane::{Layout, Plane};
use crate::node::Swept;

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/fresh/pods";

fn namespace() -> Value {
    json!({"metadata": {"name": "fresh"}})
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "virtual-1", "containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// The token of a running pod, as its node mounted it.
fn mounted_token(data_dir: &Path, pod: &Value) -> String {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let volume = pod["spec"]["volumes"][0]["name"].as_str().unwrap();
    let dir = data_dir.join("virtual-nodes/virtual-1/pods").join(uid);
    let dir = dir.join("volumes/kubernetes.io~projected").join(volume);
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap();
    assert_eq!(read("namespace"), "fresh");
    assert!(dir.join("ca.crt").exists());
    read("token")
}

#[tokio::test]
async fn pod_authenticates_with_its_mounted_token() {
    let flags = ["--virtual-nodes=1", "--authorization-mode=Node,RBAC", "--service-account-issuer=https://k"];
    let plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let http = plane.http();
    http.create(NAMESPACES, &namespace()).await;
    // Waits for the controller to create the account.
    let created = http.create(PODS, &pod("own", json!({}))).await;
    assert_eq!(created["spec"]["serviceAccountName"], "default", "{created:#}");
    let mount = &created["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount", "{created:#}");
    let running =
        http.until(&format!("{PODS}/own"), "running", |pod| pod["status"]["phase"] == "Running").await;
    let pod_client = with_token(&plane, mounted_token(&plane.data_dir(), &running).trim());
    let review = pod_client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await;
    let review = review.expect(201);
    let user = &review["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:fresh:default", "{review:#}");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["own"]), "{review:#}");
    assert_eq!(pod_client.get(PODS).await.code, 403, "the account has no rights");

    let refused = http.post(PODS, &pod("other", json!({"serviceAccountName": "robot"}))).await.expect(403);
    assert_eq!(
        refused["message"],
        "pods \"other\" is forbidden: error looking up service account fresh/robot: serviceaccount \"robot\" not found"
    );
}

#[tokio::test]
async fn missing_account_of_a_deployment_is_explained_and_repaired() {
    let plane = Plane::of(Layout::OneProcess).start().await;
    let http = plane.http();
    http.create(NAMESPACES, &namespace()).await;
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}}}});
    http.create("/apis/apps/v1/namespaces/fresh/deployments", &deployment).await;
    let explained = "/apis/orlop.dev/v1/namespaces/fresh/deployments.apps/web/why";
    let has_cause = |why: &Value| why["causes"][0]["code"] == "ServiceAccountMissing";
    let why = http.until(explained, "explained", has_cause).await;
    let fix = &why["causes"][0]["fix"]["create"];
    http.create("/api/v1/namespaces/fresh/serviceaccounts", fix).await;
    let created = |list: &Value| list["items"].as_array().is_some_and(|pods| pods.len() == 1);
    let pods = http.until(PODS, "created", created).await;
    assert_eq!(pods["items"][0]["spec"]["serviceAccountName"], "robot");
}

#[tokio::test]
async fn server_without_controllers_requires_accounts_on_request() {
    for (flags, code) in [(&[][..], 201), (&["--enable-admission-plugins=ServiceAccount"], 403)] {
        let plane = Plane::of(Layout::ServerAlone).server_flags(flags).start().await;
        let http = plane.http();
        http.create(NAMESPACES, &namespace()).await;
        assert_eq!(http.post(PODS, &pod("p", json!({}))).await.code, code, "{flags:?}");
        http.create("/api/v1/namespaces/fresh/serviceaccounts", &json!({"metadata": {"name": "default"}}))
            .await;
        let created = http.create(PODS, &pod("q", json!({}))).await;
        assert_eq!(created["spec"]["volumes"].is_array(), code == 403, "{flags:?}");
    }
}

#[tokio::test]
async fn container_reads_its_token() {
    if !orlop_test_support::privileges::has_root("mounts of a node") {
        return;
    }
    let flags = ["--node", "--node-name=virtual-1", "--runtime=process", "--port=0", "--eviction-hard="];
    let plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let _swept = Swept(plane.dir().canonicalize().unwrap());
    let http = plane.http();
    http.create(NAMESPACES, &namespace()).await;
    let script = "cd /var/run/secrets/kubernetes.io/serviceaccount && test \"$(cat namespace)\" = fresh && test -s token";
    let containers = json!([{"name": "c", "image": "i", "command": ["sh", "-c", script]}]);
    http.create(PODS, &pod("reader", json!({"restartPolicy": "Never", "containers": containers}))).await;
    let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let pod = http.until(&format!("{PODS}/reader"), "ended", ended).await;
    assert_eq!(pod["status"]["phase"], "Succeeded", "{pod:#}");
    http.delete(&format!("{PODS}/reader")).await.expect(200);
    http.until_gone(&format!("{PODS}/reader")).await;
}
