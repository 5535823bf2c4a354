//! Every error that the server returns: a `metav1.Status` with upstream's code, reason, message and
//! causes, created in one place. Clients act on `reason` and `details`; the messages are
//! upstream's where clients or users may depend on them.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::field_errors::{Cause, FieldErrors};
use crate::kind::Names;

/// An error response. Create it with one of the constructors, which list every error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `metav1.StatusReason`; `""` for plain internal errors, which have none.
    pub reason: &'static str,
    /// The message for users.
    pub message: String,
    /// `details`; `None` omits the field, an empty one is serialized as `{}`.
    pub details: Option<Box<Details>>,
    /// `metadata.continue` of the Status, for an expired continue token.
    pub continue_token: Option<String>,
    /// The texts of `Warning` headers: other problems of the request.
    pub warnings: Vec<String>,
}

/// `metav1.StatusDetails`.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group, `""` for core.
    pub group: String,
    /// Plural resource, or the kind for `Invalid`.
    pub kind: String,
    /// UID of the object.
    pub uid: String,
    /// Causes; `field` and `reason` may be empty.
    pub causes: Vec<Cause>,
    /// Seconds; also sent as the `Retry-After` header.
    pub retry_after_seconds: Option<u32>,
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Details {
    fn of(names: &Names, name: &str) -> Self {
        Details {
            name: name.to_owned(),
            group: names.group.to_owned(),
            kind: names.plural.to_owned(),
            ..Details::default()
        }
    }
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: the client is not authenticated.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for a resource; `name` may be empty.
    pub fn forbidden(names: &Names, name: &str, why: &str) -> Self {
        Self::forbidden_resource(names.group, names.plural, name, why)
    }

    /// 403 for a resource that the server may not know; `name` may be empty.
    pub fn forbidden_resource(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let shown = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{shown} is forbidden: {why}")
        } else {
            format!("{shown} \"{name}\" is forbidden: {why}")
        };
        let (group, kind) = (group.to_owned(), resource.to_owned());
        Self::new(403, "Forbidden", message).with(Details {
            name: name.to_owned(),
            group,
            kind,
            ..Details::default()
        })
    }

    /// 403 for a non-resource endpoint.
    pub fn forbidden_path(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message).with(Details::default())
    }

    /// 404 for an object.
    pub fn not_found(names: &Names, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(names.plural, names.group));
        Self::new(404, "NotFound", message).with(Details::of(names, name))
    }

    /// 404 from the router: the group exists, but the version or resource does not.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default())
    }

    /// 405: the path does not support this method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with(Details::default())
    }

    /// 405: a custom kind does not support this verb.
    pub fn verb_not_supported(names: &Names, verb: &str) -> Self {
        let resource = qualified(names.plural, names.group);
        let message = format!("{verb} is not supported on resources of kind {resource:?}");
        let details =
            Details { group: names.group.to_owned(), kind: names.plural.to_owned(), ..Details::default() };
        Self::new(405, "MethodNotAllowed", message).with(details)
    }

    /// 406: the client accepts no supported format; `message` lists the supported ones.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// The same error with texts for `Warning` headers.
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings = warnings.to_vec();
        self
    }

    /// The same error with `details: {}`, as errors of the router have.
    pub fn with_empty_details(self) -> Self {
        self.with(Details::default())
    }

    /// 409: the name is already in use.
    pub fn already_exists(names: &Names, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(names.plural, names.group));
        Self::new(409, "AlreadyExists", message).with(Details::of(names, name))
    }

    /// The error about a taken name, if an object that is being deleted uses it.
    #[must_use]
    pub fn being_deleted(mut self) -> Self {
        self.message.insert_str(0, "object is being deleted: ");
        self
    }

    /// 409: generateName found no unused name.
    pub fn no_unique_name(names: &Names, name: &str) -> Self {
        let mut error = Self::already_exists(names, name);
        error.message.push_str(", the server was not able to generate a unique name for the object");
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = Some(1);
        }
        error
    }

    /// 409: the object has been modified.
    pub fn conflict(names: &Names, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict_because(&qualified(names.plural, names.group), Details::of(names, name), why)
    }

    /// 409 with a custom reason; `resource` is copied to the message unchanged (`pods/binding`, `ConfigMap`).
    pub fn conflict_because(resource: &str, details: Details, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{}\": {why}", details.name);
        Self::new(409, "Conflict", message).with(details)
    }

    /// 409: an apply would change fields that other managers own.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::new(409, "Conflict", message).with(Details { causes, ..Details::default() })
    }

    /// 409: an apply with a uid refers to an object that does not exist.
    pub fn no_such_uid(names: &Names, name: &str, uid: &str) -> Self {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        Self::conflict_because(&qualified(names.plural, names.group), Details::of(names, name), &why)
    }

    /// 410: the requested revision is compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413: the request is larger than the limit.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 415: the endpoint does not support the format of the body.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422: fields of an object are invalid.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &FieldErrors) -> Self {
        let mut seen = HashSet::new();
        let texts: Vec<String> = (errors.causes().iter())
            .filter(|cause| seen.insert((&cause.field, &cause.message)))
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {list}", qualified(kind, group));
        Self::new(422, "Invalid", message).with(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.causes().to_vec(),
            ..Details::default()
        })
    }

    /// 422: query options are invalid; `kind` is `ListOptions`, `PatchOptions` and so on.
    pub fn invalid_options(kind: &str, errors: &FieldErrors) -> Self {
        Self::invalid(kind, "meta.k8s.io", "", errors)
    }

    /// 422 without fields: a patch that cannot be applied.
    pub fn unprocessable() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .with(Details::default())
    }

    /// 429: the client should retry later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message)
            .with(Details { retry_after_seconds: Some(retry_after_seconds), ..Details::default() })
    }

    /// 429: an eviction would violate a disruption budget; the causes name it.
    pub fn too_many_disruptions(details: Details, retry_after_seconds: Option<u32>) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Self::new(429, "TooManyRequests", message).with(Details { retry_after_seconds, ..details })
    }

    /// Whether the message describes a failure of the server. The messages of other errors are upstream's and may quote
    /// the request, so they must not be logged.
    pub fn is_internal(&self) -> bool {
        self.code >= 500 && !self.reason.is_empty()
    }

    /// 500 with upstream's prefix and a cause.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        let cause = Cause { reason: "", message: error.to_string(), field: String::new() };
        Self::new(500, "InternalError", format!("Internal error occurred: {error}"))
            .with(Details { causes: vec![cause], ..Details::default() })
    }

    /// 500 with only a message, as upstream returns for unexpected errors.
    pub fn plain_internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 503: the server is temporarily unavailable.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
            .with(Details { retry_after_seconds: Some(1), ..Details::default() })
    }

    /// 503: another server is unreachable.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 504: the request took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message)
    }

    /// 504: a requested future revision was not reached in time.
    pub fn too_large_revision(wanted: u64, current: u64) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        Self::timeout(format!("Timeout: Too large resource version: {wanted}, current: {current}"))
            .with(Details { causes: vec![cause], retry_after_seconds: Some(1), ..Details::default() })
    }

    /// 507: the store's disk is full; reads and deletes still work. Clients retry automatically for
    /// some seconds.
    pub fn insufficient_storage(free: u64, needed: u64, place: &str) -> Self {
        let missing = needed.saturating_sub(free);
        let message = format!(
            "the disk of the store is full: {missing} more bytes must be free in {place} ({free} are free, {needed} \
             must be); until then only deletes and updates that do not grow are taken"
        );
        let cause = Cause { reason: "DiskFull", message: message.clone(), field: String::new() };
        Self::new(507, "InsufficientStorage", message).with(Details {
            causes: vec![cause],
            retry_after_seconds: Some(1),
            ..Details::default()
        })
    }

    /// 507: the objects would exceed the store's size limit; reads and deletes still work.
    pub fn data_limit(needed: u64, limit: u64) -> Self {
        let message = format!(
            "the store is full: its objects would take {needed} bytes, and --store-max-bytes allows {limit}; delete \
             objects, or start the server with a higher limit"
        );
        let cause = Cause { reason: "StoreFull", message: message.clone(), field: String::new() };
        Self::new(507, "InsufficientStorage", message)
            .with(Details { causes: vec![cause], ..Details::default() })
    }

    /// The value of the `Retry-After` header in seconds.
    pub fn retry_after(&self) -> Option<u32> {
        self.details.as_ref().and_then(|d| d.retry_after_seconds)
    }

    /// The `metav1.Status`, with kind and apiVersion.
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.clone().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status["code"] = self.code.into();
        status
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                map.insert(key.into(), text.clone().into());
            }
        }
        if !self.causes.is_empty() {
            map.insert("causes".into(), self.causes.iter().map(cause_value).collect());
        }
        if let Some(seconds) = self.retry_after_seconds {
            map.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(map)
    }
}

fn cause_value(cause: &Cause) -> Value {
    let mut map = Map::new();
    for (key, text) in [("reason", cause.reason), ("message", &cause.message), ("field", &cause.field)] {
        if !text.is_empty() {
            map.insert(key.into(), text.into());
        }
    }
    Value::Object(map)
}
