//! Bootstrap tokens: [`token_cleaner`] deletes expired ones, and [`signer`] signs the ConfigMap `cluster-info` with each token, so that a
//! joining node that knows a token can verify it.
//!
//! Upstream: pkg/controller/bootstrap.

pub mod signer;
pub mod token_cleaner;

use k8s_openapi::api::core::v1::Secret;
use orlop_client::api::Api;
use orlop_client::bootstrap_token::{NAMESPACE, SECRET_TYPE};
use orlop_client::informer::Informer;
use orlop_client::watcher::Selection;
use tokio_util::task::AbortOnDropHandle;

use crate::context::Context;

/// Follows the Secrets of bootstrap tokens, and no others, until the handle is dropped.
fn follow_tokens(context: &Context, tokens: &Informer<Secret>) -> AbortOnDropHandle<()> {
    let (tokens, shutdown) = (tokens.clone(), context.shutdown.clone());
    let api = Api::namespaced(context.client.clone(), NAMESPACE);
    let selection = Selection::fields(&format!("type={SECRET_TYPE}"));
    AbortOnDropHandle::new(tokio::spawn(async move { tokens.run_selected(api, selection, shutdown).await }))
}
