//! DELETE of an object whose stored form cannot be read, for example because its encryption key is lost.
//!
//! The client requests it with `ignoreStoreReadErrorWithClusterBreakingPotential`, and needs a right of its own. Finalizers,
//! preconditions and admission need the object, so they do not apply. Upstream has this behind the feature gate
//! AllowUnsafeMalformedObjectDeletion: apiserver `pkg/registry/generic/registry/corrupt_obj_deleter.go`,
//! `pkg/endpoints/handlers/delete.go`.

use axum::response::Response;
use orlop_store::{Expect, Op, Write};
use serde_json::json;

use crate::allocation;
use crate::authorization::{decide_right, right};
use crate::encode::negotiate::RequestedEncoding;
use crate::encode::{answer, stored};
use crate::system_objects::addresses;
use crate::verbs::attempts::attempts;
use crate::verbs::request::Request;
use crate::verbs::write::{self, StoreError, commit_error_of};
use orlop_api::status::ApiError;

/// The verb that the client must be permitted, besides `delete`.
const VERB: &str = "unsafe-delete-ignore-read-errors";
/// The annotation in the audit log.
const ANNOTATION: &str = "apiserver.k8s.io/unsafe-delete-ignore-read-error";

/// Deletes the named object if it cannot be read.
///
/// # Errors
/// 403 without the right; 404 if there is no object; 409 if it can be read.
pub(super) async fn delete(request: &Request, wanted: RequestedEncoding) -> Result<Response, ApiError> {
    if let Some(audited) = &request.audited {
        audited.annotate(vec![(ANNOTATION.to_owned(), String::new())]);
    }
    authorize(request).await?;
    let name = &request.resource.name;
    let key = request.resource.key(name);
    for _ in 0..attempts(request, name) {
        let head = request.head();
        let record = head.get(&key).ok_or_else(|| ApiError::not_found(request.names(), name))?;
        if stored::readable(record).is_ok() {
            let why = "unsafe deletion is not allowed because the object is decodable from storage";
            return Err(write::invalid_object(request.kind(), &key, why));
        }
        let mut writes = allocation::release_all(request.kind(), &key, &head);
        let namespaced_name = (request.resource.namespace.as_str(), name.as_str());
        writes.extend(addresses::release_all(request.kind(), namespaced_name, &head));
        let expect = Expect::Revision(record.mod_revision);
        writes.push(Write { key: record.key.clone(), expect, op: Op::Delete });
        match request.server.store.commit(writes).await.map_err(|error| commit_error_of(&key, error)) {
            Ok(committed) => {
                tracing::warn!(key, user = request.user.username, "an unreadable object was deleted");
                request.audit_revision(committed.revision());
                return success(request, wanted);
            }
            // Another writer has replaced or deleted it.
            Err(StoreError::Moved(_)) => {}
            Err(StoreError::Api(error)) => return Err(error),
        }
    }
    Err(ApiError::conflict(request.names(), name))
}

async fn authorize(request: &Request) -> Result<(), ApiError> {
    let (names, name) = (request.names(), &request.resource.name);
    let asked = right(VERB, names, &request.resource.namespace, name);
    let decision = decide_right(&request.server, &request.user, &asked, None).await?;
    if decision.allowed {
        return Ok(());
    }
    let why = match decision.error.as_str() {
        "" => format!("not permitted to do {VERB:?}, reason: {}", decision.reason),
        error => format!("error while checking permission for {VERB:?}, {error}"),
    };
    Err(ApiError::forbidden(names, name, &why))
}

/// The response without the object, which cannot be shown.
fn success(request: &Request, wanted: RequestedEncoding) -> Result<Response, ApiError> {
    let details = json!({"name": request.resource.name, "kind": request.names().kind});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details, "code": 200,
    });
    answer::value_answer(200, wanted, &status)
}
