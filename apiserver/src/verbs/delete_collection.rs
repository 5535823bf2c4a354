//! DELETE on a collection: every selected object, one by one.

use axum::response::Response;

use crate::dispatch::key_names;
use crate::encode::list;
use crate::encode::negotiate::Endpoint;
use crate::status::ApiError;
use crate::verbs::delete::delete_named;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::list::select;
use crate::verbs::request::Request;

/// Deletes that are under way at the same time: about what the store writes with one sync. Each
/// holds its object decoded, so all of a large collection at once would be too much.
const SIDE_BY_SIDE: usize = 256;

/// Deletes what is selected and answers with the objects as they were before.
pub(crate) async fn delete_collection(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::List)?;
    let options = DeleteOptions::parse(request)?;
    let listed = select(request).await?;
    // Side by side, so that the whole collection takes a few syncs and not one per object.
    for group in listed.records.chunks(SIDE_BY_SIDE) {
        let deletes = group.iter().map(|record| {
            let (_, name) = key_names(request.kind(), record.key.as_str());
            delete_named(request, name, &options)
        });
        for result in futures::future::join_all(deletes).await {
            match result {
                Ok(_) => {}
                // Gone or changed meanwhile: somebody else's delete, or the next call's.
                Err(error) if error.code == 404 || error.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
    }
    list::answer(request.kind_ref(), listed, wanted, &request.query, request.now())
}
