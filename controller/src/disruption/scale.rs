//! The number of pods that the controller of a pod maintains: from the cached workloads, or from the subresource `scale`
//! of any other kind.

use http::Request;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, OwnerReference};
use kube::Client;
use orlop_apimachinery::names::{dns_label, dns_subdomain};
use orlop_client::client::{is_not_found, message_of};
use orlop_client::informer::Informer;
use serde_json::Value;

use super::discovery::Discovery;
use crate::workload::owned::controller_of;

/// A controller and the number of its pods.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) uid: String,
    pub(super) replicas: i32,
}

/// Why the number of a controller's pods is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    /// A repetition has the same result.
    #[error("{0}")]
    Unknown(String),
    /// The server did not return the scale.
    #[error("{}", message_of(.0))]
    Api(#[from] kube::Error),
}

/// The workloads.
pub(super) struct Scales {
    pub(super) client: Client,
    pub(super) discovery: Discovery,
    pub(super) controllers: Informer<ReplicationController>,
    pub(super) sets: Informer<ReplicaSet>,
    pub(super) deployments: Informer<Deployment>,
    pub(super) stateful_sets: Informer<StatefulSet>,
}

impl Scales {
    /// Waits until all workloads are cached.
    pub(super) async fn synced(&self) {
        self.controllers.synced().await;
        self.sets.synced().await;
        self.deployments.synced().await;
        self.stateful_sets.synced().await;
    }

    /// The scale of a cached workload. For a ReplicaSet of a Deployment, the scale is that of the Deployment.
    pub(super) fn cached(&self, owner: &OwnerReference, namespace: &str) -> Option<Scaled> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let key = format!("{namespace}/{}", owner.name);
        let is_owner = |uid: Option<&String>| uid == Some(&owner.uid);
        // The server's default is 1.
        let scaled =
            |replicas: Option<i32>| Scaled { uid: owner.uid.clone(), replicas: replicas.unwrap_or(1) };
        match (group, owner.kind.as_str()) {
            ("", "ReplicationController") => {
                let found =
                    self.controllers.get(&key).filter(|found| is_owner(found.metadata.uid.as_ref()))?;
                Some(scaled(found.spec.as_ref().and_then(|spec| spec.replicas)))
            }
            ("apps", "StatefulSet") => {
                let found =
                    self.stateful_sets.get(&key).filter(|found| is_owner(found.metadata.uid.as_ref()))?;
                Some(scaled(found.spec.as_ref().and_then(|spec| spec.replicas)))
            }
            ("apps" | "extensions", "ReplicaSet") => {
                let found = self.sets.get(&key).filter(|found| is_owner(found.metadata.uid.as_ref()))?;
                match controller_of(&found.metadata).filter(|owner| owner.kind == "Deployment") {
                    Some(owner) => self.deployment(owner, namespace),
                    None => Some(scaled(found.spec.as_ref().and_then(|spec| spec.replicas))),
                }
            }
            _ => None,
        }
    }

    fn deployment(&self, owner: &OwnerReference, namespace: &str) -> Option<Scaled> {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let found = self.deployments.get(&format!("{namespace}/{}", owner.name))?;
        let is_owner =
            matches!(group, "apps" | "extensions") && found.metadata.uid.as_ref() == Some(&owner.uid);
        let replicas = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        is_owner.then(|| Scaled { uid: owner.uid.clone(), replicas })
    }

    /// The scale that the server returns; `None` if the controller does not exist.
    pub(super) async fn read_subresource(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scaled>, ScaleError> {
        // Such a name cannot exist, and would change the path.
        if !dns_subdomain(&owner.name).is_empty() {
            return Ok(None);
        }
        let served = match is_group_version(&owner.api_version) {
            true => self.discovery.resources(&owner.api_version, &owner.kind).await?,
            false => None,
        };
        let Some(plural) = plural_of(served.as_deref(), &owner.kind) else {
            return Err(ScaleError::Unknown(format!(
                "no matches for kind {:?} in version {:?}",
                owner.kind, owner.api_version
            )));
        };
        let root = if owner.api_version.contains('/') { "apis" } else { "api" };
        let path =
            format!("/{root}/{}/namespaces/{namespace}/{plural}/{}/scale", owner.api_version, owner.name);
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match self.client.request::<Value>(request).await {
            Ok(scale) => Ok(read(&scale).filter(|scaled| scaled.uid == owner.uid)),
            Err(error) if is_not_found(&error) => match has_scale(served.as_deref(), &plural) {
                true => Ok(None),
                false => {
                    let group = owner.api_version.split_once('/').map(|(group, _)| format!(".{group}"));
                    let resource = format!("{plural}{}", group.unwrap_or_default());
                    Err(ScaleError::Unknown(format!("{resource} does not implement the scale subresource")))
                }
            },
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the server can serve a group version. Other texts would change the path of a request.
fn is_group_version(text: &str) -> bool {
    let (group, version) =
        text.split_once('/').map_or((None, text), |(group, version)| (Some(group), version));
    group.is_none_or(|group| dns_subdomain(group).is_empty()) && dns_label(version).is_empty()
}

/// The plural name of a kind.
fn plural_of(served: Option<&APIResourceList>, kind: &str) -> Option<String> {
    let mut resources = served?.resources.iter().filter(|resource| !resource.name.contains('/'));
    resources.find(|resource| resource.kind == kind).map(|resource| resource.name.clone())
}

/// Whether a resource has a scale of a version that controllers can read.
fn has_scale(served: Option<&APIResourceList>, plural: &str) -> bool {
    let name = format!("{plural}/scale");
    served.into_iter().flat_map(|list| &list.resources).filter(|resource| resource.name == name).any(
        |resource| {
            let version = (
                resource.group.as_deref().unwrap_or_default(),
                resource.version.as_deref().unwrap_or_default(),
            );
            resource.kind == "Scale"
                && matches!(
                    version,
                    ("autoscaling", "v1") | ("extensions" | "apps", "v1beta1") | ("apps", "v1beta2")
                )
        },
    )
}

/// The content of a Scale.
fn read(scale: &Value) -> Option<Scaled> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    let uid = scale.pointer("/metadata/uid").and_then(Value::as_str)?.to_owned();
    Some(Scaled { uid, replicas: i32::try_from(replicas).unwrap_or(i32::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_versions_are_segments_of_a_path() {
        for (text, want) in [
            ("v1", true),
            ("apps/v1", true),
            ("example.com/v1alpha1", true),
            ("", false),
            ("/v1", false),
            ("apps/", false),
            ("apps/v1/x", false),
            ("x?y/v1", false),
            ("apps/v1#x", false),
            ("../v1", false),
            ("apps/..", false),
        ] {
            assert_eq!(is_group_version(text), want, "{text}");
        }
    }
}
