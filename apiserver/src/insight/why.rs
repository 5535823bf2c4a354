//! `GET OBJECT/why`: asks whoever can explain. The server itself decides nothing and knows no reason; the process that has the
//! controllers' rules brings an [`Explainer`] (docs/why.md).

use serde_json::Value;

use super::ObjectTarget;
use crate::explain::{ExplainError, ExplainTarget};
use crate::state::Inner;
use orlop_api::status::ApiError;

/// The answer to `GET OBJECT/why`.
///
/// # Errors
/// 404 for an object that is not there; 503 where nobody explains, or not yet.
pub(crate) async fn why(server: &Inner, target: &ObjectTarget) -> Result<Value, ApiError> {
    let Some(explainer) = &server.config.explainer.0 else {
        return Err(ApiError::unavailable(
            "this server explains nothing: it was started without the rules of the controllers",
        ));
    };
    let names = target.kind.names();
    let asked = ExplainTarget {
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
