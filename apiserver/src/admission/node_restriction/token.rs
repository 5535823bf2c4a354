//! Tokens: a node requests tokens for the pods on it, for the audiences that they use.

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use serde_json::Value;

use super::existing;
use crate::admission::request::{Lookup, Operation, Request};
use crate::encode::head::ObjectHead;

/// In-tree sources of volumes, and the CSI drivers that replace them (upstream: csi-translation-lib).
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

pub(super) fn restrict(request: &Request<'_>, node: &str, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let (Operation::Create, "token", Some(asked)) =
        (request.operation, request.subresource, request.object.as_deref())
    else {
        return Ok(());
    };
    let refuse = |why: &str| Err(request.refuse(why));
    let bound = |name: &str| asked.str_at(&["spec", "boundObjectRef", name]);
    if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
        return refuse("node requested token not bound to a pod");
    }
    let uid = bound("uid");
    if uid.is_empty() {
        return refuse("node requested token with a pod binding without a uid");
    }
    let pod = existing(lookup, "", "pods", request.namespace, bound("name"))?;
    if uid != pod.uid() {
        return refuse(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        ));
    }
    if pod.field("spec.nodeName") != node {
        return refuse("node requested token bound to a pod scheduled on a different node");
    }
    check_audience(request, asked, (bound("name"), &pod), lookup).or_else(|why| refuse(&why))
}

fn check_audience(
    request: &Request<'_>,
    asked: &Object,
    (name, pod): (&str, &ObjectHead),
    lookup: &dyn Lookup,
) -> Result<(), String> {
    let audiences = asked.at(&["spec", "audiences"]).and_then(Value::as_array);
    let audience = match audiences.map_or(&[][..], Vec::as_slice) {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return Err("node may only request 0 or 1 audiences".to_owned()),
    };
    let pod = PodVolumes { namespace: request.namespace, name, spec: pod.member("spec").unwrap_or_default() };
    if uses_audience(&pod, audience, lookup)
        .map_err(|why| format!("error validating audience {audience:?}: {why}"))?
    {
        return Ok(());
    }
    let target = ResourceTarget {
        version: "v1".to_owned(),
        namespace: request.namespace.to_owned(),
        resource: audience.to_owned(),
        name: request.name.to_owned(),
        ..ResourceTarget::default()
    };
    let right = RequestInfo {
        verb: "request-serviceaccounts-token-audience".into(),
        target: RequestTarget::Resource(target),
    };
    if lookup.permits(request.user, &right) {
        return Ok(());
    }
    let user = &request.user.username;
    Err(format!(
        "audience {audience:?} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
    ))
}

/// The pod of a token: its names, and its spec with the volumes.
struct PodVolumes<'p> {
    namespace: &'p str,
    name: &'p str,
    spec: Value,
}

/// Whether a volume of a pod needs tokens for an audience: a projected one, or one of a CSI driver that requests such tokens.
///
/// # Errors
/// No volume needs such tokens, and some volumes cannot be checked.
fn uses_audience(pod: &PodVolumes<'_>, audience: &str, lookup: &dyn Lookup) -> Result<bool, String> {
    let mut errors: Vec<String> = Vec::new();
    for volume in pod.spec["volumes"].as_array().into_iter().flatten() {
        let mut tokens = volume["projected"]["sources"].as_array().into_iter().flatten();
        let is_for = |token: &Value| token["audience"].as_str().unwrap_or_default() == audience;
        if tokens
            .any(|source| source["serviceAccountToken"].is_object() && is_for(&source["serviceAccountToken"]))
        {
            return Ok(true);
        }
        let outcome = driver_of(pod, volume, lookup).and_then(|driver| match driver {
            Some(driver) => {
                let driver = existing(lookup, "storage.k8s.io", "csidrivers", "", &driver)?;
                let spec = driver.member("spec").unwrap_or_default();
                Ok(spec["tokenRequests"].as_array().into_iter().flatten().any(is_for))
            }
            None => Ok(false),
        });
        match outcome {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if errors.contains(&error.message) => {}
            Err(error) => errors.push(error.message),
        }
    }
    match errors.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

/// The CSI driver of a volume of a pod, if it has one.
fn driver_of(pod: &PodVolumes<'_>, volume: &Value, lookup: &dyn Lookup) -> Result<Option<String>, ApiError> {
    let of_claim = |claim: &str| -> Result<Option<String>, ApiError> {
        let claim = existing(lookup, "", "persistentvolumeclaims", pod.namespace, claim)?;
        let volume = existing(lookup, "", "persistentvolumes", "", claim.field("spec.volumeName"))?;
        Ok(volume.member("spec").as_ref().and_then(driver_of_source))
    };
    if volume["ephemeral"]["volumeClaimTemplate"].is_object() {
        return of_claim(&format!("{}-{}", pod.name, volume["name"].as_str().unwrap_or_default()));
    }
    if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
        return of_claim(claim);
    }
    Ok(driver_of_source(volume))
}

fn driver_of_source(source: &Value) -> Option<String> {
    if let Some(driver) = source["csi"]["driver"].as_str().filter(|driver| !driver.is_empty()) {
        return Some(driver.to_owned());
    }
    let migrated = MIGRATED.iter().find(|(in_tree, _)| source[*in_tree].is_object());
    migrated.map(|(_, driver)| (*driver).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::NodeRestriction;
    use super::*;
    use crate::admission::testing::{Facts, Write};

    /// The reason of the refusal, or `""`, for a pod with these volumes.
    fn why(spec: Value, node: &str, volumes: Value) -> String {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": node, "volumes": volumes}});
        let claim = |name: &str, volume: &str| json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": volume}});
        let driver = |name: &str, audience: &str| json!({"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": audience}]}});
        let facts = Facts::new(&[
            ("pods", pod),
            ("persistentvolumeclaims", claim("c", "v")),
            ("persistentvolumeclaims", claim("p-e", "v")),
            ("persistentvolumeclaims", claim("unbound", "")),
            ("persistentvolumes", json!({"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d"}}})),
            ("csidrivers", driver("d", "vault")),
            ("csidrivers", driver("ebs.csi.aws.com", "aws")),
        ]);
        let request = json!({"metadata": {"name": "a"}, "spec": spec});
        let mut write =
            Write::create("serviceaccounts", request).to("token").in_namespace("ns").by_node("n1");
        let Err(error) = write.mutate(&NodeRestriction, &facts) else { return String::new() };
        error.message.split_once("is forbidden: ").map_or(error.message.clone(), |(_, why)| why.to_owned())
    }

    fn bound(changes: Value, audiences: &[&str]) -> Value {
        let mut reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        for (name, value) in changes.as_object().into_iter().flatten() {
            reference[name] = value.clone();
        }
        json!({"boundObjectRef": reference, "audiences": audiences})
    }

    #[test]
    fn token_is_bound_to_a_pod_on_the_node() {
        let unbound = "node requested token not bound to a pod";
        for (spec, node, want) in [
            (bound(json!({}), &["permitted"]), "n1", ""),
            (json!({}), "n1", unbound),
            (bound(json!({"kind": "Secret"}), &[]), "n1", unbound),
            (bound(json!({"apiVersion": "v2"}), &[]), "n1", unbound),
            (bound(json!({"name": ""}), &[]), "n1", unbound),
            (bound(json!({"uid": ""}), &[]), "n1", "node requested token with a pod binding without a uid"),
            (bound(json!({"name": "nope"}), &[]), "n1", "pod \"nope\" not found"),
            (
                bound(json!({"uid": "x"}), &[]),
                "n1",
                "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
            ),
            (
                bound(json!({}), &["permitted"]),
                "n2",
                "node requested token bound to a pod scheduled on a different node",
            ),
        ] {
            assert_eq!(why(spec.clone(), node, json!([])), want, "{spec}");
        }
    }

    #[test]
    fn audience_is_one_that_the_pod_uses() {
        let refused = |audience: &str| {
            format!(
                "audience {audience:?} not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"
            )
        };
        let token = |token: Value| json!([{"projected": {"sources": [{"serviceAccountToken": token}]}}]);
        let claim = |name: &str| json!([{"persistentVolumeClaim": {"claimName": name}}]);
        for (audiences, volumes, want) in [
            (&["vault"][..], token(json!({"audience": "vault"})), String::new()),
            (&[], token(json!({})), String::new()),
            (&[], token(json!({"audience": "vault"})), refused("")),
            (&["other"], token(json!({"audience": "vault"})), refused("other")),
            (&["permitted"], json!([]), String::new()),
            (&["a", "b"], json!([]), "node may only request 0 or 1 audiences".to_owned()),
            (&["vault"], json!([{"csi": {"driver": "d"}}]), String::new()),
            (&["vault"], claim("c"), String::new()),
            (&["other"], claim("c"), refused("other")),
            (&["vault"], json!([{"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}]), String::new()),
            (&["aws"], json!([{"awsElasticBlockStore": {"volumeID": "v"}}]), String::new()),
            (
                &["x"],
                json!([{"csi": {"driver": "nope"}}]),
                "error validating audience \"x\": csidriver.storage.k8s.io \"nope\" not found".to_owned(),
            ),
            (
                &["x"],
                json!([{"persistentVolumeClaim": {"claimName": "nope"}}, {"persistentVolumeClaim": {"claimName": "unbound"}}]),
                "error validating audience \"x\": [persistentvolumeclaim \"nope\" not found, persistentvolume \"\" not found]".to_owned(),
            ),
        ] {
            assert_eq!(why(bound(json!({}), audiences), "n1", volumes.clone()), want, "{audiences:?} {volumes}");
        }
    }
}
