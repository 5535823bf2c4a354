//! DELETE on a collection: deletes each selected object.

use axum::response::Response;

use crate::dispatch::key_names;
use crate::encode::list;
use crate::encode::negotiate::Endpoint;
use crate::verbs::delete::delete_named;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::list::select;
use crate::verbs::request::Request;
use orlop_api::status::ApiError;

/// Number of concurrent deletes: about as many as the store writes with one sync. Each delete holds its decoded
/// object, so the number is limited.
const SIDE_BY_SIDE: usize = 256;

/// Deletes the selected objects and returns them as they were before.
pub(crate) async fn delete_collection(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::List)?;
    let options = DeleteOptions::parse(request)?;
    let listed = select(request).await?;
    // Concurrent deletes share syncs, instead of one sync per object.
    for group in listed.records.chunks(SIDE_BY_SIDE) {
        let deletes = group.iter().map(|record| {
            let (_, name) = key_names(request.kind(), record.key.as_str());
            delete_named(request, name, &options)
        });
        for result in futures::future::join_all(deletes).await {
            match result {
                Ok(_) => {}
                // The object was removed or changed in the meantime: by another delete, or left for the next call.
                Err(error) if error.code == 404 || error.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
    }
    list::answer(request.kind_ref(), listed, wanted, &request.query, request.now())
}
