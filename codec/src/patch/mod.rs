//! Applies patches, as pure functions from a document and a patch to a document.
//!
//! Reading order: [`apply`] selects the implementation; `json` is RFC 6902, `merge` is RFC 7386, and `strategic`
//! is Kubernetes' own format, which depends on the types; `body` parses patches, and `go_text` formats values for
//! errors. The decoder checks whether the result fits its type.

mod body;
pub mod go_text;
mod json;
mod merge;
mod strategic;

pub use json::apply_operations;

use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_openapi::TypeId;
use serde_json::Value;

/// The patch formats.
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
    /// The format for a `Content-Type` header. Parameters are ignored; the match is case-sensitive.
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

/// The result of a patch.
#[derive(Debug)]
pub struct Patched {
    /// The patched document, not yet checked against its type.
    pub document: Value,
    /// Unknown members of the patch itself: warnings, or errors under strict field validation.
    pub warnings: Vec<String>,
}

/// Applies a patch to an object's JSON with `kind` and `apiVersion`, of the type `ty`.
///
/// # Errors
/// Errors have upstream's codes and texts: 400 for a patch that cannot be parsed, and 422 for one that cannot be
/// applied or, for strategic merge patches, usually a plain 500.
pub fn apply(kind: PatchKind, document: Value, patch: &[u8], ty: TypeId) -> Result<Patched, ApiError> {
    let document = match kind {
        PatchKind::Json => return json::apply(document, patch),
        PatchKind::Merge => merge::apply(document, patch)?,
        PatchKind::Strategic => strategic::apply(document, patch, orlop_openapi::types(), ty)?,
        // Server-side apply needs the managed fields and has its own entry point.
        PatchKind::Apply => return Err(ApiError::unsupported_media_type("415: Unsupported Media Type")),
    };
    Ok(Patched { document, warnings: Vec::new() })
}

/// The most weight of values that one patch copies ([`estimate_weight`](crate::decode::estimate_weight)); 0 if the patch copies none. Reads
/// the text only, so a patch without copies may have weight too.
pub fn copied_weight(kind: PatchKind, patch: &[u8]) -> u64 {
    let has = |text: &[u8]| patch.windows(text.len()).any(|window| window == text);
    match kind {
        // Text can also be written with escapes.
        PatchKind::Json if has(b"copy") || has(b"\\u") => json::COPIED_WEIGHT_MAX,
        PatchKind::Json | PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => 0,
    }
}

/// Whether a patch can put values of the object into other fields: only the operations `copy` and `move` of JSON patches do. A patch
/// that cannot be parsed does not.
pub fn copies(kind: PatchKind, patch: &[u8]) -> bool {
    match kind {
        PatchKind::Json => json::copies(patch),
        PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => false,
    }
}

/// Returns a 422 for a patch result that does not fit the type or fails strict validation; `why` is the
/// decoder's error. Like upstream, the message includes the result or, for strategic merge patches, the patch. Unlike
/// upstream, a long one is cut, and that of a Secret is left out: clients log such messages.
pub fn unfit_result(kind: PatchKind, document: &Value, patch: &[u8], is_secret: bool, why: &str) -> ApiError {
    let shown = match kind {
        _ if is_secret => "(hidden)".to_owned(),
        PatchKind::Strategic => body::read(patch).map(|patch| go_text::shown(&patch)).unwrap_or_default(),
        PatchKind::Json | PatchKind::Merge | PatchKind::Apply => go_text::json(document),
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
    fn content_type_selects_the_patch_format() {
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
    fn only_json_patches_copy_values() {
        for (kind, patch, want) in [
            (PatchKind::Json, r#"[{"op": "add", "path": "/a", "value": 1}, {"op": "copy"}]"#, true),
            (PatchKind::Json, r#"[{"op": "move", "from": "/a", "path": "/b"}]"#, true),
            (PatchKind::Json, r#"[{"op": "replace", "path": "/copy", "value": "move"}]"#, false),
            (PatchKind::Json, r#"[1, null, {"op": 1}]"#, false),
            (PatchKind::Json, "not JSON", false),
            (PatchKind::Merge, r#"[{"op": "copy"}]"#, false),
        ] {
            assert_eq!(copies(kind, patch.as_bytes()), want, "{patch}");
        }
    }

    #[test]
    fn unfit_result_error_shows_the_result_or_strategic_patch() {
        let error = unfit_result(PatchKind::Merge, &json!({"a": 1}), b"{}", false, "why");
        assert_eq!(error.message, " \"\" is invalid: patch: Invalid value: \"{\\\"a\\\":1}\": why");
        assert_eq!(
            error.to_status()["details"],
            json!({"causes": [{
                "reason": "FieldValueInvalid", "field": "patch",
                "message": "Invalid value: \"{\\\"a\\\":1}\": why",
            }]})
        );
        for kind in [PatchKind::Merge, PatchKind::Json, PatchKind::Strategic] {
            let error = unfit_result(kind, &json!({"data": "marker"}), br#"{"data":"marker"}"#, true, "why");
            assert!(!error.to_status().to_string().contains("marker"), "{kind:?}");
        }
        let error = unfit_result(PatchKind::Strategic, &json!({}), br#"{"bogus":1}"#, false, "why");
        assert_eq!(error.message, " \"\" is invalid: patch: Invalid value: \"map[bogus:1]\": why");
    }
}
