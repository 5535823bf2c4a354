//! The users of controllers and agents in one process: each has its own, and none is an administrator. Every other
//! test proves that they have the rights that they need (see `harness::plane`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::csi::Hostpath;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

const NAMESPACED: &str = "/api/v1/namespaces/app";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// Records every request.
const POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n";

fn account(name: &str) -> String {
    format!("system:serviceaccount:kube-system:{name}")
}

/// The events of the log by user.
fn by_user(log: &Path) -> BTreeMap<String, Vec<Value>> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // The last line may be incomplete.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in complete.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let user = event["user"]["username"].as_str().unwrap_or_default().to_owned();
        all.entry(user).or_default().push(event);
    }
    all
}

/// A claim of a CSI driver, and a StatefulSet on a virtual node, in a namespace that is then deleted.
async fn story(http: &Http) {
    http.create(CLASSES, &json!({"metadata": {"name": "lab"}, "provisioner": "hostpath.csi.orlop.dev"}))
        .await;
    http.create(
        "/api/v1/persistentvolumes",
        &json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/orlop-components"}}}),
    )
    .await;
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "app"}})).await;
    http.create(
        &format!("{NAMESPACED}/resourcequotas"),
        &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}}),
    )
    .await;
    let spec = |class: &str| json!({"storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
    let claims = format!("{NAMESPACED}/persistentvolumeclaims");
    http.create(&claims, &json!({"metadata": {"name": "csi"}, "spec": spec("lab")})).await;
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}});
    http.create(
        "/apis/apps/v1/namespaces/app/statefulsets",
        &json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 1,
            "selector": {"matchLabels": {"app": "db"}}, "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec("")}]}}),
    )
    .await;
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    http.until(&format!("{NAMESPACED}/pods/db-0"), "runs", runs).await;
    http.until(&format!("{claims}/csi"), "bound", |claim| claim["status"]["phase"] == "Bound").await;
    let quota = format!("{NAMESPACED}/resourcequotas/q");
    http.until(&quota, "counted", |quota| quota["status"]["used"]["pods"] == "1").await;
    http.delete("/api/v1/namespaces/app").await;
    http.until_gone("/api/v1/namespaces/app").await;
}

#[tokio::test]
async fn no_component_is_an_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    let log = dir.path().join("audit.log");
    let driver = Hostpath::start(dir.path(), &[]).await;
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        "--virtual-nodes=1".to_owned(),
        driver.flag(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    story(&plane.http()).await;
    plane.http().get("/apis/orlop.dev/v1/storageclasses/lab/why").await.expect(200);

    // The test's client is the only administrator.
    let writers = [
        "generic-garbage-collector",
        "namespace-controller",
        "persistent-volume-binder",
        "pvc-protection-controller",
        "resourcequota-controller",
        "root-ca-cert-publisher",
        "service-account-controller",
        "statefulset-controller",
        "orlop-csi-provisioner",
    ];
    let mut wanted: BTreeSet<String> = writers.map(account).into();
    wanted.extend(
        ["system:kube-controller-manager", "system:kube-scheduler", "system:node:virtual-1"]
            .map(str::to_owned),
    );
    let all = wait::until("each component is in the log", async || {
        let all = by_user(&log);
        let missing: Vec<_> = wanted.iter().filter(|user| !all.contains_key(*user)).collect();
        if missing.is_empty() { Ok(all) } else { Err(format!("{missing:?}")) }
    })
    .await;
    for (user, events) in &all {
        for event in events {
            let own = event["userAgent"].as_str().unwrap_or_default().starts_with("orlop-controller/");
            assert_eq!(own, user != "system:admin" && !user.is_empty(), "{event}");
            let groups: Vec<&str> =
                event["user"]["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert!(!own || !groups.contains(&"system:masters"), "{event}");
            if user.starts_with("system:node:") {
                assert_eq!(groups, ["system:nodes", "system:authenticated"], "{event}");
            }
        }
        let writes = |event: &&Value| !matches!(event["verb"].as_str(), Some("get" | "list" | "watch"));
        if user == "system:kube-controller-manager" {
            assert_eq!(events.iter().find(writes), None, "it owns the caches only");
        }
    }
    plane.stop().await;
}

/// A separate process gets the same rights from tokens of the controllers' service accounts.
#[tokio::test]
async fn separate_controllers_use_the_credentials_of_their_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Hostpath::start(dir.path(), &[]).await;
    let plane = Plane::of(Layout::TwoProcesses).controller_flags(&[&driver.flag()]).start().await;
    let http = plane.http();
    http.create(CLASSES, &json!({"metadata": {"name": "lab"}, "provisioner": "hostpath.csi.orlop.dev"}))
        .await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    http.create(
        claims,
        &json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "lab",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}),
    )
    .await;
    http.until(&format!("{claims}/data"), "bound", |claim| claim["status"]["phase"] == "Bound").await;
    for name in ["orlop-csi-provisioner", "persistent-volume-binder"] {
        http.get(&format!("/api/v1/namespaces/kube-system/serviceaccounts/{name}")).await.expect(200);
    }
}

#[tokio::test]
async fn controllers_report_that_the_server_rejects_their_credentials() {
    let plane =
        Plane::of(Layout::ServerAlone).server_flags(&["--api-audiences=orlop"]).closed().start().await;
    let token = plane.dir().join("token");
    std::fs::write(&token, "no-token").unwrap();
    let args = ["controller", "--server", &plane.url(), "--token-file", &token.display().to_string()];
    let args = args.map(str::to_owned);
    let controllers = Process::start("refused", plane.dir(), &args);
    wait::until("the reason is logged", async || {
        let log = controllers.log();
        let says = log
            .contains("it rejects the credentials (Unauthorized): check the token or the client certificate");
        if says { Ok(()) } else { Err(log) }
    })
    .await;
}
