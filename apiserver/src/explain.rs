//! The interface to explanations. The server does not explain objects itself; the process with the rules of the
//! controllers provides an [`Explainer`] (docs/why.md).

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

/// The object to explain.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainTarget {
    /// `v1`, `storage.k8s.io/v1`.
    pub api_version: String,
    /// Kind, such as `PersistentVolumeClaim`.
    pub kind: String,
    /// Plural without its group, such as `persistentvolumeclaims`.
    pub resource: String,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The current object on the server, with its kind.
    pub object: Value,
    /// Whether the explanation may mention other objects. Otherwise it contains only the codes of the causes and their meanings.
    pub with_related: bool,
}

/// The reason why there is no explanation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The explanation is not available yet; retry later.
    #[error("{0}")]
    NotYet(String),
    /// An internal error.
    #[error("{0}")]
    Failed(String),
}

/// Explains the state of objects.
pub trait Explainer: Send + Sync {
    /// Returns the `Why` of an object, as described in docs/insight.md.
    fn explain(&self, what: ExplainTarget) -> BoxFuture<'_, Result<Value, ExplainError>>;
}

/// The explainer of a server, if it has one.
#[derive(Clone, Default)]
pub struct Explains(pub Option<Arc<dyn Explainer>>);
