//! Whether a pod refers to other objects (upstream: `HasAPIObjectReference` in pkg/api/pod/util.go).

use orlop_api::object::Object;
use orlop_auth::node::{config_map_names, secret_names};
use serde_json::{Map, Value};

/// Sources of volumes that refer to no object, except through secrets, which are checked before.
const WITHOUT_OBJECTS: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Sources of volumes that refer to objects, and upstream's names of the objects.
const WITH_OBJECTS: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that refer to objects.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The resource of the first object that a pod refers to, in upstream's words.
///
/// # Errors
/// A volume has an unknown source.
pub(super) fn api_reference(pod: &Object) -> Result<Option<&'static str>, String> {
    let spec = pod.at(&["spec"]).and_then(Value::as_object);
    let Some(spec) = spec else { return Ok(None) };
    let has_text = |name: &str| spec.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if has_text("serviceAccountName") || has_text("serviceAccount") {
        return Ok(Some("serviceaccounts"));
    }
    let value = Value::Object(Map::from_iter([("spec".to_owned(), Value::Object(spec.clone()))]));
    if secret_names(&value).next().is_some() {
        return Ok(Some("secrets"));
    }
    if config_map_names(&value).next().is_some() {
        return Ok(Some("configmaps"));
    }
    let list = |name: &str| spec.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !list("resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in list("volumes") {
        if let Some(found) = volume_reference(volume)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn has(source: &Value, name: &str) -> bool {
    source.get(name).is_some_and(|source| !source.is_null())
}

fn volume_reference(volume: &Value) -> Result<Option<&'static str>, String> {
    let name = volume["name"].as_str().unwrap_or_default();
    if WITHOUT_OBJECTS.iter().any(|source| has(volume, source)) {
        return Ok(None);
    }
    if let Some((_, found)) = WITH_OBJECTS.iter().find(|(source, _)| has(volume, source)) {
        return Ok(Some(*found));
    }
    if !has(volume, "projected") {
        return Err(format!("unknown volume type for volume  {name:?}"));
    }
    for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
        if let Some((_, found)) = PROJECTED.iter().find(|(member, _)| has(source, member)) {
            return Ok(Some(*found));
        }
        if !has(source, "downwardAPI") {
            return Err(format!("unknown source for projected volume {name:?}"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn first_reference_is_named_as_upstream() {
        let volume = |source: Value| {
            let mut volume = source;
            volume["name"] = "v".into();
            json!({"volumes": [volume]})
        };
        let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
        for (spec, want) in [
            (json!({}), Ok(None)),
            (json!({"serviceAccountName": "a"}), Ok(Some("serviceaccounts"))),
            (json!({"serviceAccount": "a"}), Ok(Some("serviceaccounts"))),
            (json!({"imagePullSecrets": [{"name": "s"}]}), Ok(Some("secrets"))),
            (json!({"containers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}), Ok(Some("configmaps"))),
            (json!({"resourceClaims": [{"name": "r"}]}), Ok(Some("resourceclaims"))),
            (volume(json!({"hostPath": {"path": "/"}})), Ok(None)),
            (volume(json!({"secret": {"secretName": "s"}})), Ok(Some("secrets"))),
            (volume(json!({"secret": {}})), Ok(Some("secrets (via secret volumes)"))),
            (volume(json!({"configMap": {}})), Ok(Some("configmaps (via configmap volumes)"))),
            (volume(json!({"csi": {"driver": "d"}})), Ok(Some("csidrivers (via CSI volumes)"))),
            (volume(json!({"glusterfs": {}})), Ok(Some("endpoints (via glusterFS volumes)"))),
            (volume(json!({"persistentVolumeClaim": {}})), Ok(Some("persistentvolumeclaims"))),
            (volume(json!({"ephemeral": {}})), Ok(Some("persistentvolumeclaims (via ephemeral volumes)"))),
            (volume(json!({"azureFile": {}})), Ok(Some("secrets (via azureFile volumes)"))),
            (volume(json!({})), Err("unknown volume type for volume  \"v\"")),
            (projected(json!({"downwardAPI": {}})), Ok(None)),
            (projected(json!({"secret": {"name": "s"}})), Ok(Some("secrets"))),
            (
                projected(json!({"serviceAccountToken": {}})),
                Ok(Some("serviceaccounts (via projected volumes)")),
            ),
            (projected(json!({"clusterTrustBundle": {}})), Ok(Some("clustertrustbundles"))),
            (projected(json!({"podCertificate": {}})), Ok(Some("podcertificates"))),
            (projected(json!({})), Err("unknown source for projected volume \"v\"")),
        ] {
            let found = api_reference(&Object::from_value(json!({"spec": spec})));
            assert_eq!(found.as_ref().map(|found| *found).map_err(String::as_str), want, "{spec}");
        }
    }
}
