//! The interface to explanations. The server knows no reasons itself; the process that has the rules of the controllers provides
//! an [`Explainer`] (docs/why.md).

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

/// Which object is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainTarget {
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
    fn explain(&self, what: ExplainTarget) -> BoxFuture<'_, Result<Value, ExplainError>>;
}

/// How an explainer is given to a server.
#[derive(Clone, Default)]
pub struct Explains(pub Option<Arc<dyn Explainer>>);
