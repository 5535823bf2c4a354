//! Service accounts of pods: admission assigns one to every pod, a node mounts its token, and the token authenticates the pod.

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

#[tokio::test]
async fn pod_gets_the_default_account_of_a_new_namespace() {
    let plane = Plane::of(Layout::OneProcess).start().await;
    let http = plane.http();
    http.create(NAMESPACES, &namespace()).await;
    // Waits for the controller to create the account.
    let created = http.create(PODS, &pod("own", json!({}))).await;
    assert_eq!(created["spec"]["serviceAccountName"], "default", "{created:#}");
    let mount = &created["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount", "{created:#}");
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

/// Only a node with mounts has the token: a virtual one writes no secrets to the disk.
#[tokio::test]
async fn container_authenticates_with_its_token() {
    if !orlop_test_support::privileges::has_root("mounts of a node") {
        return;
    }
    let flags = ["--node", "--node-name=virtual-1", "--runtime=process", "--port=0", "--eviction-hard="];
    let flags = [&flags[..], &["--authorization-mode=Node,RBAC"]].concat();
    let plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let dir = plane.dir().canonicalize().unwrap();
    let _swept = Swept(dir.clone());
    let out = dir.join("out");
    std::fs::create_dir(&out).unwrap();
    let http = plane.http();
    http.create(NAMESPACES, &namespace()).await;
    let script = "cd /var/run/secrets/kubernetes.io/serviceaccount && test \"$(cat namespace)\" = fresh && cp token /out";
    let mounts = json!([{"name": "out", "mountPath": "/out"}]);
    let containers =
        json!([{"name": "c", "image": "i", "command": ["sh", "-c", script], "volumeMounts": mounts}]);
    let volumes = json!([{"name": "out", "hostPath": {"path": out}}]);
    let spec = json!({"restartPolicy": "Never", "containers": containers, "volumes": volumes});
    http.create(PODS, &pod("reader", spec)).await;
    let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let ended = http.until(&format!("{PODS}/reader"), "ended", ended).await;
    assert_eq!(ended["status"]["phase"], "Succeeded", "{ended:#}");
    let token = std::fs::read_to_string(out.join("token")).unwrap();
    let of_pod = with_token(&plane, token.trim());
    let review =
        of_pod.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.expect(201);
    let user = &review["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:fresh:default", "{review:#}");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["reader"]), "{review:#}");
    assert_eq!(of_pod.get(PODS).await.code, 403, "the account has no rights");
    http.delete(&format!("{PODS}/reader")).await.expect(200);
    http.until_gone(&format!("{PODS}/reader")).await;
}
