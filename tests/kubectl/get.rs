//! `kubectl get` in every output format. Watches are in `watch`.

use serde_json::json;

use super::{CLASS, MYCLAIM, NODE, POD, Row, bound, row, run};

/// Three objects that need three pages, with labels and ranks.
const NUMBERS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: test, labels: {parity: odd}}
data: {rank: c}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: three, namespace: test, labels: {parity: odd, prime: ''}}
data: {rank: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, namespace: test, labels: {parity: even, prime: ''}}
data: {rank: b}
";

/// The features of `get`, on the objects of the test below.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("get", &["get", "pv,pvc", "-n", "test"]).says("\
NAME                   CAPACITY   ACCESS MODES   RECLAIM POLICY   STATUS   CLAIM          STORAGECLASS   VOLUMEATTRIBUTESCLASS   REASON   AGE
persistentvolume/pv3   5Gi        RWO,ROX,RWX    Retain           Bound    test/myclaim                  <unset>                          AGE

NAME                            STATUS   VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   VOLUMEATTRIBUTESCLASS   AGE
persistentvolumeclaim/myclaim   Bound    pv3      5Gi        RWO,ROX,RWX                   <unset>                 AGE"),
        row("get", &["get", "sc"]).says("\
NAME             PROVISIONER        RECLAIMPOLICY   VOLUMEBINDINGMODE   ALLOWVOLUMEEXPANSION   AGE
slow (default)   example.com/none   Delete          Immediate           false                  AGE"),
        row("get", &["get", "persistentvolumes/pv3", "--no-headers"]).tells(&["pv3   5Gi "]),
        row("get", &["get", "pods.v1.", "web", "-n", "test"]).says("\
NAME   READY   STATUS    RESTARTS   AGE
web    0/1     Pending   0          AGE"),
        row("get -o wide", &["get", "pv", "-o", "wide"]).says("\
NAME   CAPACITY   ACCESS MODES   RECLAIM POLICY   STATUS   CLAIM          STORAGECLASS   VOLUMEATTRIBUTESCLASS   REASON   AGE   VOLUMEMODE
pv3    5Gi        RWO,ROX,RWX    Retain           Bound    test/myclaim                  <unset>                          AGE   Filesystem"),
        row("get -A", &["get", "pvc", "-A", "-o", "wide"]).says("\
NAMESPACE   NAME      STATUS   VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   VOLUMEATTRIBUTESCLASS   AGE   VOLUMEMODE
test        myclaim   Bound    pv3      5Gi        RWO,ROX,RWX                   <unset>                 AGE   Filesystem"),
        row("get -o name", &["get", "pvc", "-n", "test", "-o", "name"]).says("persistentvolumeclaim/myclaim"),
        row("get -o yaml", &["get", "pvc", "myclaim", "-n", "test", "-o", "yaml"]).tells(&[
            "apiVersion: v1\n",
            "kind: PersistentVolumeClaim\n",
            "  volumeName: pv3\n",
            "  phase: Bound\n",
        ]),
        row("get -o yaml", &["get", "cm", "-n", "test", "-o", "yaml"])
            .tells(&["apiVersion: v1\nitems:\n- apiVersion: v1\n", "kind: List\nmetadata:\n  resourceVersion: \"\"\n"]),
        row("get -o json", &["get", "pvc", "-A", "-o", "json"])
            .tells(&["\"kind\": \"List\"", "\"kind\": \"PersistentVolumeClaim\"", "\"phase\": \"Bound\""]),
        row("get -o jsonpath", &["get", "pv", "-o", "jsonpath={.items[*].spec.claimRef.name}"]).says("myclaim"),
        row(
            "get -o jsonpath",
            &["get", "cm", "-n", "test", "-l", "parity", "-o", "jsonpath={range .items[*]}{.metadata.name}={.data.rank} {end}"],
        )
        .says("one=c three=a two=b"),
        row("get -o custom-columns", &["get", "pv", "-o", "custom-columns=WHO:.metadata.name,SIZE:.spec.capacity.storage,NO:.spec.no"])
            .says("WHO   SIZE   NO\npv3   5Gi    <none>"),
        row("get -o go-template", &["get", "cm", "-n", "test", "-l", "prime", "-o", "go-template={{range .items}}{{.metadata.name}},{{end}}"])
            .says("three,two,"),
        row("get --sort-by", &["get", "cm", "-n", "test", "-l", "parity", "--sort-by=.data.rank", "-o", "name"])
            .says("configmap/three\nconfigmap/two\nconfigmap/one"),
        row("get --sort-by", &["get", "cm", "-n", "test", "-l", "parity", "--sort-by=.data.rank", "--no-headers"])
            .says("three   1     AGE\ntwo     1     AGE\none     1     AGE"),
        row("get -l", &["get", "cm", "-n", "test", "-l", "parity=odd", "-o", "name"]).says("configmap/one\nconfigmap/three"),
        row("get -l", &["get", "cm", "-n", "test", "-l", "parity in (odd, even),!prime", "-o", "name"]).says("configmap/one"),
        row("get -l", &["get", "cm", "-n", "test", "-l", "prime,parity!=odd", "-o", "name"]).says("configmap/two"),
        row("get --show-labels", &["get", "cm", "one", "-n", "test", "--show-labels"])
            .says("NAME   DATA   AGE   LABELS\none    1      AGE   parity=odd"),
        row("get -L", &["get", "cm", "two", "-n", "test", "-L", "parity", "--no-headers"]).says("two   1     AGE   even"),
        row("get --show-kind", &["get", "cm", "two", "-n", "test", "--show-kind", "--no-headers"]).tells(&["configmap/two   1 "]),
        row("get --field-selector", &["get", "pods", "-A", "--field-selector", "spec.nodeName=n1,status.phase!=Running", "-o", "name"])
            .says("pod/web"),
        row("get --field-selector", &["get", "pods", "-A", "--field-selector", "spec.nodeName!=n1", "-o", "name"]).says(""),
        row("get --field-selector", &["get", "cm", "-n", "test", "--field-selector", "metadata.name=two", "-o", "name"])
            .says("configmap/two"),
        row("get --field-selector", &["get", "cm", "-n", "test", "--field-selector", "data.rank=a"])
            .refuses(&["(BadRequest)", "\"data.rank\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""]),
        // The log of requests shows more than one of them.
        row("get --chunk-size", &["get", "cm", "-n", "test", "-l", "parity", "--chunk-size=1", "-v=8", "-o", "name"])
            .tells(&["configmap/one\nconfigmap/three\nconfigmap/two\n", "limit=1", "continue="]),
        row("get --show-managed-fields", &["get", "pv", "pv3", "-o", "yaml", "--show-managed-fields"])
            .since(21)
            .tells(&["  managedFields:\n", "    manager: kubectl-client-side-apply\n", "    operation: Update\n"]),
        row("get --subresource", &["get", "pvc", "myclaim", "-n", "test", "--subresource=status", "-o", "jsonpath={.status.phase}"])
            .since(24)
            .says("Bound"),
        row("get -f", &["get", "-f", "-", "-o", "name"]).reads(CLASS).says("storageclass.storage.k8s.io/slow"),
        row("get all", &["get", "all", "-n", "test", "-o", "name"]).says("pod/web"),
        row("get --ignore-not-found", &["get", "pv", "absent", "--ignore-not-found"]).says(""),
        row("get --raw", &["get", "--raw", "/readyz?verbose"]).tells(&["[+]ping ok\n", "readyz check passed\n"]),
        row("get --raw", &["get", "--raw", "/api/v1/namespaces/test/configmaps/two"]).tells(&["\"rank\":\"b\""]),
        row("get", &["get", "pv", "absent"]).refuses(&["Error from server (NotFound): persistentvolumes \"absent\" not found\n"]),
        row("get", &["get", "nothing"]).refuses(&["the server doesn't have a resource type \"nothing\""]),
    ]
}

#[tokio::test]
async fn get_prints_every_output_format() {
    let (plane, kubectl) = bound().await;
    // The class is the default only for claims created after it.
    for yaml in [CLASS, NODE, POD, NUMBERS] {
        kubectl.apply(yaml).await;
    }
    run(&kubectl, &rows()).await;
    drop(plane);
}

#[tokio::test]
async fn get_output_can_be_replaced_unchanged() {
    let (plane, kubectl) = bound().await;
    let yaml = kubectl.run(&["get", "pvc", "myclaim", "-n", "test", "-o", "yaml"]).await.ok();
    let before = plane.http().get(MYCLAIM).await.expect(200);
    let said = kubectl.run_with(&["replace", "-f", "-"], &yaml).await.ok();
    assert_eq!(said, "persistentvolumeclaim/myclaim replaced\n");
    let after = plane.http().get(MYCLAIM).await.expect(200);
    assert_eq!((&after["spec"], &after["status"]), (&before["spec"], &before["status"]));
    let json = kubectl.run(&["get", "pv,pvc", "-A", "-o", "json"]).await.ok();
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, [json!("PersistentVolume"), json!("PersistentVolumeClaim")]);
}
