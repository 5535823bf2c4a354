//! Commands for workloads: `create deployment`, `scale`, `set`, `rollout`, and `drain` by evictions.

use super::{NODE, Row, row, run};
use crate::harness::plane::{Layout, Plane};

const SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: test}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
";

/// On a server without controllers: objects are stored, and nothing acts on them.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row(
            "create deployment",
            &["create", "deployment", "web", "-n", "test", "--image=nginx", "--replicas=2"],
        )
        .says("deployment.apps/web created"),
        row("create deployment", &["get", "deploy", "web", "-n", "test"])
            .says("NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    0/2     0            0           AGE"),
        row("scale", &["scale", "-n", "test", "deploy/web", "--replicas=3"])
            .says("deployment.apps/web scaled"),
        row("scale", &["scale", "-n", "test", "deploy/web", "--replicas=5", "--current-replicas=3"])
            .says("deployment.apps/web scaled"),
        row("scale", &["scale", "-n", "test", "deploy/web", "--replicas=9", "--current-replicas=3"])
            .refuses(&["Expected replicas to be 3, was 5"]),
        row("scale", &["get", "deploy", "web", "-n", "test", "-o", "jsonpath={.spec.replicas}"]).says("5"),
        row("scale", &["create", "-f", "-"]).reads(SET).says("statefulset.apps/db created"),
        row("scale", &["scale", "-n", "test", "sts", "db", "--replicas=4"])
            .says("statefulset.apps/db scaled"),
        row(
            "scale",
            &[
                "get",
                "sts",
                "db",
                "-n",
                "test",
                "--subresource=scale",
                "-o",
                "jsonpath={.spec.replicas} {.status.selector}",
            ],
        )
        .since(24)
        .says("4 app=db"),
        row("set", &["set", "image", "-n", "test", "deploy/web", "nginx=nginx:1.28"])
            .says("deployment.apps/web image updated"),
        row("set", &["set", "env", "-n", "test", "deploy/web", "COLOUR=blue"])
            .says("deployment.apps/web env updated"),
        row("set", &["set", "resources", "-n", "test", "deploy/web", "--requests=cpu=100m"])
            .says("deployment.apps/web resource requirements updated"),
        row(
            "set",
            &[
                "get",
                "deploy",
                "web",
                "-n",
                "test",
                "-o",
                "jsonpath={.spec.template.spec.containers[0]['image', 'env', 'resources']}",
            ],
        )
        .tells(&[
            "nginx:1.28",
            r#"[{"name":"COLOUR","value":"blue"}]"#,
            r#"{"requests":{"cpu":"100m"}}"#,
        ]),
        row("rollout pause", &["rollout", "pause", "-n", "test", "deploy/web"])
            .says("deployment.apps/web paused"),
        row("rollout pause", &["rollout", "restart", "-n", "test", "deploy/web"])
            .refuses(&["can't restart paused deployment (run rollout resume first)"]),
        row("rollout resume", &["rollout", "resume", "-n", "test", "deploy/web"])
            .says("deployment.apps/web resumed"),
        row("rollout restart", &["rollout", "restart", "-n", "test", "deploy/web"])
            .says("deployment.apps/web restarted"),
        row("describe", &["describe", "deploy", "web", "-n", "test"]).tells(&[
            "5 desired | 0 updated | 0 total | 0 available | 0 unavailable",
            "StrategyType: RollingUpdate",
        ]),
        row("describe", &["describe", "sts", "db", "-n", "test"]).tells(&["Replicas: 4 desired | 0 total"]),
        row("get all", &["get", "all", "-n", "test", "-o", "name"])
            .says("deployment.apps/web\nstatefulset.apps/db"),
        row("delete", &["delete", "deploy,sts", "--all", "-n", "test"])
            .tells(&["deployment.apps \"web\" deleted", "statefulset.apps \"db\" deleted"]),
    ]
}

#[tokio::test]
async fn scale_set_and_rollout_update_workloads() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    run(&kubectl, &rows()).await;
}

/// The test acts as the controller and reports progress.
#[tokio::test]
async fn rollout_status_follows_progress() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.run(&["create", "deployment", "web", "--image=nginx", "--replicas=2"]).await.ok();
    let follow = kubectl.start("rollout", &["rollout", "status", "deploy/web", "--timeout=60s"]);
    follow.says(|said| said.contains("Waiting for deployment spec update to be observed...")).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web/status";
    let status = |ready: u32| {
        serde_json::json!({"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2,
            "availableReplicas": ready, "readyReplicas": ready}})
    };
    http.patch(path, &status(1)).await.expect(200);
    follow.says(|said| said.contains("1 of 2 updated replicas are available...")).await;
    http.patch(path, &status(2)).await.expect(200);
    let said = follow.ok().await;
    assert!(said.ends_with("deployment \"web\" successfully rolled out\n"), "{said}");
}

/// Pods are evicted, and the drain waits until they are gone.
#[tokio::test]
async fn drain_evicts_pods_and_waits() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.apply(NODE).await;
    let spec = serde_json::json!({"nodeName": "n1", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i"}]});
    for name in ["a", "b"] {
        let pod = serde_json::json!({"metadata": {"name": name}, "spec": spec});
        http.create("/api/v1/namespaces/default/pods", &pod).await;
    }
    if kubectl.can("kubectl drain --dry-run=server by evictions", 27).await {
        let said = kubectl.run(&["drain", "n1", "--force", "--dry-run=server"]).await.ok();
        assert!(said.contains("node/n1 drained (server dry run)"), "{said}");
        assert_eq!(
            http.get("/api/v1/namespaces/default/pods").await.expect(200)["items"].as_array().unwrap().len(),
            2
        );
    }
    let drain = kubectl.start("drain", &["drain", "n1", "--force", "--timeout=60s"]);
    let said = drain.ok().await;
    assert!(said.contains("node/n1 "), "{said}");
    if kubectl.can("kubectl drain by evictions of policy/v1", 22).await {
        for part in ["evicting pod default/a", "evicting pod default/b", "pod/a evicted", "pod/b evicted"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert_eq!(http.get("/api/v1/namespaces/default/pods").await.expect(200)["items"], serde_json::json!([]));
}
