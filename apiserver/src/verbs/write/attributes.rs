//! Describes a request for policies and webhooks.

use std::borrow::Cow;

use orlop_api::object::Object;
use serde_json::{Map, Value, json};

use crate::admission::matching::{AdmissionOperation, Attributes, GroupVersionKind};
use crate::registry::{self, scale as scales};
use crate::verbs::request::Request;

/// Whether the request is a dry run.
pub(super) fn is_dry_run(request: &Request) -> bool {
    request.query.text("dryRun") == "All"
}

/// Whether the request is to `/scale`.
pub(super) fn is_scale(request: &Request) -> bool {
    request.resource.subresource == "scale"
}

/// The object that policies and webhooks see: for `/scale`, that is the Scale.
pub(super) fn shown<'o>(request: &Request, object: Option<&'o Object>) -> Option<Cow<'o, Object>> {
    let object = object?;
    let scale = request.kind().scale().filter(|_| is_scale(request));
    match scale.and_then(|paths| scales::of(object, &paths).ok()) {
        Some(scale) => Some(Cow::Owned(scale)),
        None => Some(Cow::Borrowed(object)),
    }
}

/// The request without its objects.
pub(super) fn attributes<'a>(
    request: &'a Request,
    operation: AdmissionOperation,
    object: Option<&'a Object>,
    old: Option<&'a Object>,
    dry_run: bool,
) -> Attributes<'a> {
    let names = request.names();
    let name =
        [request.resource.name.as_str(), object.map_or("", Object::name), old.map_or("", Object::name)];
    let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let is_namespace = names.group.is_empty() && names.plural == "namespaces";
    let kind = if is_scale(request) {
        GroupVersionKind {
            group: "autoscaling".to_owned(),
            version: "v1".to_owned(),
            kind: "Scale".to_owned(),
        }
    } else {
        GroupVersionKind::of(names)
    };
    Attributes {
        operation,
        names,
        subresource: &request.resource.subresource,
        namespace: if is_namespace { name } else { &request.resource.namespace },
        name,
        kind,
        equivalents: equivalents(request),
        user: &request.user,
        dry_run,
        options: options(request, operation, dry_run),
    }
}

/// The other served versions of a custom kind, and the other kind of the same stored objects.
fn equivalents(request: &Request) -> Vec<GroupVersionKind> {
    let kind = request.kind();
    if !kind.is_custom() {
        let version = |names: &registry::Names| (names.group, names.version);
        let is_other = |other: &registry::Names| version(other) != version(kind.names());
        let same = registry::KINDS.iter().filter(|one| {
            one.is_stored() && one.storage_prefix() == kind.storage_prefix() && is_other(one.names())
        });
        return same.map(|one| GroupVersionKind::of(one.names())).collect();
    }
    let served = request.server.kinds.now();
    let is_other = |version: &registry::Names| version.version != kind.names().version;
    let same = served.kinds().filter(|one| one.storage_prefix() == kind.storage_prefix());
    same.filter(|one| is_other(one.names())).map(|one| GroupVersionKind::of(one.names())).collect()
}

/// The options of the request, as far as they are in its query.
fn options(request: &Request, operation: AdmissionOperation, dry_run: bool) -> Value {
    let kind = match operation {
        AdmissionOperation::Create => "CreateOptions",
        AdmissionOperation::Update => "UpdateOptions",
        AdmissionOperation::Delete => "DeleteOptions",
        AdmissionOperation::Connect => return Value::Null,
    };
    let mut options = Map::new();
    options.insert("kind".to_owned(), kind.into());
    options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    if dry_run {
        options.insert("dryRun".to_owned(), json!(["All"]));
    }
    for name in ["fieldManager", "fieldValidation"] {
        let value = request.query.text(name);
        if !value.is_empty() {
            options.insert(name.to_owned(), value.into());
        }
    }
    Value::Object(options)
}
