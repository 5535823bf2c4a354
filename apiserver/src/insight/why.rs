//! Serves `GET OBJECT/why`: delegates to the [`Explainer`] (docs/why.md), which the process that has the
//! controllers' rules provides. The server itself contains no rules.

use serde_json::Value;

use super::ObjectTarget;
use crate::encode::{shape, stored};
use crate::explain::{ExplainError, ExplainTarget};
use crate::state::Inner;
use orlop_api::status::ApiError;

/// The response to `GET OBJECT/why`. Without the related objects, it contains only the codes of the causes.
///
/// # Errors
/// 404 for an object that does not exist; 503 if there is no explainer, or if it is not ready.
pub(crate) async fn why(
    server: &Inner,
    target: &ObjectTarget,
    with_related: bool,
) -> Result<Value, ApiError> {
    let Some(explainer) = &server.config.explainer.0 else {
        return Err(ApiError::unavailable(
            "this server explains nothing: it was started without the rules of the controllers",
        ));
    };
    let names = target.kind.names();
    // Read here, so that the explainer needs no right to read every object.
    let head = server.store.head();
    let record = head.get(&target.key()).ok_or_else(|| ApiError::not_found(names, &target.name))?;
    let object = shape::with_kind(&*target.kind, stored::decode_as(&*target.kind, record)?);
    let asked = ExplainTarget {
        api_version: names.api_version(),
        kind: names.kind.to_owned(),
        resource: names.plural.to_owned(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        object,
        with_related,
    };
    explainer.explain(asked).await.map_err(|error| match error {
        ExplainError::NotYet(message) => ApiError::unavailable(message),
        ExplainError::Failed(message) => ApiError::internal(message),
    })
}
