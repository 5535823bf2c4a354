//! `namespaces/NAME/finalize`: updates the finalizers in a namespace's spec.

use axum::response::Response;

use crate::admission::Operation;
use crate::encode::negotiate::Endpoint;
use crate::encode::{answer, stored};
use crate::verbs::attempts::attempts;
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::update::check_name;
use crate::verbs::write::{self, Part, StoreError};
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_codec::decode::decode_object;

/// Replaces `spec.finalizers`, and removes a terminating namespace that has no finalizers left.
pub(crate) async fn finalize(request: &Request) -> Result<Response, ApiError> {
    let wanted = request.wanted(Endpoint::Single)?;
    let options = WriteOptions::parse("UpdateOptions", &request.query)?;
    let decoded = decode_object(request.kind(), request.media()?, &request.body, options.validation)?;
    let mut given = decoded.object;
    write::settle_namespace(request, &mut given)?;
    check_name(request, &given)?;
    check_finalizers(request, &given)?;
    let kind = request.kind();
    for _ in 0..attempts(request, &request.resource.name) {
        let record = request.record(&request.head())?;
        let old = stored::decode(&record)?;
        if !given.uid().is_empty() && given.uid() != old.uid() {
            let key = request.resource.key(&request.resource.name);
            return Err(write::uid_conflict(kind, &key, given.uid(), old.uid()));
        }
        write::check_version(kind, &given, &old, true)?;
        // As in upstream, the metadata of the body is applied, its status is not.
        let mut object = given.clone();
        kind.defaults(&mut object);
        write::track(request, &request.manager(&options), Some(&old), &mut object);
        object.copy_member(&old, "status");
        let mut warnings = decoded.warnings.clone();
        write::admit(request, Operation::Update, &mut object, Some(&old), &mut warnings).await?;
        write::keep_metadata(&mut object, &old);
        write::validate_changed(kind, Part::Status, &object, &old, request, &mut warnings)?;
        write::admit_validated(request, Operation::Update, &mut object, Some(&old), &mut warnings).await?;
        if options.dry_run {
            return answer::object(request.kind_ref(), 200, object, wanted, &request.query, request.now());
        }
        match write::store_changed(request, &record, object).await {
            Ok(written) => {
                return answer::written(
                    request.kind_ref(),
                    200,
                    &written,
                    wanted,
                    &warnings,
                    &request.query,
                    request.now(),
                );
            }
            Err(StoreError::Api(error)) => return Err(error),
            Err(StoreError::Moved(_)) => {}
        }
    }
    Err(ApiError::conflict(request.names(), &request.resource.name))
}

fn check_finalizers(request: &Request, given: &orlop_api::object::Object) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let finalizers = given.at(&["spec", "finalizers"]).and_then(serde_json::Value::as_array);
    let path = Path::new("spec.finalizers");
    for (at, finalizer) in finalizers.into_iter().flatten().enumerate() {
        let text = finalizer.as_str().unwrap_or_default();
        for why in orlop_apimachinery::names::qualified_name(text) {
            errors.invalid(&path.index(at), text, &why);
        }
        if text != "kubernetes" && !text.contains('/') {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&path.index(at), text, why);
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let names = request.names();
    Err(ApiError::invalid(names.kind, names.group, given.name(), &errors))
}
