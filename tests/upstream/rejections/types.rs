//! Values of wrong types in bodies and patches.

use axum::http::Method;
use serde_json::json;

use super::{CLASSES, DEPLOYMENTS, bad};
use crate::harness::http::{Answer, Http};
use crate::upstream::rows::{compare, message, post, send};
use crate::upstream::{MAPS, PODS};

/// Upstream: recorded answers (numbers in JSON, errors of fields), sigs.k8s.io/json, and the `types.go` of each package of API types.
pub(super) async fn misfits(http: &Http) {
    let rows = [
        (
            MAPS,
            "ConfigMap",
            r#"{"metadata":{"labels":"x"}}"#,
            "string",
            "ObjectMeta.metadata.labels",
            "map[string]string",
        ),
        (
            MAPS,
            "ConfigMap",
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "number",
            "ObjectMeta.metadata.labels",
            "string",
        ),
        (
            MAPS,
            "ConfigMap",
            r#"{"metadata":{"finalizers":"x"}}"#,
            "string",
            "ObjectMeta.metadata.finalizers",
            "[]string",
        ),
        (MAPS, "ConfigMap", r#"{"metadata":{"uid":5}}"#, "number", "ObjectMeta.metadata.uid", "types.UID"),
        (MAPS, "ConfigMap", r#"{"metadata":"x"}"#, "string", "ConfigMap.metadata", "v1.ObjectMeta"),
        (MAPS, "ConfigMap", r#"{"data":["x"]}"#, "array", "ConfigMap.data", "map[string]string"),
        (MAPS, "ConfigMap", r#"{"immutable":"x"}"#, "string", "ConfigMap.immutable", "bool"),
        (PODS, "Pod", r#"{"spec":{"containers":{}}}"#, "object", "PodSpec.spec.containers", "[]v1.Container"),
        (
            PODS,
            "Pod",
            r#"{"spec":{"containers":["x"]}}"#,
            "string",
            "PodSpec.spec.containers",
            "v1.Container",
        ),
        (
            PODS,
            "Pod",
            r#"{"spec":{"restartPolicy":1}}"#,
            "number",
            "PodSpec.spec.restartPolicy",
            "v1.RestartPolicy",
        ),
        (PODS, "Pod", r#"{"spec":{"hostNetwork":"true"}}"#, "string", "PodSpec.spec.hostNetwork", "bool"),
        (
            PODS,
            "Pod",
            r#"{"spec":{"containers":[{"imagePullPolicy":true}]}}"#,
            "bool",
            "Container.spec.containers.imagePullPolicy",
            "v1.PullPolicy",
        ),
        (
            PODS,
            "Pod",
            r#"{"spec":{"containers":[{"resources":{"limits":"x"}}]}}"#,
            "string",
            "ResourceRequirements.spec.containers.resources.limits",
            "v1.ResourceList",
        ),
        (
            PODS,
            "Pod",
            r#"{"spec":{"containers":[{"ports":[{"containerPort":"80"}]}]}}"#,
            "string",
            "ContainerPort.spec.containers.ports.containerPort",
            "int32",
        ),
        (
            PODS,
            "Pod",
            r#"{"spec":{"containers":[{"securityContext":{"capabilities":{"add":[1]}}}]}}"#,
            "number",
            "Capabilities.spec.containers.securityContext.capabilities.add",
            "v1.Capability",
        ),
        (
            DEPLOYMENTS,
            "Deployment",
            r#"{"spec":{"replicas":"3"}}"#,
            "string",
            "DeploymentSpec.spec.replicas",
            "int32",
        ),
        (
            DEPLOYMENTS,
            "Deployment",
            r#"{"spec":{"replicas":3.5}}"#,
            "number 3.5",
            "DeploymentSpec.spec.replicas",
            "int32",
        ),
        (
            CLASSES,
            "StorageClass",
            r#"{"reclaimPolicy":1}"#,
            "number",
            "StorageClass.reclaimPolicy",
            "v1.PersistentVolumeReclaimPolicy",
        ),
        (
            CLASSES,
            "StorageClass",
            r#"{"parameters":[]}"#,
            "array",
            "StorageClass.parameters",
            "map[string]string",
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            r#"{"spec":{"metrics":"x"}}"#,
            "string",
            "HorizontalPodAutoscalerSpec.spec.metrics",
            "[]v2.MetricSpec",
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            "PersistentVolumeClaim",
            r#"{"spec":{"accessModes":"ReadWriteOnce"}}"#,
            "string",
            "PersistentVolumeClaimSpec.spec.accessModes",
            "[]v1.PersistentVolumeAccessMode",
        ),
    ];
    let rows = rows.map(|(path, kind, body, found, place, go_type)| {
        let version = if path.contains("/v2/") { "v2" } else { "v1" };
        let why = format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct \
             field {place} of type {go_type}"
        );
        (post(path, body), bad(why))
    });
    compare(http, message, rows).await;
    // The result of a patch has the type errors of a body.
    let patch = |kind: &str, body: &str| send(Method::PATCH, &format!("{MAPS}/a"), kind, body);
    let applied = |answer: &Answer| {
        let why = message(answer)[1]
            .as_str()
            .and_then(|text| text.rsplit_once("json: "))
            .map(|(_, why)| why.to_owned());
        json!([answer.code, why])
    };
    let why = "cannot unmarshal number into Go struct field ConfigMap.data of type string";
    let rows = [(patch("application/merge-patch+json", r#"{"data":{"a":1}}"#), json!([422, why]))];
    compare(http, applied, rows).await;
}
