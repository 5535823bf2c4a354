//! Query options of a write, with upstream's validation.

use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_codec::decode::FieldValidation;

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    /// Perform all steps, but store nothing.
    pub(crate) dry_run: bool,
    /// How to handle unknown and duplicate fields.
    pub(crate) validation: FieldValidation,
    /// The field manager; `""` means the name of the client.
    pub(crate) field_manager: String,
    /// Take over fields that other managers own.
    pub(crate) force: bool,
}

const FIELD_MANAGER_MAX: usize = 128;

impl WriteOptions {
    /// Parses the options. `kind` is the option kind in errors, such as `CreateOptions`.
    pub(crate) fn parse(kind: &str, query: &Query) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        if kind == "PatchOptions" && query.has("force") {
            errors.forbidden(&Path::new("force"), "may not be specified for non-apply patch");
        }
        Self::finish(kind, query, errors)
    }

    /// Parses the options of an apply, which require a field manager.
    pub(crate) fn parse_apply(query: &Query) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        if query.text("fieldManager").is_empty() {
            errors.required(&Path::new("fieldManager"), "is required for apply patch");
        }
        Self::finish("PatchOptions", query, errors)
    }

    fn finish(kind: &str, query: &Query, mut errors: FieldErrors) -> Result<Self, ApiError> {
        let dry_run = dry_run(query, &mut errors);
        field_manager(query.text("fieldManager"), &mut errors);
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.not_supported(&Path::new("fieldValidation"), other, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            let field_manager = query.text("fieldManager").to_owned();
            return Ok(WriteOptions { dry_run, validation, field_manager, force: query.flag("force") });
        }
        Err(ApiError::invalid_options(kind, &errors))
    }
}

/// Whether the request is a dry run; any value other than `All` is an error.
pub(crate) fn dry_run(query: &Query, errors: &mut FieldErrors) -> bool {
    let values: Vec<&str> = query.all("dryRun").collect();
    check_dry_run(&values, errors)
}

/// The same check for values from a body.
pub(crate) fn check_dry_run(values: &[&str], errors: &mut FieldErrors) -> bool {
    if values.iter().any(|value| *value != "All") {
        let shown: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        errors.not_supported(&Path::new("dryRun"), shown, &["All"]);
    }
    !values.is_empty()
}

fn field_manager(manager: &str, errors: &mut FieldErrors) {
    let path = Path::new("fieldManager");
    if manager.len() > FIELD_MANAGER_MAX {
        errors.too_long(&path, FIELD_MANAGER_MAX);
    }
    // Each error contains the whole name: of a name that is too long, only the first character is reported.
    let reported = if manager.len() > FIELD_MANAGER_MAX { 1 } else { FIELD_MANAGER_MAX };
    for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control()).take(reported) {
        errors.invalid(
            &path,
            manager,
            &format!("invalid character U+{:04X} (at position {at})", u32::from(c)),
        );
    }
}
