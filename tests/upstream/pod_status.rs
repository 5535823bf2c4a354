//! The status of pods, their resources, and the objects that the server adds to them (upstream: test/e2e/node/pods.go,
//! test/e2e/common/node/pod_resize.go and init_container.go, test/e2e/auth/service_accounts.go).

use serde_json::{Value, json};

use super::rows::{Row, compare, message, put, send};
use super::{MAPS, PODS, plane, pod, server, strategic};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn patch(path: &str, patch: &Value) -> Row {
    send(axum::http::Method::PATCH, path, "application/strategic-merge-patch+json", &patch.to_string())
}

fn requests(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// Creates a pod with a CPU request.
async fn burstable(http: &Http, name: &str) -> Value {
    let mut body = pod(name);
    body["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    http.create(PODS, &body).await
}

/// pod_resize.go: a resize changes the spec, and therefore the generation
#[tokio::test]
async fn resize_changes_resources_and_generation() {
    let (_plane, http) = server().await;
    let made = burstable(&http, "p").await;
    let path = format!("{PODS}/p/resize");
    let resized = strategic(&http, &path, &requests("200m")).await.expect(200);
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"]["cpu"], "200m");
    assert_eq!((&made["metadata"]["generation"], &resized["metadata"]["generation"]), (&json!(1), &json!(2)));
    assert_ne!(made["metadata"]["resourceVersion"], resized["metadata"]["resourceVersion"]);
    let same = strategic(&http, &path, &requests("200m")).await.expect(200);
    assert_eq!(same["metadata"]["resourceVersion"], resized["metadata"]["resourceVersion"], "no change");
    assert_eq!(same["metadata"]["generation"], 2);
}

/// pod_resize.go and core/validation, ValidatePodResize
#[tokio::test]
async fn resize_rejects_other_changes() {
    let (_plane, http) = server().await;
    burstable(&http, "p").await;
    let mut mirror = pod("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"});
    mirror["spec"]["nodeName"] = "n".into();
    http.create(PODS, &mirror).await;
    let invalid = |name: &str, why: &str| json!([422, format!("Pod \"{name}\" is invalid: {why}")]);
    let (path, static_path) = (format!("{PODS}/p/resize"), format!("{PODS}/mirror/resize"));
    let of = |resources: Value| json!({"spec": {"containers": [{"name": "main", "resources": resources}]}});
    let class = invalid(
        "p",
        "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
    );
    compare(
        &http,
        message,
        [
            (
                patch(
                    &path,
                    &of(json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}})),
                ),
                invalid("p", "spec: Forbidden: only cpu and memory resources are mutable"),
            ),
            (
                patch(
                    &path,
                    &of(json!({"requests": {"memory": "1Mi"}, "limits": {"cpu": "100m", "memory": "1Mi"}})),
                ),
                class,
            ),
            (
                patch(&path, &json!({"spec": {"containers": [{"name": "second", "image": "i"}]}})),
                invalid("p", "spec.containers: Forbidden: containers may not be added or removed on resize"),
            ),
            (
                patch(&static_path, &requests("1")),
                invalid("mirror", "[]: Forbidden: static pods cannot be resized"),
            ),
        ],
    )
    .await;
    // Other fields of a container are no part of a resize.
    let image = json!({"spec": {"containers": [{"name": "main", "image": "other:2"}]}});
    let pod = strategic(&http, &path, &image).await.expect(200);
    assert_eq!(pod["spec"]["containers"][0]["image"], "registry.example/pause:1");
    assert_eq!(pod["metadata"]["generation"], 1);
}

/// core/validation, ValidatePodStatusUpdate
#[tokio::test]
async fn invalid_status_is_rejected_with_its_path() {
    let (_plane, http) = server().await;
    let mut body = pod("p");
    body["spec"]["restartPolicy"] = "Never".into();
    http.create(PODS, &body).await;
    let path = format!("{PODS}/p/status");
    let ended = json!([{"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1}}}]);
    let mut stored = http.get(&path).await.expect(200);
    stored["status"]["containerStatuses"] = ended;
    let stored = http.put(&path, &stored).await.expect(200);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = stored.clone();
        change(&mut changed["status"]);
        put(&path, &changed.to_string())
    };
    let invalid = |why: &str| json!([422, format!("Pod \"p\" is invalid: {why}")]);
    let condition = |condition: Value| move |status: &mut Value| status["conditions"] = json!([condition]);
    compare(&http, message, [
        (
            with(&condition(json!({"type": "Ready", "status": "True", "observedGeneration": -1}))),
            invalid("status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer"),
        ),
        (
            with(&condition(json!({"type": "a/b/c", "status": "True"}))),
            invalid("status.conditions[0].Type: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"),
        ),
        (
            with(&|status| status["observedGeneration"] = json!(-1)),
            invalid("status.observedGeneration: Invalid value: -1: must be a non-negative integer"),
        ),
        (
            with(&|status| status["qosClass"] = "Guaranteed".into()),
            invalid("status.qosClass: Invalid value: \"Guaranteed\": field is immutable"),
        ),
        (
            with(&|status| status["containerStatuses"][0]["state"] = json!({"running": {}})),
            invalid("status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"),
        ),
        (
            with(&|status| status["resourceClaimStatuses"] = json!([{"name": "r"}])),
            invalid("status.resourceClaimStatuses[0].name: Invalid value: \"r\": must match the name of an entry in `spec.resourceClaims`"),
        ),
        (
            with(&|status| status["podIPs"] = json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}])),
            invalid("status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family"),
        ),
        (
            with(&|status| status["hostIPs"] = json!([{"ip": "10.0.0.1"}])),
            invalid("status.hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"),
        ),
        (
            with(&|status| status["containerStatuses"][0]["user"] = json!({"linux": {"uid": -1, "gid": 0}})),
            invalid("status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
        ),
        (
            with(&|status| status["containerStatuses"][0]["allocatedResourcesStatus"] = json!([{"name": "cpu"}])),
            invalid("status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: \"cpu\": must match one of the container's resource requests"),
        ),
    ])
    .await;
}

/// common/node/pods.go: a node reports the resources of running containers; without that no resize is possible
#[tokio::test]
async fn pod_on_a_node_is_resized_and_reports_its_resources() {
    let plane = Plane::of(Layout::OneProcess).server_flags(&["--virtual-nodes", "1"]).start().await;
    let http = plane.http();
    burstable(&http, "p").await;
    let path = format!("{PODS}/p");
    let reports = |cpu: &'static str| {
        move |pod: &Value| {
            let status = &pod["status"]["containerStatuses"][0];
            status["allocatedResources"]["cpu"] == cpu && status["resources"]["requests"]["cpu"] == cpu
        }
    };
    http.until(&path, "reports 100m", reports("100m")).await;
    strategic(&http, &format!("{path}/resize"), &requests("200m")).await.expect(200);
    let pod = http.until(&path, "reports 200m", reports("200m")).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    http.until(&path, "observed", |pod| pod["status"]["observedGeneration"] == 2).await;
}

/// auth/service_accounts.go: "should allow opting out of API token automount"
#[tokio::test]
async fn pods_and_accounts_opt_out_of_the_token() {
    let (_plane, http) = plane().await;
    http.until(&format!("{ACCOUNTS}/default"), "created", |_| true).await;
    for (account, automount) in [("mount", json!(true)), ("nomount", json!(false)), ("unset", Value::Null)] {
        let body = json!({"metadata": {"name": account}, "automountServiceAccountToken": automount});
        http.create(ACCOUNTS, &body).await;
    }
    for (account, own, mounts) in [
        ("mount", Value::Null, true),
        ("nomount", Value::Null, false),
        ("unset", Value::Null, true),
        ("mount", json!(true), true),
        ("nomount", json!(true), true),
        ("unset", json!(true), true),
        ("mount", json!(false), false),
        ("nomount", json!(false), false),
        ("unset", json!(false), false),
    ] {
        let mut body = pod("p");
        body["metadata"] = json!({"generateName": "p-"});
        body["spec"]["serviceAccountName"] = account.into();
        body["spec"]["automountServiceAccountToken"] = own.clone();
        let made = http.create(PODS, &body).await;
        let mounted = made["spec"]["containers"][0]["volumeMounts"].as_array().map_or(0, Vec::len);
        let volumes = made["spec"]["volumes"].as_array().map_or(0, Vec::len);
        let want = usize::from(mounts);
        assert_eq!((mounted, volumes), (want, want), "{account} {own}");
    }
}

/// auth/service_accounts.go: the projected volume; plugin/pkg/admission/serviceaccount: a container that mounts a volume at
/// the path of the token keeps it
#[tokio::test]
async fn token_volume_is_projected_beside_other_mounts() {
    let (_plane, http) = plane().await;
    http.until(&format!("{ACCOUNTS}/default"), "created", |_| true).await;
    let mut body = pod("p");
    body["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    body["spec"]["initContainers"] = json!([{"name": "first", "image": "i"}]);
    body["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": TOKEN_PATH}]);
    let made = http.create(PODS, &body).await;
    let volume = &made["spec"]["volumes"][1];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
    let projected = json!({"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]});
    assert_eq!(volume["projected"], projected);
    let mount = json!([{"name": name, "readOnly": true, "mountPath": TOKEN_PATH}]);
    assert_eq!(made["spec"]["initContainers"][0]["volumeMounts"], mount);
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"], body["spec"]["containers"][0]["volumeMounts"]);

    // If every container mounts another volume there, the pod gets no volume.
    body["metadata"]["name"] = "q".into();
    body["spec"]["initContainers"] = Value::Null;
    let made = http.create(PODS, &body).await;
    assert_eq!(made["spec"]["volumes"], body["spec"]["volumes"]);
}

/// auth/service_accounts.go: "should guarantee kube-root-ca.crt exist in any namespace"
#[tokio::test]
async fn root_certificate_is_repaired() {
    let (_plane, http) = plane().await;
    let path = format!("{MAPS}/kube-root-ca.crt");
    let first = http.until(&path, "published", |map| map["data"].is_object()).await;
    http.delete(&path).await.expect(200);
    let second =
        http.until(&path, "published again", |map| map["metadata"]["uid"] != first["metadata"]["uid"]).await;
    assert_eq!(second["data"], first["data"]);
    http.patch(&path, &json!({"data": {"ca.crt": null, "other": "x"}})).await.expect(200);
    http.until(&path, "repaired", |map| map["data"] == first["data"]).await;
    http.patch(&path, &json!({"metadata": {"annotations": null}})).await.expect(200);
    let described = |map: &Value| map["metadata"]["annotations"] == first["metadata"]["annotations"];
    http.until(&path, "described", described).await;
}

/// apiserver pkg/registry/generic/registry/store.go: a name that the client chose is not generated again
#[tokio::test]
async fn taken_name_has_the_text_of_generated_names() {
    let (_plane, http) = server().await;
    let body = json!({"metadata": {"name": "a", "generateName": "g-", "finalizers": ["example.com/keep"]}});
    http.create(MAPS, &body).await;
    let taken =
        "configmaps \"a\" already exists, the server was not able to generate a unique name for the object";
    let answer = http.post(MAPS, &body).await.expect(409);
    assert_eq!((&answer["message"], &answer["reason"]), (&json!(taken), &json!("AlreadyExists")));
    assert_eq!(answer["details"]["retryAfterSeconds"], 1);
    http.delete(&format!("{MAPS}/a")).await.expect(200);
    let answer = http.post(MAPS, &body).await.expect(409);
    assert_eq!(answer["message"], format!("object is being deleted: {taken}"));
    let plain = json!({"metadata": {"name": "a"}});
    let answer = http.post(MAPS, &plain).await.expect(409);
    assert_eq!(answer["message"], "object is being deleted: configmaps \"a\" already exists");
}
