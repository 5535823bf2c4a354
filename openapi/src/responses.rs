//! What operations answer: the codes, and what is in the answers.
//!
//! Refusals are the same everywhere, a Status with its reason, so a document has each of them once and operations point
//! there.

use utoipa::openapi::path::OperationBuilder;
use utoipa::openapi::schema::{AnyOfBuilder, ComponentsBuilder, Schema};
use utoipa::openapi::{Content, ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use crate::schemas::STATUS;
use crate::verb::Verb;

/// The forms of bodies and answers.
pub(crate) const MEDIA: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Codes of refusals, their names below `components/responses`, and when they come.
const REFUSALS: &[(&str, &str, &str)] = &[
    ("400", "BadRequest", "A parameter, a name or the body cannot be read."),
    ("401", "Unauthorized", "Nobody is known by these credentials."),
    ("403", "Forbidden", "Whoever asks may not do this, or it may not be done now."),
    ("404", "NotFound", "There is no such object, or no such namespace."),
    ("406", "NotAcceptable", "None of the accepted forms can be had."),
    ("409", "Conflict", "The object is there already, or is not what the request supposes."),
    ("410", "Expired", "The revision or the token is older than what is remembered. Begin anew."),
    ("413", "RequestEntityTooLarge", "The body is larger than is taken, or the object than is kept."),
    ("415", "UnsupportedMediaType", "The body is in a form that is not read."),
    ("422", "Invalid", "Fields or options are invalid; the causes name each of them."),
    ("429", "TooManyRequests", "Too much at once, or not now. Try again after the time that is told."),
    ("500", "InternalError", "What is asked for cannot be done; the message says why."),
    ("501", "NotImplemented", "This server cannot do that."),
    ("503", "ServiceUnavailable", "The server is about to go, or what it needs is not there."),
    ("504", "Timeout", "It took too long, or the revision is of the future."),
    ("507", "InsufficientStorage", "The disk has no room for it."),
];

const READING: &[&str] = &["400", "401", "403", "404", "406", "410", "422", "429", "503", "504"];
const WRITING: &[&str] =
    &["400", "401", "403", "404", "406", "409", "413", "415", "422", "429", "503", "504", "507"];
/// Upstream answers some of these subresources with an error that has no code of its own.
const CREATING_BELOW: &[&str] = &["500", "501"];

/// All refusals, for the components of a document.
pub(crate) fn components(components: ComponentsBuilder) -> ComponentsBuilder {
    REFUSALS.iter().fold(components, |components, (_, name, description)| {
        components.response(*name, with_content(description, &content(&[STATUS])))
    })
}

/// What is in an answer: an object of one of these schemas.
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

/// What an operation is on, as far as its answers go.
pub(crate) struct Answered<'a> {
    /// The schema of the object.
    pub(crate) object: &'a str,
    /// The schema of a list of them.
    pub(crate) list: &'a str,
    /// It is a subresource.
    pub(crate) is_subresource: bool,
}

/// Adds all answers of an operation.
pub(crate) fn add(mut operation: OperationBuilder, verb: Verb, of: &Answered<'_>) -> OperationBuilder {
    // What is deleted at once is told with a Status or shown as it was last; what waits is shown.
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
        // It lists first.
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
    fn every_code_is_known() {
        for code in READING.iter().chain(WRITING).chain(CREATING_BELOW) {
            assert!(REFUSALS.iter().any(|(known, ..)| known == code), "{code}");
        }
    }
}
