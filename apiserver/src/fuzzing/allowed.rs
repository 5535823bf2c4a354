//! Errors with code 500 that upstream, and therefore orlop, returns for client input. Any other 500 is a fault of
//! the server.

use orlop_api::status::ApiError;

/// How the text must match the message.
enum Text {
    Begins(&'static str),
    Is(&'static str),
    Holds(&'static str),
}

use Text::{Begins, Holds, Is};

/// Messages of errors 500 without a reason, with their cause.
const ALLOWED: &[(&str, Text)] = &[
    ("a create with a version", Is("resourceVersion should not be set on objects to be created")),
    ("a version that is no number, in a body", Begins("strconv.ParseUint: parsing ")),
    ("a version that is no number, in a GET or watch", Begins("resourceVersion: Invalid value: ")),
    ("an apply that does not fit the schema", Begins("failed to create typed patch object (")),
    ("an apply whose result does not match the type", Begins("failed to convert new object (")),
    ("a binding to no node", Holds("target.name: Required value")),
    ("a binding to another kind", Holds("target.kind: Unsupported value: ")),
    ("a strategic item without its key", Holds(" does not contain declared merge key: ")),
    ("a strategic directive that does not exist", Begins("unknown patch type: ")),
    ("a strategic directive of another form", Begins("expected a ")),
    ("a strategic patch of what the type does not have", Begins("unable to find api field in struct ")),
    ("strategic items in another order", Begins("The order in patch list:\n")),
    ("strategic items of different kinds", Begins("list element types are not identical: [")),
    ("a strategic list that cannot be merged", Begins("cannot merge lists without merge key for type ")),
    ("a strategic directive in an item", Is("merging lists cannot yet be specified in the patch")),
];

/// Whether an error with this code, reason and message is an acceptable response to client input.
pub(super) fn is_allowed(code: u16, reason: &str, message: &str) -> bool {
    if code != 500 {
        // 504: the client's timeout elapsed, or the requested revision did not arrive in time.
        return matches!(code, 400..=499 | 504);
    }
    reason.is_empty()
        && ALLOWED.iter().any(|(_, text)| match text {
            Begins(text) => message.starts_with(text),
            Is(text) => message == *text,
            Holds(text) => message.contains(text),
        })
}

/// Panics if the error is not an acceptable response to client input.
pub(super) fn check(error: &ApiError) {
    assert!(
        is_allowed(error.code, error.reason, &error.message),
        "{} {:?}: {}",
        error.code,
        error.reason,
        error.message
    );
}
