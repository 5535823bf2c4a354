//! Defines the errors of strategic merge patches.

use orlop_api::status::ApiError;
use serde_json::Value;

use crate::patch::go_text;

/// Maximum number of list items that one patch may merge or sort. A patch may repeat an item, and each
/// time the lists of the item are merged. Lists that fit in a body have fewer items.
pub(super) const STEPS_MAX: u64 = 1_000_000;

/// Why a patch cannot be merged. The texts are upstream's, as is the distinction between client errors and 500.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// A malformed directive: 400.
    #[error("invalid patch format of {0}")]
    Format(&'static str),
    /// The patch contradicts itself or contains lists of lists: 422 without a message.
    #[error("the patch cannot be carried out")]
    Unprocessable,
    /// An item without a merge key: 500.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey { map: String, key: String },
    /// An unknown directive: 500.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective { directive: String, map: String },
    /// A value of the wrong type for a directive: 500.
    #[error("expected a {expected}, but received a {found}")]
    Kind { expected: &'static str, found: &'static str },
    /// A field that the type does not have: 500.
    #[error("unable to find api field in struct {owner} for the json field \"{field}\"")]
    NoField { owner: String, field: String },
    /// Items in a different order than the directive specifies: 500.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    Order { patch: String, order: String },
    /// A list of items with different types: 500.
    #[error("list element types are not identical: [{0} {1}]")]
    Mixed(String, String),
    /// A list without a declared merge key: 500.
    #[error("cannot merge lists without merge key for type {0}")]
    NoKeyDeclared(String),
    /// `$patch: merge` in an item: 500.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// The patch merges long lists too often: 413.
    #[error(
        "Request entity too large: the patch merges more than {STEPS_MAX} list items; list each item once"
    )]
    OutOfSteps,
}

impl Fault {
    pub(super) fn kind(expected: &'static str, found: &Value) -> Self {
        Fault::Kind { expected, found: go_text::type_name(found) }
    }

    pub(super) fn answer(self) -> ApiError {
        match self {
            Fault::Format(_) => ApiError::bad_request(self.to_string()),
            Fault::Unprocessable => ApiError::unprocessable(),
            Fault::OutOfSteps => ApiError::too_large(self.to_string()),
            Fault::NoMergeKey { .. }
            | Fault::UnknownDirective { .. }
            | Fault::Kind { .. }
            | Fault::NoField { .. }
            | Fault::Order { .. }
            | Fault::Mixed(..)
            | Fault::NoKeyDeclared(_)
            | Fault::MergeInList => ApiError::plain_internal(self.to_string()),
        }
    }
}
