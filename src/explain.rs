//! Connects the API server's `why` endpoint to the explanation engine.

use std::pin::Pin;
use std::sync::Arc;

use kube::Client;
use orlop_apiserver::explain::{self as server, ExplainError, ExplainTarget, Explains};
use orlop_client::informers::Informers;
use orlop_controller::options::Options;
use orlop_controller::pv::error::chain;
use orlop_explain::service::{Question, Service, ServiceError};
use serde_json::Value;

/// Explains objects of the server in this process, once it is connected.
#[derive(Clone, Default)]
pub(crate) struct Explainer(Arc<Service>);

impl Explainer {
    /// The handler for the configuration of the server.
    pub(crate) fn explains(&self) -> Explains {
        Explains(Some(Arc::new(self.clone())))
    }

    /// Connects the engine: `client` reads events and snapshots, and `informers` provide other related objects.
    pub(crate) fn look_at(&self, client: Client, informers: Informers, options: &Options) {
        self.0.look_at(client, informers, options.into());
    }

    /// Disconnects the engine at shutdown.
    pub(crate) fn forget(&self) {
        self.0.forget();
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, ExplainError>> + Send + 'a>>;

impl server::Explainer for Explainer {
    fn explain(&self, what: ExplainTarget) -> Answer<'_> {
        let ExplainTarget { api_version, kind, resource, namespace, name, object, with_related } = what;
        let question = Question { api_version, kind, resource, namespace, name, object };
        Box::pin(async move {
            let why = self.0.explain(&question).await.map_err(|error| match error {
                ServiceError::Starting | ServiceError::Reading(_) => ExplainError::NotYet(error.to_string()),
                ServiceError::Odd { .. } | ServiceError::Panic(_) => ExplainError::Failed(chain(&error)),
            })?;
            let why = if with_related { why } else { why.without_related() };
            serde_json::to_value(why).map_err(|error| ExplainError::Failed(error.to_string()))
        })
    }
}
