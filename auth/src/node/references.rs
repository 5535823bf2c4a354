//! The objects that pods and volumes refer to.
//!
//! Upstream: `AddPod` and `AddPV` in plugin/pkg/auth/authorizer/node/graph.go, pkg/api/v1/pod/util.go,
//! pkg/api/v1/persistentvolume/util.go.

use std::collections::BTreeSet;

use serde_json::Value;

use super::related_kind::RelatedKind;

/// The annotation of mirror pods, which a node creates itself.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// The node of a pod, and the objects in the pod's namespace that the node needs to run it. A volume is in no namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodReferences {
    /// The node.
    pub(super) node: String,
    /// The objects, by kind and name.
    pub(super) objects: BTreeSet<(RelatedKind, String)>,
}

/// The claim of a volume, and the secrets that a node needs to mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeReferences {
    /// Namespace and name of the claim.
    pub(super) claim: (String, String),
    /// Namespaces and names of the secrets.
    pub(super) secrets: BTreeSet<(String, String)>,
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn non_empty<'v>(value: &'v str, default: &'v str) -> &'v str {
    if value.is_empty() { default } else { value }
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| items(&pod["spec"], list))
}

/// The sources of the environment of all containers: members `env` of items of `envFrom`, and `key` of `env[].valueFrom`.
fn environment<'v>(
    pod: &'v Value,
    all_keys: &'static str,
    one_key: &'static str,
) -> impl Iterator<Item = &'v str> {
    containers(pod).flat_map(move |container| {
        let from = items(container, "envFrom").map(move |source| text(&source[all_keys], "name"));
        from.chain(items(container, "env").map(move |one| text(&one["valueFrom"][one_key], "name")))
    })
}

/// The names of the secrets that a pod refers to.
pub fn secret_names(pod: &Value) -> impl Iterator<Item = &str> {
    let pulls = items(&pod["spec"], "imagePullSecrets").map(|reference| text(reference, "name"));
    let volumes = items(&pod["spec"], "volumes").flat_map(|volume| {
        let projected = items(&volume["projected"], "sources").map(|source| text(&source["secret"], "name"));
        let referring = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
        let referred = referring.into_iter().map(|source| text(&volume[source]["secretRef"], "name"));
        let named = [
            text(&volume["secret"], "secretName"),
            text(&volume["azureFile"], "secretName"),
            text(&volume["csi"]["nodePublishSecretRef"], "name"),
        ];
        projected.chain(referred).chain(named)
    });
    let names = pulls.chain(environment(pod, "secretRef", "secretKeyRef")).chain(volumes);
    names.filter(|name| !name.is_empty())
}

/// The names of the config maps that a pod refers to.
pub fn config_map_names(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = items(&pod["spec"], "volumes").flat_map(|volume| {
        let projected =
            items(&volume["projected"], "sources").map(|source| text(&source["configMap"], "name"));
        projected.chain([text(&volume["configMap"], "name")])
    });
    let names = environment(pod, "configMapRef", "configMapKeyRef").chain(volumes);
    names.filter(|name| !name.is_empty())
}

/// The names of the claims that a pod refers to, also those of its ephemeral volumes.
fn claim_names(pod: &Value) -> impl Iterator<Item = String> {
    items(&pod["spec"], "volumes").filter_map(|volume| {
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        match volume["ephemeral"].is_object() {
            _ if !claim.is_empty() => Some(claim.to_owned()),
            true => Some(format!("{}-{}", text(&pod["metadata"], "name"), text(volume, "name"))),
            false => None,
        }
    })
}

/// The names of the resource claims that a pod uses: its own, those created from templates, and that of its extended resources.
fn resource_claim_names(pod: &Value) -> impl Iterator<Item = &str> {
    let status = &pod["status"];
    let own = items(&pod["spec"], "resourceClaims").map(move |claim| {
        let created = || items(status, "resourceClaimStatuses").find(|one| one["name"] == claim["name"]);
        match text(claim, "resourceClaimName") {
            "" => created().map_or("", |one| text(one, "resourceClaimName")),
            name => name,
        }
    });
    let extended = text(&status["extendedResourceClaimStatus"], "resourceClaimName");
    own.chain([extended]).filter(|name| !name.is_empty())
}

/// The volume that a recycler pod empties. Only in orlop: its agent empties the directory itself, and reads the volume
/// before (I8). `volume/src/recycle.rs` creates these pods.
fn recycled_volume(pod: &Value) -> Option<&str> {
    let metadata = &pod["metadata"];
    let is_recyclers = text(metadata, "namespace") == "default";
    text(metadata, "name").strip_prefix("recycler-for-").filter(|name| is_recyclers && !name.is_empty())
}

/// The references of a pod; `None` if it has no node.
pub(super) fn pod_references(pod: &Value) -> Option<PodReferences> {
    let node = text(&pod["spec"], "nodeName");
    if node.is_empty() {
        return None;
    }
    let mut objects = BTreeSet::new();
    // A node must not get access to objects through pods that it creates itself.
    if pod["metadata"]["annotations"].get(MIRROR_POD).is_none() {
        let account = text(&pod["spec"], "serviceAccountName");
        let account = Some(account).filter(|name| !name.is_empty());
        let of = |kind: RelatedKind| move |name: &str| (kind, name.to_owned());
        objects.extend(account.map(of(RelatedKind::ServiceAccount)));
        objects.extend(secret_names(pod).map(of(RelatedKind::Secret)));
        objects.extend(config_map_names(pod).map(of(RelatedKind::ConfigMap)));
        objects.extend(claim_names(pod).map(|name| (RelatedKind::Claim, name)));
        objects.extend(resource_claim_names(pod).map(of(RelatedKind::ResourceClaim)));
        objects.extend(recycled_volume(pod).map(of(RelatedKind::Volume)));
    }
    Some(PodReferences { node: node.to_owned(), objects })
}

/// The references of a volume; `None` if it has no claim.
pub(super) fn volume_references(volume: &Value) -> Option<VolumeReferences> {
    let spec = &volume["spec"];
    let claim = spec["claimRef"].as_object().map(|_| &spec["claimRef"])?;
    let claim_namespace = text(claim, "namespace");
    let mut secrets = BTreeSet::new();
    let mut add = |namespace: &str, name: &str| {
        if !name.is_empty() {
            secrets.insert((namespace.to_owned(), name.to_owned()));
        }
    };
    let azure = &spec["azureFile"];
    add(non_empty(text(azure, "secretNamespace"), claim_namespace), text(azure, "secretName"));
    for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        let secret = &spec[source]["secretRef"];
        add(non_empty(text(secret, "namespace"), claim_namespace), text(secret, "name"));
    }
    for source in ["cinder", "storageos"] {
        let secret = &spec[source]["secretRef"];
        add(text(secret, "namespace"), text(secret, "name"));
    }
    for reference in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        let secret = &spec["csi"][reference];
        add(text(secret, "namespace"), text(secret, "name"));
    }
    Some(VolumeReferences { claim: (claim_namespace.to_owned(), text(claim, "name").to_owned()), secrets })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(spec: Value) -> String {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec});
        pod["spec"]["nodeName"] = "n".into();
        pod["status"] = json!({
            "resourceClaimStatuses": [{"name": "t", "resourceClaimName": "p-t-x"}, {"name": "none"}],
        });
        let found = pod_references(&pod).expect("a node").objects.into_iter();
        found.map(|(kind, name)| format!("{kind:?} {name}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn pods_refer_to_what_they_need() {
        let volume = |source: Value| json!({"volumes": [source]});
        let env = |source: Value| json!({"containers": [{"env": [{"name": "A", "valueFrom": source}]}]});
        for (spec, want) in [
            (json!({}), ""),
            (json!({"serviceAccountName": "a"}), "ServiceAccount a"),
            (json!({"imagePullSecrets": [{"name": "s"}, {}]}), "Secret s"),
            (env(json!({"secretKeyRef": {"name": "s", "key": "k"}})), "Secret s"),
            (env(json!({"configMapKeyRef": {"name": "c", "key": "k"}})), "ConfigMap c"),
            (json!({"initContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}), "Secret s"),
            (json!({"ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}), "ConfigMap c"),
            (volume(json!({"secret": {"secretName": "s"}})), "Secret s"),
            (volume(json!({"configMap": {"name": "c"}})), "ConfigMap c"),
            (
                volume(
                    json!({"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}}),
                ),
                "ConfigMap c, Secret s",
            ),
            (volume(json!({"azureFile": {"secretName": "s"}})), "Secret s"),
            (volume(json!({"cephfs": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"cinder": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"flexVolume": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"rbd": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"scaleIO": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"iscsi": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"storageos": {"secretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"csi": {"nodePublishSecretRef": {"name": "s"}}})), "Secret s"),
            (volume(json!({"persistentVolumeClaim": {"claimName": "c"}})), "Claim c"),
            (volume(json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}})), "Claim p-v"),
            (volume(json!({"name": "v", "hostPath": {"path": "/"}})), ""),
            (json!({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}), "ResourceClaim c"),
            (
                json!({"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "x"}]}),
                "ResourceClaim p-t-x",
            ),
            (json!({"resourceClaims": [{"name": "none", "resourceClaimTemplateName": "x"}]}), ""),
            (json!({"resourceClaims": [{"name": "u", "resourceClaimTemplateName": "x"}]}), ""),
        ] {
            assert_eq!(shown(spec.clone()), want, "{spec}");
        }
    }

    #[test]
    fn mirror_pods_and_pods_without_a_node_refer_to_nothing() {
        let spec = json!({"serviceAccountName": "a", "nodeName": "n"});
        let mirror = json!({"metadata": {"annotations": {MIRROR_POD: ""}}, "spec": spec});
        let want = PodReferences { node: "n".to_owned(), objects: BTreeSet::new() };
        assert_eq!(pod_references(&mirror), Some(want));
        assert_eq!(pod_references(&json!({"spec": {"serviceAccountName": "a"}})), None);
    }

    #[test]
    fn volumes_refer_to_the_secrets_that_nodes_need() {
        let secret = |namespace: &str| json!({"name": "s", "namespace": namespace});
        for (source, want) in [
            (json!({}), &[][..]),
            (json!({"azureFile": {"secretName": "s"}}), &["ns/s"]),
            (json!({"azureFile": {"secretName": "s", "secretNamespace": "o"}}), &["o/s"]),
            (json!({"cephfs": {"secretRef": {"name": "s"}}}), &["ns/s"]),
            (json!({"flexVolume": {"secretRef": secret("o")}}), &["o/s"]),
            (json!({"rbd": {"secretRef": {"name": "s"}}}), &["ns/s"]),
            (json!({"scaleIO": {"secretRef": secret("o")}}), &["o/s"]),
            (json!({"iscsi": {"secretRef": {"name": "s"}}}), &["ns/s"]),
            (json!({"cinder": {"secretRef": secret("o")}}), &["o/s"]),
            (json!({"storageos": {"secretRef": secret("o")}}), &["o/s"]),
            (
                json!({"csi": {"nodePublishSecretRef": secret("a"), "nodeStageSecretRef": secret("b")}}),
                &["a/s", "b/s"],
            ),
            (json!({"csi": {"nodeExpandSecretRef": secret("a")}}), &["a/s"]),
            (
                json!({"csi": {"controllerPublishSecretRef": secret("a"), "controllerExpandSecretRef": secret("a")}}),
                &[],
            ),
        ] {
            let mut volume = json!({"spec": source});
            assert_eq!(volume_references(&volume), None, "no claim");
            volume["spec"]["claimRef"] = json!({"namespace": "ns", "name": "c"});
            let found = volume_references(&volume).expect("a claim");
            assert_eq!(found.claim, ("ns".to_owned(), "c".to_owned()));
            let secrets: Vec<String> =
                found.secrets.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
            assert_eq!(secrets, want, "{volume}");
        }
    }
}
