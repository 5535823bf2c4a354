//! Commands about permissions, and commands for Services: `auth`, `create role`, `expose`, `cluster-info`.

use super::{Row, row, run};
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::tls::{Secured, file};

/// On a server without authentication: everything is allowed.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("auth can-i", &["auth", "can-i", "create", "pods"]).says("yes"),
        row("auth can-i", &["auth", "can-i", "get", "/metrics"]).says("yes"),
        row("auth can-i", &["auth", "can-i", "--list", "--no-headers"]).tells(&["*.*", "[*]"]),
        row(
            "create role",
            &["create", "role", "reader", "-n", "test", "--verb=get,list", "--resource=pods,pods/log"],
        )
        .says("role.rbac.authorization.k8s.io/reader created"),
        row("create role", &["create", "rolebinding", "read", "-n", "test", "--role=reader", "--user=bob"])
            .says("rolebinding.rbac.authorization.k8s.io/read created"),
        row(
            "create role",
            &["create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics"],
        )
        .says("clusterrole.rbac.authorization.k8s.io/metrics created"),
        row(
            "create role",
            &["create", "clusterrolebinding", "metrics", "--clusterrole=metrics", "--group=scrapers"],
        )
        .says("clusterrolebinding.rbac.authorization.k8s.io/metrics created"),
        row("describe", &["describe", "role", "reader", "-n", "test"]).tells(&["pods/log [] [] [get list]"]),
        row("describe", &["describe", "rolebinding", "read", "-n", "test"])
            .tells(&["Kind: Role\n", "User bob"]),
        row("create service", &["create", "service", "clusterip", "shop", "-n", "test", "--tcp=80:8080"])
            .says("service/shop created"),
        row("create service", &["get", "svc", "shop", "-n", "test", "--no-headers"])
            .tells(&["shop ClusterIP 10.", "80/TCP"]),
        row("expose", &["create", "deployment", "web", "-n", "test", "--image=nginx"])
            .says("deployment.apps/web created"),
        row("expose", &["expose", "deployment", "web", "-n", "test", "--port=80"])
            .says("service/web exposed"),
        row(
            "expose",
            &["get", "svc", "web", "-n", "test", "-o", "jsonpath={.spec.selector} {.spec.ports[0].port}"],
        )
        .says(r#"{"app":"web"} 80"#),
        row("describe", &["describe", "svc", "web", "-n", "test"])
            .tells(&["Selector: app=web\n", "Type: ClusterIP\n"]),
        row("create pdb", &["create", "pdb", "web", "-n", "test", "--selector=app=web", "--min-available=1"])
            .says("poddisruptionbudget.policy/web created"),
        row("create pdb", &["get", "pdb", "web", "-n", "test", "--no-headers"]).tells(&["web 1 N/A 0"]),
        row("create priorityclass", &["create", "priorityclass", "high", "--value=1000"])
            .says("priorityclass.scheduling.k8s.io/high created"),
        row("create token", &["create", "sa", "robot", "-n", "test"]).says("serviceaccount/robot created"),
        row("create token", &["create", "token", "robot", "-n", "test"]).since(24).tells(&["."]),
        row("cluster-info", &["cluster-info"]).tells(&["is running at", "http://127.0.0.1:"]),
    ]
}

#[tokio::test]
async fn auth_roles_and_services_work() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    run(&kubectl, &rows()).await;
}

#[tokio::test]
async fn whoami_reports_the_user_of_the_token() {
    let server = Secured::start().await;
    let ca = file("ca.crt").display().to_string();
    let kubectl = Kubectl::new(&server.url, server.dir.path());
    if kubectl.can("kubectl auth whoami", 27).await {
        let args = ["--certificate-authority", &ca, "--token", "hush", "auth", "whoami"];
        let said = kubectl.run(&args).await.ok();
        for part in ["Username", "bob", "u2", "[readers system:authenticated]"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
