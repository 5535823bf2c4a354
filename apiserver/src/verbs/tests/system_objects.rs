//! The objects that the server maintains, and autoscalers in both versions.

use serde_json::{Value, json};

use super::rig::Rig;
use crate::system_objects;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

fn service(name: &str, ip: Option<&str>) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "clusterIP": ip}})
}

#[tokio::test]
async fn cluster_ip_is_published_with_its_service() {
    let rig = Rig::new().await;
    rig.post(SERVICES, service("a", Some("10.0.0.9"))).await.expect(201);
    let address = format!("{ADDRESSES}/10.0.0.9");
    let published = rig.get(&address).await.expect(200).json();
    let parent = json!({"resource": "services", "namespace": "default", "name": "a"});
    assert_eq!(published["spec"], json!({ "parentRef": parent }));
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    assert_eq!(published["metadata"]["labels"], labels);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example", "ports": null}});
    rig.patch(&format!("{SERVICES}/a"), "merge", external).await.expect(200);
    rig.get(&address).await.expect(404);
    rig.post(SERVICES, service("b", Some("10.0.0.9"))).await.expect(201);
    rig.delete(&format!("{SERVICES}/b"), Value::Null).await.expect(200);
    rig.get(&address).await.expect(404);
}

#[tokio::test]
async fn address_of_a_client_is_not_assigned() {
    let rig = Rig::new().await;
    let address = json!({
        "metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": {"resource": "things", "name": "t"}},
    });
    rig.post(ADDRESSES, address).await.expect(201);
    let refused = rig.post(SERVICES, service("a", Some("10.0.0.9"))).await.expect(422).json();
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.ends_with("failed to allocate IP 10.0.0.9: provided IP is already allocated"),
        "{message}"
    );
    rig.delete(&format!("{ADDRESSES}/10.0.0.9"), Value::Null).await.expect(200);
    rig.post(SERVICES, service("a", Some("10.0.0.9"))).await.expect(201);
}

#[tokio::test]
async fn date_since_which_tokens_are_tracked_is_published_and_restored() {
    let rig = Rig::with(|config| config.tracks_legacy_tokens = true).await;
    let map =
        "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    assert_eq!(rig.get(map).await.expect(200).json()["data"], json!({"since": "2026-01-01"}));
    rig.patch(map, "merge", json!({"data": {"since": "2025-02-03"}})).await.expect(200);
    let keep = async || {
        system_objects::keep(&rig.server.inner(), &mut system_objects::Progress::default(), false).await
    };
    keep().await;
    assert_eq!(rig.get(map).await.expect(200).json()["data"], json!({"since": "2025-02-03"}), "a date stays");
    rig.patch(map, "merge", json!({"data": {"since": "x"}})).await.expect(200);
    keep().await;
    assert_eq!(rig.get(map).await.expect(200).json()["data"], json!({"since": "2026-01-01"}));
}

#[tokio::test]
async fn new_server_has_the_objects_of_every_cluster() {
    let rig = Rig::new().await;
    let range = rig.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.expect(200).json();
    assert_eq!(range["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
    let levels = rig.get(&format!("{FLOW}/prioritylevelconfigurations")).await.expect(200).names();
    assert_eq!(levels.len(), 8, "{levels:?}");
    let schemas = rig.get(&format!("{FLOW}/flowschemas")).await.expect(200).json();
    for schema in schemas["items"].as_array().unwrap() {
        assert_eq!(schema["status"]["conditions"][0]["status"], "False", "{schema}");
        assert_eq!(
            schema["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"], "true",
            "{schema}"
        );
    }
    let fixed = json!({"spec": {"matchingPrecedence": 9}});
    rig.patch(&format!("{FLOW}/flowschemas/exempt"), "merge", fixed).await.expect(422);
    let storage = rig.get(&format!("{API_SERVICES}/v1.storage.k8s.io")).await.expect(200).json();
    assert_eq!(
        storage["spec"],
        json!({"group": "storage.k8s.io", "version": "v1", "groupPriorityMinimum": 16800, "versionPriority": 15})
    );
    assert_eq!(storage["status"]["conditions"][0]["reason"], "Local");
    let core = rig.get(&format!("{API_SERVICES}/v1.")).await.expect(200).json();
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    rig.get(&format!("{API_SERVICES}/v1.apiregistration.k8s.io")).await.expect(404);
}

#[tokio::test]
async fn groups_of_custom_kinds_have_api_services() {
    let rig = Rig::new().await;
    let from = rig.head();
    let mut events = rig.watch(&format!("{API_SERVICES}?watch=1&resourceVersion={from}")).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "metadata": {"name": "widgets.walk.example"},
        "spec": {
            "group": "walk.example", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    rig.post(definitions, definition).await.expect(201);
    let added = events.next().await.unwrap();
    assert_eq!(
        (&added["type"], &added["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("v1beta1.walk.example"))
    );
    assert_eq!(
        added["object"]["spec"],
        json!({"group": "walk.example", "version": "v1beta1", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    rig.delete(&format!("{definitions}/widgets.walk.example"), Value::Null).await.expect(200);
    let deleted = events.next().await.unwrap();
    assert_eq!(
        (&deleted["type"], &deleted["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("v1beta1.walk.example"))
    );
}

#[tokio::test]
async fn autoscaler_has_two_versions() {
    let path = |version: &str, name: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers{name}")
    };
    let rig = Rig::new().await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let old = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
    });
    let made = rig.post(&path("v1", ""), old.clone()).await.expect(201).json();
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["minReplicas"], 1);
    let new = rig.get(&path("v2", "/a")).await.expect(200).json();
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(new["metadata"], made["metadata"]);
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}});
    assert_eq!(new["spec"]["metrics"], json!([{"type": "Resource", "resource": cpu}]));

    let behavior = json!({"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}});
    let patched = rig.patch(&path("v2", "/a"), "merge", behavior).await.expect(200).json();
    let more =
        rig.patch(&path("v1", "/a"), "merge", json!({"spec": {"maxReplicas": 9}})).await.expect(200).json();
    let annotations = more["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["autoscaling.alpha.kubernetes.io/behavior"]);
    let now = rig.get(&path("v2", "/a")).await.expect(200).json();
    assert_eq!(
        now["spec"]["behavior"], patched["spec"]["behavior"],
        "an update in version 1 changes no other part"
    );
    assert_eq!((&now["spec"]["maxReplicas"], now["metadata"].get("annotations")), (&json!(9), None));

    let bad = json!({"spec": {"maxReplicas": 0}});
    let refused = rig.patch(&path("v1", "/a"), "merge", bad).await.expect(422).json();
    assert_eq!(refused["details"]["group"], "autoscaling");
    let wrong = rig.post(&path("v2", ""), old).await.expect(400).json();
    assert_eq!(
        wrong["message"],
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
    );
}
