//! The operations of the resources, in a form that both versions of OpenAPI share.
//!
//! Reading order: [`builtin`] and [`custom`] list the operations of a resource, [`paths`] groups them by path,
//! [`v3`] and [`v2`] write a path. [`discovery`] lists the operations that return discovery documents.

mod builtin;
mod custom;
pub(crate) mod discovery;
mod format;
mod names;
mod parameters;
mod paths;
pub(crate) mod v2;
pub(crate) mod v3;

use serde_json::Value;

use self::parameters::Parameter;
use crate::resource::ResourceDoc;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Any media type.
const ANY: &[&str] = &["*/*"];
/// The media types of objects.
pub(crate) const MEDIA: &[&str] = &[JSON, YAML, PROTOBUF];
/// The media types of lists, which can be watched.
const STREAMED: &[&str] = &[
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// An operation.
pub(crate) struct Route {
    /// The path, such as `/api/v1/namespaces/{namespace}/pods`.
    path: String,
    /// The HTTP method in lower case.
    method: &'static str,
    id: String,
    tag: String,
    description: String,
    /// `x-kubernetes-action` and `x-kubernetes-group-version-kind`.
    action: Option<(&'static str, Value)>,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    /// The media types of the body.
    consumes: &'static [&'static str],
    /// The media types of the response.
    produces: &'static [&'static str],
    answer: Content,
    /// Status codes of successful responses, and their descriptions.
    codes: &'static [(&'static str, &'static str)],
}

/// The content of a response.
enum Content {
    Text,
    /// An object of the schema with this name.
    Object(String),
}

/// The body of a request.
struct Body {
    schema: String,
    is_required: bool,
}

const OK: &[(&str, &str)] = &[("200", "OK")];
const OK_CREATED: &[(&str, &str)] = &[("200", "OK"), ("201", "Created")];
const OK_ACCEPTED: &[(&str, &str)] = &[("200", "OK"), ("202", "Accepted")];
const OK_CREATED_ACCEPTED: &[(&str, &str)] = &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];
/// The response that every operation has; it has no content.
const UNAUTHORIZED: (&str, &str) = ("401", "Unauthorized");

/// The operations of a resource.
pub(crate) fn routes(resource: &ResourceDoc) -> Vec<Route> {
    match resource.own_schema {
        Some(_) => custom::routes(resource),
        None => builtin::routes(resource),
    }
}

#[cfg(test)]
mod tests;
