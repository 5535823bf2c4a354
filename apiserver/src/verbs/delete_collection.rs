//! DELETE on a collection: deletes each selected object.

use std::sync::Arc;

use axum::response::Response;
use orlop_store::Record;
use serde_json::json;

use crate::dispatch::key_names;
use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, list};
use crate::verbs::delete::delete_named;
use crate::verbs::delete_options::DeleteOptions;
use crate::verbs::list::select;
use crate::verbs::request::Request;
use orlop_api::status::ApiError;

/// Number of concurrent deletes: about as many as the store writes with one sync. Each delete holds its decoded
/// object, so the number is limited.
const SIDE_BY_SIDE: usize = 256;

/// Maximum total size of the objects that are deleted concurrently, bytes. In memory an object takes several times
/// its size.
const BYTES_SIDE_BY_SIDE: usize = 4 << 20;

/// Splits records into groups of at most [`SIDE_BY_SIDE`] records and, with more than one record,
/// [`BYTES_SIDE_BY_SIDE`] bytes.
pub(crate) fn groups<V>(mut records: &[Arc<Record<V>>]) -> impl Iterator<Item = &[Arc<Record<V>>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |record: &&Arc<Record<V>>| {
            bytes += record.value.len();
            bytes <= BYTES_SIDE_BY_SIDE
        };
        let count = records.iter().take(SIDE_BY_SIDE).take_while(fits).count().max(1).min(records.len());
        let (group, rest) = records.split_at(count);
        records = rest;
        (!group.is_empty()).then_some(group)
    })
}

/// Deletes the selected objects and returns them as they were before.
pub(crate) async fn delete_collection(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::List)?;
    let options = DeleteOptions::parse(request)?;
    options.check_collection()?;
    let listed = select(request).await?;
    // Concurrent deletes share syncs, instead of one sync per object.
    for group in groups(listed.records()) {
        let deletes = group.iter().map(|record| {
            let (_, name) = key_names(request.kind(), record.key.as_str());
            // Only the result is kept, not the deleted object.
            let options = &options;
            async move { delete_named(request, name, options, &mut Vec::new()).await.map(drop) }
        });
        for result in futures::future::join_all(deletes).await {
            match result {
                Ok(()) => {}
                // Another delete has removed the object in the meantime.
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
    }
    let memory = &request.server.limits.memory;
    let listed = list::answer(request.kind_ref(), listed, wanted, &request.query, request.now(), memory);
    let response = match listed {
        // The objects are deleted: a lack of memory for the list must not hide that.
        Err(error) if !options.dry_run && matches!(error.code, 413 | 429) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
            answer::value_answer(200, wanted, &status)
        }
        listed => listed,
    };
    response.map(|mut response| {
        answer::add_warnings(response.headers_mut(), &options.warnings(request.kind()));
        response
    })
}
