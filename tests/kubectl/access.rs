//! Commands about permissions, and commands for Services: `auth`, `create role`, `set subject`, `expose`, `set selector`,
//! `cluster-info`.

use serde_json::json;

use super::{NODE, Row, row, run};
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::tls::{Secured, file};

/// A Role and its binding.
const READERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: readers, namespace: test}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: readers}
subjects:
- {kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}
";

/// The Role with other rules.
const LISTERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: readers, namespace: test}
rules:
- {apiGroups: [''], resources: [pods], verbs: [list]}
";

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
        row(
            "create clusterrole --aggregation-rule",
            &["create", "clusterrole", "all", "--aggregation-rule=rbac.example.com/aggregate=true"],
        )
        .says("clusterrole.rbac.authorization.k8s.io/all created"),
        row(
            "create clusterrole --aggregation-rule",
            &[
                "get",
                "clusterrole",
                "all",
                "-o",
                "jsonpath={.aggregationRule.clusterRoleSelectors[*].matchLabels}",
            ],
        )
        .says(r#"{"rbac.example.com/aggregate":"true"}"#),
        row(
            "set subject",
            &[
                "set",
                "subject",
                "rolebinding",
                "read",
                "-n",
                "test",
                "--user=ann",
                "--serviceaccount=test:robot",
            ],
        )
        .says("rolebinding.rbac.authorization.k8s.io/read subjects updated"),
        row("set subject", &["get", "rolebinding", "read", "-n", "test", "-o", "wide", "--no-headers"])
            .tells(&["bob, ann", " test/robot"]),
        row("auth reconcile", &["auth", "reconcile", "-f", "-"]).reads(READERS).tells(&[
            "role.rbac.authorization.k8s.io/readers reconciled\n",
            "rolebinding.rbac.authorization.k8s.io/readers reconciled\n",
        ]),
        // The rules of both files remain, until extra permissions are removed.
        row("auth reconcile", &["auth", "reconcile", "-f", "-"])
            .reads(LISTERS)
            .tells(&["readers reconciled\n"]),
        row("auth reconcile", &["get", "role", "readers", "-n", "test", "-o", "jsonpath={.rules[*].verbs}"])
            .says(r#"["get"] ["list"]"#),
        row("auth reconcile", &["auth", "reconcile", "-f", "-", "--remove-extra-permissions"])
            .reads(LISTERS)
            .tells(&["readers reconciled\n"]),
        row("auth reconcile", &["get", "role", "readers", "-n", "test", "-o", "jsonpath={.rules[*].verbs}"])
            .says(r#"["list"]"#),
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
        row("set selector", &["set", "selector", "svc", "web", "-n", "test", "app=web,tier=front"])
            .says("service/web selector updated"),
        row("set selector", &["set", "selector", "svc", "web", "-n", "test", "app in (web)"])
            .refuses(&["match expression [{app In [web]}] not supported on this object"]),
        row("set selector", &["get", "svc", "web", "-n", "test", "-o", "jsonpath={.spec.selector}"])
            .says(r#"{"app":"web","tier":"front"}"#),
        row("set serviceaccount", &["set", "serviceaccount", "deploy/web", "robot", "-n", "test"])
            .says("deployment.apps/web serviceaccount updated"),
        row(
            "set serviceaccount",
            &[
                "get",
                "deploy",
                "web",
                "-n",
                "test",
                "-o",
                "jsonpath={.spec.template.spec.serviceAccountName}",
            ],
        )
        .says("robot"),
        row("create pdb", &["create", "pdb", "web", "-n", "test", "--selector=app=web", "--min-available=1"])
            .since(22)
            .says("poddisruptionbudget.policy/web created"),
        row("create pdb", &["get", "pdb", "web", "-n", "test", "--no-headers"])
            .since(22)
            .tells(&["web 1 N/A 0"]),
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

/// Older versions of kubectl read the Endpoints, newer ones the EndpointSlices; the controllers write both.
#[tokio::test]
async fn described_service_lists_its_endpoints() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.run(&["create", "service", "clusterip", "web", "--tcp=80:8080"]).await.ok();
    // An EndpointSlice contains only pods with a node.
    kubectl.apply(NODE).await;
    let spec = json!({"nodeName": "n1", "containers": [{"name": "main", "image": "nginx"}]});
    http.create(PODS, &json!({"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec})).await;
    let status = json!({"phase": "Running", "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}],
        "conditions": [{"type": "Ready", "status": "True"}]});
    http.patch(&format!("{PODS}/web/status"), &json!({"status": status})).await.expect(200);
    http.until("/api/v1/namespaces/default/endpoints/web", "it has the address", |endpoints| {
        endpoints["subsets"][0]["addresses"][0]["ip"] == "10.1.0.7"
    })
    .await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slices = format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3Dweb");
    http.until(&slices, "one has the address", |slices| {
        slices["items"][0]["endpoints"][0]["addresses"][0] == "10.1.0.7"
    })
    .await;
    let described = [
        row("describe", &["describe", "svc", "web"]).tells(&[
            "Selector: app=web\n",
            "TargetPort: 8080/TCP\n",
            "Endpoints: 10.1.0.7:8080\n",
        ]),
        row("get", &["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "--no-headers"])
            .tells(&[" IPv4 8080 10.1.0.7 "]),
        row("get", &["get", "endpoints", "web", "--no-headers"]).tells(&["web 10.1.0.7:8080 "]),
    ];
    run(&kubectl, &described).await;
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
