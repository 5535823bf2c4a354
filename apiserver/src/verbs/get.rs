//! GET on an item.

use axum::response::Response;

use crate::encode::answer;
use crate::encode::negotiate::Endpoint;
use crate::verbs::request::Request;
use crate::verbs::revision::{parse_revision, wait_for};
use orlop_api::status::ApiError;

/// Reads an object.
pub(crate) async fn get(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    if request.query.has("export") && request.query.flag("export") {
        return Err(ApiError::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    let at_least = parse_revision(request.query.text("resourceVersion")).map_err(ApiError::plain_internal)?;
    if let Some(revision) = at_least {
        wait_for(&*request.server.store, revision).await?;
    }
    let record = request.record(&request.head())?;
    answer::record(request.kind_ref(), 200, &record, wanted, &request.query, request.now())
}
