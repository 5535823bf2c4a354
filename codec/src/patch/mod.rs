//! Patches: pure functions from a document and a patch to a document.
//!
//! Reading order: [`apply`] chooses; `json` is RFC 6902, `merge` is RFC 7386, `strategic` is
//! Kubernetes' own, which knows the types; `body` reads what clients send, and `go_text` shows
//! values in errors. Whether the result fits its type is the decoder's business.

mod body;
pub mod go_text;
mod json;
mod merge;
mod strategic;

use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_openapi::TypeId;
use serde_json::Value;

/// The forms of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// The form that a `Content-Type` header names; parameters do not count, case does.
    pub fn from_content_type(header: &str) -> Option<PatchKind> {
        match header.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Some(PatchKind::Json),
            "application/merge-patch+json" => Some(PatchKind::Merge),
            "application/strategic-merge-patch+json" => Some(PatchKind::Strategic),
            "application/apply-patch+yaml" => Some(PatchKind::Apply),
            _ => None,
        }
    }
}

/// What came of a patch.
#[derive(Debug)]
pub struct Patched {
    /// The changed document, not yet checked against its type.
    pub document: Value,
    /// Unknown members in the patch itself: warnings, or errors under strict field validation.
    pub warnings: Vec<String>,
}

/// Applies a patch to an object's JSON with `kind` and `apiVersion`, of the type `ty`.
///
/// # Errors
/// With upstream's codes and texts: a patch that cannot be read is a 400, one that cannot be
/// carried out a 422 or, for strategic merge patches, mostly a plain 500.
pub fn apply(kind: PatchKind, document: Value, patch: &[u8], ty: TypeId) -> Result<Patched, ApiError> {
    let document = match kind {
        PatchKind::Json => return json::apply(document, patch),
        PatchKind::Merge => merge::apply(document, patch)?,
        PatchKind::Strategic => strategic::apply(document, patch, orlop_openapi::types(), ty)?,
        // Needs the managed fields, so it does not come this way.
        PatchKind::Apply => return Err(ApiError::unsupported_media_type("415: Unsupported Media Type")),
    };
    Ok(Patched { document, warnings: Vec::new() })
}

/// 422 for a patch whose result does not fit the type, or strictly speaking should not: `why` is
/// the decoder's text. Upstream shows the result, but for strategic merge patches the patch.
pub fn unfit_result(kind: PatchKind, document: &Value, patch: &[u8], why: &str) -> ApiError {
    let shown = match (kind, body::read(patch)) {
        (PatchKind::Strategic, Ok(patch)) => go_text::shown(&patch),
        (PatchKind::Strategic, Err(_)) => String::new(),
        (PatchKind::Json | PatchKind::Merge | PatchKind::Apply, _) => document.to_string(),
    };
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::new("patch"), shown, why);
    ApiError::invalid("", "", "", &errors)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn content_types() {
        for (header, expected) in [
            ("application/json-patch+json", Some(PatchKind::Json)),
            ("application/merge-patch+json; charset=utf-8", Some(PatchKind::Merge)),
            ("application/merge-patch+json;q=1", Some(PatchKind::Merge)),
            ("application/strategic-merge-patch+json;x=y", Some(PatchKind::Strategic)),
            ("application/apply-patch+yaml", Some(PatchKind::Apply)),
            ("Application/Merge-Patch+JSON", None),
            ("application/apply-patch+json", None),
            ("merge-patch+json", None),
            ("", None),
        ] {
            assert_eq!(PatchKind::from_content_type(header), expected, "{header}");
        }
    }

    #[test]
    fn unfit_results() {
        let error = unfit_result(PatchKind::Merge, &json!({"a": 1}), b"{}", "why");
        assert_eq!(error.message, " \"\" is invalid: patch: Invalid value: \"{\\\"a\\\":1}\": why");
        assert_eq!(
            error.to_status()["details"],
            json!({"causes": [{
                "reason": "FieldValueInvalid", "field": "patch",
                "message": "Invalid value: \"{\\\"a\\\":1}\": why",
            }]})
        );
        let error = unfit_result(PatchKind::Strategic, &json!({}), br#"{"bogus":1}"#, "why");
        assert_eq!(error.message, " \"\" is invalid: patch: Invalid value: \"map[bogus:1]\": why");
    }
}
