//! The generators of `create`, `autoscale`, and the tables and descriptions of the objects that they create.

use super::{Row, row, run};
use crate::harness::plane::{Layout, Plane};

const AGENT: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: test}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {disk: fast}
      containers: [{name: agent, image: agent}]
";

const POLICY: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: quiet, namespace: test}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
";

const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: test, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: '', port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.1.0.7]}, {addresses: [10.1.0.8]}]
";

/// On a server without controllers: no controller changes a status.
pub(super) fn rows() -> Vec<Row> {
    [jobs(), stored_data(), policies()].into_iter().flatten().collect()
}

fn jobs() -> Vec<Row> {
    vec![
        row("create job", &["create", "job", "once", "-n", "test", "--image=busybox", "--", "date"])
            .says("job.batch/once created"),
        row("create job", &["create", "job", "bad name", "-n", "test", "--image=busybox"])
            .refuses(&["Job.batch \"bad name\" is invalid", "a lowercase RFC 1123 subdomain must consist of"]),
        row(
            "create cronjob",
            &[
                "create",
                "cronjob",
                "nightly",
                "-n",
                "test",
                "--image=busybox",
                "--schedule=0 3 * * *",
                "--",
                "date",
            ],
        )
        .since(21)
        .says("cronjob.batch/nightly created"),
        row(
            "create cronjob",
            &["create", "cronjob", "never", "-n", "test", "--image=busybox", "--schedule=0 25 * * *"],
        )
        .since(21)
        .refuses(&["spec.schedule: Invalid value: \"0 25 * * *\""]),
        row("create job --from", &["create", "job", "tonight", "-n", "test", "--from=cronjob/nightly"])
            .since(21)
            .says("job.batch/tonight created"),
        row(
            "create job --from",
            &[
                "get",
                "job",
                "tonight",
                "-n",
                "test",
                "-o",
                "jsonpath={.metadata.annotations} {.metadata.ownerReferences[0].kind} {.spec.template.spec.containers[0].command}",
            ],
        )
        .since(21)
        .says(r#"{"cronjob.kubernetes.io/instantiate":"manual"} CronJob ["date"]"#),
        row("get", &["get", "job", "once", "-n", "test"]).says(
            "NAME   STATUS    COMPLETIONS   DURATION   AGE\nonce   Running   0/1                      AGE",
        ),
        row("get", &["get", "cronjob", "-n", "test"]).since(21).says(
            "NAME      SCHEDULE    TIMEZONE   SUSPEND   ACTIVE   LAST SCHEDULE   AGE\nnightly   0 3 * * *   <none>     False     0        <none>          AGE",
        ),
        row("describe", &["describe", "job", "once", "-n", "test"]).tells(&[
            "Parallelism: 1\nCompletions: 1\n",
            "Command:\n date\n",
            "batch.kubernetes.io/job-name=once\n",
        ]),
        row("describe", &["describe", "cronjob", "nightly", "-n", "test"]).since(21).tells(&[
            "Schedule: 0 3 * * *\nConcurrency Policy: Allow\nSuspend: False\n",
            "Last Schedule Time: <unset>\nActive Jobs: <none>\n",
        ]),
        row("get", &["create", "-f", "-"]).reads(AGENT).says("daemonset.apps/agent created"),
        row("get", &["get", "ds", "-n", "test"]).says(
            "NAME    DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE\nagent   0         0         0       0            0           disk=fast       AGE",
        ),
        row("describe", &["describe", "ds", "agent", "-n", "test"]).tells(&[
            "Selector: app=agent\nNode-Selector: disk=fast\n",
            "Desired Number of Nodes Scheduled: 0\n",
            "Image: agent\n",
        ]),
    ]
}

fn stored_data() -> Vec<Row> {
    vec![
        row(
            "create configmap",
            &["create", "configmap", "conf", "-n", "test", "--from-literal=a=b", "--from-literal=c=d"],
        )
        .says("configmap/conf created"),
        row("create configmap", &["get", "cm", "conf", "-n", "test"])
            .says("NAME   DATA   AGE\nconf   2      AGE"),
        row("describe", &["describe", "cm", "conf", "-n", "test"]).tells(&["a:\n----\nb\n", "c:\n----\nd\n"]),
        row(
            "create secret generic",
            &["create", "secret", "generic", "pass", "-n", "test", "--from-literal=word=hushed"],
        )
        .says("secret/pass created"),
        row(
            "create secret tls",
            &[
                "create",
                "secret",
                "tls",
                "cert",
                "-n",
                "test",
                concat!("--cert=", env!("CARGO_MANIFEST_DIR"), "/tests/tls_files/server.crt"),
                concat!("--key=", env!("CARGO_MANIFEST_DIR"), "/tests/tls_files/server.key"),
            ],
        )
        .says("secret/cert created"),
        row(
            "create secret docker-registry",
            &[
                "create",
                "secret",
                "docker-registry",
                "pull",
                "-n",
                "test",
                "--docker-server=registry.example.com",
                "--docker-username=u",
                "--docker-password=p",
            ],
        )
        .says("secret/pull created"),
        row("get", &["get", "secret", "-n", "test"]).says(
            "\
NAME   TYPE                             DATA   AGE
cert   kubernetes.io/tls                2      AGE
pass   Opaque                           1      AGE
pull   kubernetes.io/dockerconfigjson   1      AGE",
        ),
        row("create serviceaccount", &["create", "serviceaccount", "robot", "-n", "test"])
            .says("serviceaccount/robot created"),
        row("describe", &["describe", "sa", "robot", "-n", "test"])
            .tells(&["Image pull secrets: <none>\nMountable secrets: <none>\nTokens: <none>\n"]),
        row("create quota", &["create", "quota", "small", "-n", "test", "--hard=secrets=9,pods=2"])
            .says("resourcequota/small created"),
        row(
            "create quota",
            &["create", "quota", "odd", "-n", "test", "--hard=services=1", "--scopes=BestEffort"],
        )
        .refuses(&["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"]),
        row("get", &["get", "quota", "small", "-n", "test", "-o", "jsonpath={.spec.hard}"])
            .says(r#"{"pods":"2","secrets":"9"}"#),
    ]
}

fn policies() -> Vec<Row> {
    vec![
        row(
            "create ingress",
            &[
                "create",
                "ingress",
                "shop",
                "-n",
                "test",
                "--class=front",
                "--rule=shop.example.com/cart*=cart:8080,tls=shop-cert",
                "--default-backend=other:80",
            ],
        )
        .says("ingress.networking.k8s.io/shop created"),
        row("get", &["get", "ingress", "-n", "test"]).says(
            "NAME   CLASS   HOSTS              ADDRESS   PORTS     AGE\nshop   front   shop.example.com             80, 443   AGE",
        ),
        row("describe", &["describe", "ingress", "shop", "-n", "test"]).tells(&[
            "Default backend: other:80",
            "TLS:\n shop-cert terminates shop.example.com\n",
            "/cart cart:8080",
        ]),
        row("get", &["create", "-f", "-"]).reads(POLICY).says("networkpolicy.networking.k8s.io/quiet created"),
        row("get", &["get", "netpol", "-n", "test"]).says("NAME    POD-SELECTOR   AGE\nquiet   app=web        AGE"),
        row("describe", &["describe", "netpol", "quiet", "-n", "test"])
            .tells(&["(Selected pods are isolated for ingress connectivity)", "Policy Types: Ingress\n"]),
        row("create pdb", &["create", "pdb", "web", "-n", "test", "--selector=app=web", "--max-unavailable=50%"])
            .since(22)
            .says("poddisruptionbudget.policy/web created"),
        row("get", &["get", "pdb", "-n", "test"]).since(22).says(
            "NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE\nweb    N/A             50%               0                     AGE",
        ),
        row("describe", &["describe", "pdb", "web", "-n", "test"])
            .since(22)
            .tells(&["Max unavailable: 50%\nSelector: app=web\n", "Allowed disruptions: 0\n"]),
        row("autoscale", &["create", "deployment", "web", "-n", "test", "--image=nginx"])
            .says("deployment.apps/web created"),
        row("autoscale", &["autoscale", "deployment", "web", "-n", "test", "--min=2", "--max=4", "--cpu-percent=80"])
            .says("horizontalpodautoscaler.autoscaling/web autoscaled"),
        row(
            "autoscale",
            &["get", "hpa.v2.autoscaling", "web", "-n", "test", "-o", "jsonpath={.spec.metrics[0].resource}"],
        )
        .says(r#"{"name":"cpu","target":{"averageUtilization":80,"type":"Utilization"}}"#),
        row("get", &["get", "hpa", "-n", "test"]).says(
            "NAME   REFERENCE        TARGETS              MINPODS   MAXPODS   REPLICAS   AGE\nweb    Deployment/web   cpu: <unknown>/80%   2         4         0          AGE",
        ),
        row("describe", &["describe", "hpa", "web", "-n", "test"])
            .tells(&["Reference: Deployment/web\n", "Min replicas: 2\nMax replicas: 4\n"]),
        row("get", &["create", "-f", "-"]).reads(SLICE).says("endpointslice.discovery.k8s.io/web-1 created"),
        row("get", &["get", "endpointslices", "-n", "test"]).says(
            "NAME    ADDRESSTYPE   PORTS   ENDPOINTS           AGE\nweb-1   IPv4          8080    10.1.0.7,10.1.0.8   AGE",
        ),
        row("top", &["top", "nodes"]).refuses(&["error: Metrics API not available"]),
        row("top", &["top", "pods", "-n", "test"]).refuses(&["error: Metrics API not available"]),
    ]
}

#[tokio::test]
async fn generators_create_objects_and_tables_show_them() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    run(&kubectl, &rows()).await;
}
