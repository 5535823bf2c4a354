//! The scale of custom kinds: a few numbers of the object at paths that its definition names.
//!
//! Upstream: apiextensions-apiserver `pkg/registry/customresource/etcd.go`.

use axum::response::Response;
use http::Method;
use orlop_openapi::types;
use serde_json::{Map, Value, json};

use super::made::{CustomKind, ScalePaths};
use crate::decode::{conform, decode_typed};
use crate::encode::answer::{self, Written};
use crate::encode::negotiate::Endpoint;
use crate::encode::stored;
use crate::object::Object;
use crate::patch::{self, PatchKind};
use crate::status::{ApiError, Details};
use crate::validate::{FieldErrors, Path};
use crate::verbs::options::WriteOptions;
use crate::verbs::request::Request;
use crate::verbs::update::{self, Change, check_name};
use crate::verbs::write::{self, Part, StoreError};

const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
/// How often a write is taken to a newer version when others get in between.
const ATTEMPTS: usize = 32;

/// Serves GET, PUT and PATCH of a scale.
pub(crate) async fn serve(
    kind: &CustomKind,
    method: &Method,
    request: &Request,
) -> Result<Response, ApiError> {
    let Some(paths) = kind.scale() else { return Err(ApiError::no_such_resource()) };
    let wanted = request.wanted(Endpoint::Single)?;
    if *method == Method::GET {
        let record = request.record(&request.head())?;
        let scale = scale_of(paths, &stored::decode_as(kind, &record))?;
        return answer::value_answer(200, wanted, &scale);
    }
    let (change, name) = match *method {
        Method::PUT => {
            (Wish::Replace(decode_typed(SCALE, request.media()?, &request.body)?), "UpdateOptions")
        }
        _ => (Wish::Patch(patch_kind(request)?), "PatchOptions"),
    };
    let options = WriteOptions::parse(name, &request.query)?;
    let manager = request.manager(&options);
    for attempt in 1..=ATTEMPTS {
        let record = request.record(&request.head())?;
        let old = stored::decode_as(kind, &record);
        let asked = match &change {
            Wish::Replace(scale) => Object(scale.clone()),
            Wish::Patch(patch_kind) => patched(*patch_kind, scale_of(paths, &old)?, request)?,
        };
        check_name(request, &asked)?;
        check_uid(kind, &asked, &old)?;
        write::check_version(kind, &asked, &old, true)?;
        let object = scaled(paths, &asked, &old)?;
        let dry_run = options.dry_run;
        let change =
            Change { part: Part::Main, old: &old, record: &record, manager: Some(&manager), dry_run };
        let mut warnings = Vec::new();
        let written = match update::apply(request, object, change, &mut warnings).await {
            Ok(written) => written,
            Err(StoreError::Api(error)) => return Err(error),
            Err(StoreError::Moved(_)) if attempt < ATTEMPTS => continue,
            Err(StoreError::Moved(_)) => break,
        };
        let object = match written {
            Written::Record(record) => stored::decode_as(kind, &record),
            Written::Object(object) => object,
        };
        return answer::value_answer(200, wanted, &scale_of(paths, &object)?);
    }
    Err(ApiError::conflict(request.names(), &request.resource.name))
}

/// What a client wants done to a scale.
enum Wish {
    Replace(Map<String, Value>),
    Patch(PatchKind),
}

fn patch_kind(request: &Request) -> Result<PatchKind, ApiError> {
    let content_type = request.content_type.as_deref().unwrap_or_default();
    match PatchKind::from_content_type(content_type) {
        Some(kind @ (PatchKind::Json | PatchKind::Merge)) => Ok(kind),
        Some(PatchKind::Strategic | PatchKind::Apply) | None => {
            Err(ApiError::unsupported_media_type("415: Unsupported Media Type").with_empty_details())
        }
    }
}

fn patched(kind: PatchKind, scale: Value, request: &Request) -> Result<Object, ApiError> {
    let missing = || ApiError::internal("there is no schema of a scale");
    let ty = types().named(SCALE).ok_or_else(missing)?;
    let document = patch::apply(kind, scale, &request.body, ty)?.document;
    let conformed = conform(document.clone(), ty)
        .map_err(|why| patch::unfit_result(kind, &document, &request.body, &why))?;
    Ok(Object(conformed.object))
}

fn at<'o>(object: &'o Object, path: &[String]) -> Option<&'o Value> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    object.at(&path)
}

/// The scale of an object.
fn scale_of(paths: &ScalePaths, object: &Object) -> Result<Value, ApiError> {
    let Some(replicas) = at(object, &paths.spec_replicas).and_then(Value::as_i64) else {
        let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas_text);
        return Err(ApiError::internal(why));
    };
    let mut metadata = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", name]) {
            metadata.insert(name.to_owned(), value.clone());
        }
    }
    let mut status =
        json!({"replicas": at(object, &paths.status_replicas).and_then(Value::as_i64).unwrap_or(0)});
    let selector = paths.selector.as_ref().and_then(|path| at(object, path)).and_then(Value::as_str);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    }))
}

fn check_uid(kind: &CustomKind, asked: &Object, old: &Object) -> Result<(), ApiError> {
    if asked.uid().is_empty() || asked.uid() == old.uid() {
        return Ok(());
    }
    let names = kind.own_names();
    let details = Details {
        name: old.name().to_owned(),
        group: names.group.to_owned(),
        kind: names.plural.to_owned(),
        ..Details::default()
    };
    let why = format!(
        "Precondition failed: UID in precondition: {}, UID in object meta: {}",
        asked.uid(),
        old.uid()
    );
    Err(ApiError::conflict_because(&format!("{}.{}", names.plural, names.group), details, &why))
}

/// The object with the replicas that a scale asks for.
fn scaled(paths: &ScalePaths, asked: &Object, old: &Object) -> Result<Object, ApiError> {
    let replicas = asked.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let mut errors = FieldErrors::new();
        errors.invalid(&Path::new("spec.replicas"), replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid("Scale", "autoscaling", old.name(), &errors));
    }
    let mut object = old.clone();
    let path: Vec<&str> = paths.spec_replicas.iter().map(String::as_str).collect();
    object.set(&path, replicas);
    Ok(object)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn paths() -> ScalePaths {
        let path = |text: &str| text.split('.').map(str::to_owned).collect();
        ScalePaths {
            spec_replicas: path("spec.size"),
            status_replicas: path("status.now"),
            selector: Some(path("status.selector")),
            spec_replicas_text: ".spec.size".to_owned(),
        }
    }

    #[test]
    fn numbers_are_where_the_definition_says() {
        let object = Object::from_value(json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}},
            "spec": {"size": 3}, "status": {"now": 2, "selector": "a=b"},
        }));
        let scale = scale_of(&paths(), &object).unwrap();
        assert_eq!(scale["metadata"], json!({"name": "a", "uid": "u"}));
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));

        let asked = Object::from_value(json!({"spec": {"replicas": 5}}));
        assert_eq!(scaled(&paths(), &asked, &object).unwrap().0["spec"], json!({"size": 5}));
        let asked = Object::from_value(json!({"spec": {"replicas": -1}}));
        let error = scaled(&paths(), &asked, &object).unwrap_err();
        assert_eq!(
            error.message,
            "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );

        let error = scale_of(&paths(), &Object::default()).unwrap_err();
        assert_eq!(
            error.message,
            "Internal error occurred: the spec replicas field \".spec.size\" does not exist"
        );
    }
}
