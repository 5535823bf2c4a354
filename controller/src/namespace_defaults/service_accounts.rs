//! `serviceaccount-controller`: creates the ServiceAccount `default`, which pods use if they name no other.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Client;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use orlop_client::api::Api;

use super::{GivenError, keep, made, wants};
use crate::context::{Context, ControllerError};
use orlop_client::informer::Informer;
use orlop_client::names::controller;

/// The name of the ServiceAccount that every namespace has.
pub const DEFAULT_ACCOUNT: &str = "default";

/// Whether the ServiceAccount must be created.
pub fn is_missing(namespace: Option<&Namespace>, account: Option<&ServiceAccount>) -> bool {
    namespace.is_some_and(wants) && account.is_none()
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let client = context.client.clone();
        let api = Api::all(context.informers.client());
        keep(&context, controller::SERVICE_ACCOUNT, api, DEFAULT_ACCOUNT, |namespaces, accounts, name| {
            sync(client.clone(), namespaces, accounts, name)
        })
        .await;
        Ok(())
    })
}

/// Creates the ServiceAccount if it is missing. One write; if it fails, the next sync finds the account still
/// missing.
async fn sync(
    client: Client,
    namespaces: Informer<Namespace>,
    accounts: Informer<ServiceAccount>,
    name: String,
) -> Result<(), GivenError> {
    let account = accounts.get(&format!("{name}/{DEFAULT_ACCOUNT}"));
    if !is_missing(namespaces.get(&name).as_deref(), account.as_deref()) {
        return Ok(());
    }
    let metadata = ObjectMeta { name: Some(DEFAULT_ACCOUNT.to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    let api: Api<ServiceAccount> = Api::namespaced(client, &name);
    made(api.create(&PostParams::default(), &account).await).map_err(|cause| GivenError {
        what: "make account",
        name: DEFAULT_ACCOUNT,
        namespace: name,
        cause,
    })
}
