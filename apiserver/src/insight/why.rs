//! `GET OBJECT/why`: asks whoever can explain. The server itself decides nothing and knows no reason; the process that has the
//! controllers' rules brings an [`Explainer`] (docs/why.md).

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::Target;
use crate::server::Inner;
use crate::status::ApiError;

/// Which object is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `v1`, `storage.k8s.io/v1`.
    pub api_version: String,
    /// Kind, such as `PersistentVolumeClaim`.
    pub kind: String,
    /// Plural without its group, such as `persistentvolumeclaims`.
    pub resource: String,
    /// None for an object of the cluster.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The object is not there.
    #[error("{0}")]
    NotFound(String),
    /// It cannot be said now; ask again.
    #[error("{0}")]
    NotYet(String),
    /// A fault.
    #[error("{0}")]
    Failed(String),
}

/// Somebody who knows why objects are as they are.
pub trait Explainer: Send + Sync {
    /// The `Why` of an object, as docs/insight.md shows it.
    fn explain(&self, what: Asked) -> BoxFuture<'_, Result<Value, ExplainError>>;
}

/// How an explainer is given to a server.
#[derive(Clone, Default)]
pub struct Explains(pub Option<Arc<dyn Explainer>>);

/// The answer to `GET OBJECT/why`.
///
/// # Errors
/// 404 for an object that is not there; 503 where nobody explains, or not yet.
pub(crate) async fn why(server: &Inner, target: &Target) -> Result<Value, ApiError> {
    let Some(explainer) = &server.config.explainer.0 else {
        return Err(ApiError::unavailable(
            "this server explains nothing: it was started without the rules of the controllers",
        ));
    };
    let names = target.kind.names();
    let asked = Asked {
        api_version: names.api_version(),
        kind: names.kind.to_owned(),
        resource: names.plural.to_owned(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
    };
    explainer.explain(asked).await.map_err(|error| match error {
        ExplainError::NotFound(_) => ApiError::not_found(names, &target.name),
        ExplainError::NotYet(message) => ApiError::unavailable(message),
        ExplainError::Failed(message) => ApiError::internal(message),
    })
}
