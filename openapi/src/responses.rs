//! Responses of the operations: status codes and contents.
//!
//! Error responses are the same everywhere, a Status with its reason, so a document contains each of them once
//! and operations refer to it.

use utoipa::openapi::path::OperationBuilder;
use utoipa::openapi::schema::{AnyOfBuilder, ComponentsBuilder, Schema};
use utoipa::openapi::{Content, ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use crate::schemas::STATUS;
use crate::verb::Verb;

/// The media types of request and response bodies.
pub(crate) const MEDIA: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Codes of error responses, their names below `components/responses`, and their causes.
const REFUSALS: &[(&str, &str, &str)] = &[
    ("400", "BadRequest", "A parameter, a name or the body cannot be read."),
    ("401", "Unauthorized", "The credentials do not identify a user."),
    ("403", "Forbidden", "The user is not permitted to perform this request."),
    ("404", "NotFound", "There is no such object, or no such namespace."),
    ("406", "NotAcceptable", "The server cannot produce any of the accepted media types."),
    ("409", "Conflict", "The object already exists, or differs from what the request expects."),
    ("410", "Expired", "The revision or the token has expired. Start again without it."),
    ("413", "RequestEntityTooLarge", "The body or the resulting object is larger than the limit."),
    ("415", "UnsupportedMediaType", "The server does not read bodies of this media type."),
    ("422", "Invalid", "Fields or options are invalid; the causes name each of them."),
    ("429", "TooManyRequests", "Too many requests. Retry after the time in Retry-After."),
    ("500", "InternalError", "The request cannot be fulfilled; the message contains the reason."),
    ("501", "NotImplemented", "This server cannot do that."),
    ("503", "ServiceUnavailable", "The server is shutting down, or a dependency is unavailable."),
    ("504", "Timeout", "The request took too long, or its revision is in the future."),
    ("507", "InsufficientStorage", "The disk of the store is full."),
];

const READING: &[&str] = &["400", "401", "403", "404", "406", "410", "422", "429", "503", "504"];
const WRITING: &[&str] =
    &["400", "401", "403", "404", "406", "409", "413", "415", "422", "429", "503", "504", "507"];
/// For some of these subresources, upstream returns an error without a specific code.
const CREATING_BELOW: &[&str] = &["500", "501"];

/// Adds all error responses to the components of a document.
pub(crate) fn components(components: ComponentsBuilder) -> ComponentsBuilder {
    REFUSALS.iter().fold(components, |components, (_, name, description)| {
        components.response(*name, with_content(description, &content(&[STATUS])))
    })
}

/// The content of a response: an object of one of these schemas.
fn content(schemas: &[&str]) -> Content {
    let schema: RefOr<Schema> = match schemas {
        [schema] => Ref::from_schema_name(*schema).into(),
        several => {
            let any = several
                .iter()
                .fold(AnyOfBuilder::new(), |any, schema| any.item(Ref::from_schema_name(*schema)));
            Schema::AnyOf(any.build()).into()
        }
    };
    ContentBuilder::new().schema(Some(schema)).build()
}

fn with_content(description: &str, content: &Content) -> Response {
    let response = ResponseBuilder::new().description(description);
    MEDIA.iter().fold(response, |response, media| response.content(*media, content.clone())).build()
}

/// The target of an operation, as far as it affects the responses.
pub(crate) struct Answered<'a> {
    /// The schema of an object.
    pub(crate) object: &'a str,
    /// The schema of a list of objects.
    pub(crate) list: &'a str,
    /// Whether the target is a subresource.
    pub(crate) is_subresource: bool,
}

/// Adds all responses of an operation.
pub(crate) fn add(mut operation: OperationBuilder, verb: Verb, of: &Answered<'_>) -> OperationBuilder {
    // A completed delete returns a Status or the last state of the object; a pending one returns the object.
    let (codes, schemas): (&[(&str, &str)], &[&str]) = match verb {
        Verb::Get => (&[("200", "OK")], &[of.object]),
        Verb::List => (&[("200", "OK")], &[of.list]),
        Verb::Create if of.is_subresource => (&[("201", "Created")], &[STATUS, of.object]),
        Verb::Create => (&[("201", "Created")], &[of.object]),
        Verb::Update | Verb::Patch => (&[("200", "OK"), ("201", "Created")], &[of.object]),
        Verb::Delete => (&[("200", "OK"), ("202", "Accepted")], &[STATUS, of.object]),
        Verb::DeleteCollection => (&[("200", "OK")], &[STATUS, of.list]),
    };
    let content = content(schemas);
    for (code, description) in codes {
        operation = operation.response(*code, with_content(description, &content));
    }
    let refusals = match verb {
        Verb::Get | Verb::List => READING.iter().chain(&[]),
        Verb::Create if of.is_subresource => WRITING.iter().chain(CREATING_BELOW),
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => WRITING.iter().chain(&[]),
        // The delete of a collection lists it first.
        Verb::DeleteCollection => WRITING.iter().chain(&["410"]),
    };
    for code in refusals {
        if let Some((_, name, _)) = REFUSALS.iter().find(|(known, ..)| known == code) {
            operation = operation.response(*code, Ref::from_response_name(*name));
        }
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_has_a_response() {
        for code in READING.iter().chain(WRITING).chain(CREATING_BELOW) {
            assert!(REFUSALS.iter().any(|(known, ..)| known == code), "{code}");
        }
    }
}
