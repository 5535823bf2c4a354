//! The number of pods that the controller of a pod maintains: from the cached workloads, or from the subresource `scale`
//! of any other kind.

use http::Request;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, OwnerReference};
use kube::Client;
use orlop_client::client::{is_not_found, message_of};
use orlop_client::informer::Informer;
use serde_json::Value;

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

    /// The scale of the controller that a pod references; `None` if it does not exist.
    pub(super) async fn of(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scaled>, ScaleError> {
        match self.cached(owner, namespace) {
            Some(scaled) => Ok(Some(scaled)),
            None => self.from_subresource(owner, namespace).await,
        }
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

    async fn from_subresource(
        &self,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<Option<Scaled>, ScaleError> {
        // Such a name cannot exist, and would change the path.
        if owner.name.contains(['/', '%', '?', '#']) || matches!(owner.name.as_str(), "." | "..") {
            return Ok(None);
        }
        let served = self.resources(&owner.api_version).await?;
        let Some(plural) = plural_of(served.as_ref(), &owner.kind) else {
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
            Err(error) if is_not_found(&error) => match has_scale(served.as_ref(), &plural) {
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

    /// The resources of a group version; `None` if the server does not serve it.
    async fn resources(&self, group_version: &str) -> Result<Option<APIResourceList>, ScaleError> {
        let list = match group_version.contains('/') {
            true => self.client.list_api_group_resources(group_version).await,
            false => self.client.list_core_api_resources(group_version).await,
        };
        match list {
            Ok(list) => Ok(Some(list)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
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
