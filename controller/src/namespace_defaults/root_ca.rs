//! `root-ca-certificate-publisher-controller`: publishes the ConfigMap `kube-root-ca.crt`, which pods mount to
//! verify the API server.
//!
//! Without a known authority (plain HTTP on the same machine needs none) the controller publishes an empty
//! bundle, as upstream does: a pod that mounts it finds the key, and trusts no certificate. An empty bundle never
//! replaces another one.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::core::ObjectMeta;
use orlop_client::api::Api;

use super::{GivenError, keep, made, wants};
use crate::context::{Context, ControllerError};
use orlop_client::informer::Informer;
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_DESCRIPTION, controller};

/// The name of the ConfigMap that every namespace has.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// Its only key.
pub const KEY: &str = "ca.crt";
/// The description annotation, identical to upstream's.
pub const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                               endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                               guaranteed across distributions of Kubernetes clusters.";

/// The action that a namespace requires.
#[derive(Debug, PartialEq)]
pub enum Need {
    /// The ConfigMap is correct, or the namespace gets none.
    Nothing,
    /// Create the ConfigMap.
    Make(ConfigMap),
    /// Replace the ConfigMap with this one.
    Replace(ConfigMap),
}

/// Decides the action for a namespace. `bundle` contains certificates in PEM; `None` if no authority is known.
pub fn decide(namespace: Option<&Namespace>, there: Option<&ConfigMap>, bundle: Option<&str>) -> Need {
    if !namespace.is_some_and(wants) {
        return Need::Nothing;
    }
    let current = there.and_then(|map| map.data.as_ref()).and_then(|data| data.get(KEY));
    let bundle = bundle.or(current.map(String::as_str)).unwrap_or_default();
    let data = BTreeMap::from([(KEY.to_owned(), bundle.to_owned())]);
    let Some(there) = there else {
        let annotations = BTreeMap::from([(ANN_DESCRIPTION.to_owned(), DESCRIPTION.to_owned())]);
        let metadata = ObjectMeta {
            name: Some(ROOT_CA.to_owned()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        return Need::Make(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() });
    };
    if there.data.as_ref() == Some(&data) && annotation(there, ANN_DESCRIPTION) == Some(DESCRIPTION) {
        return Need::Nothing;
    }
    let mut next = there.clone();
    next.data = Some(data);
    let annotations = next.metadata.annotations.get_or_insert_default();
    annotations.insert(ANN_DESCRIPTION.to_owned(), DESCRIPTION.to_owned());
    Need::Replace(next)
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let api = Api::all(context.informers.client());
        keep(&context, controller::ROOT_CA_PUBLISHER, api, ROOT_CA, |namespaces, maps, name| {
            sync(&context, namespaces, maps, name)
        })
        .await;
        Ok(())
    })
}

/// Creates or replaces the ConfigMap. One write, conditional on the cached version; if it fails, the next sync
/// decides again.
async fn sync(
    context: &Context,
    namespaces: Informer<Namespace>,
    maps: Informer<ConfigMap>,
    name: String,
) -> Result<(), GivenError> {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &name);
    let there = maps.get(&format!("{name}/{ROOT_CA}"));
    let bundle = context.options.root_ca.as_deref();
    let (what, result) = match decide(namespaces.get(&name).as_deref(), there.as_deref(), bundle) {
        Need::Nothing => return Ok(()),
        Need::Make(map) => ("publish", api.create(&PostParams::default(), &map).await),
        Need::Replace(map) => ("repair", api.replace(ROOT_CA, &PostParams::default(), &map).await),
    };
    made(result).map_err(|cause| GivenError { what, name: ROOT_CA, namespace: name, cause })
}
