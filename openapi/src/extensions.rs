//! The extensions of schemas and operations.

use serde_json::Value;
use utoipa::openapi::extensions::Extensions;

/// `None` if there are no extensions.
pub(crate) fn extensions<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Option<Extensions> {
    let extensions: Extensions = pairs.into_iter().collect();
    (!extensions.is_empty()).then_some(extensions)
}
