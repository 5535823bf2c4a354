//! What a delete asks for: in its body, or in the query when there is no body.

use serde_json::{Map, Value};

use crate::decode::decode_typed;
use crate::status::ApiError;
use crate::validate::{FieldErrors, Path};
use crate::verbs::options::{check_dry_run, dry_run};
use crate::verbs::request::Request;

const SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// How dependents are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `metav1.DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) dry_run: bool,
    propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// Reads and validates them.
    pub(crate) fn parse(request: &Request) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        let mut options = DeleteOptions::default();
        let policy;
        if request.body.iter().all(u8::is_ascii_whitespace) {
            let query = &request.query;
            options.grace_period_seconds = query.int("gracePeriodSeconds")?;
            options.orphan_dependents = query.has("orphanDependents").then(|| query.flag("orphanDependents"));
            options.dry_run = dry_run(query, &mut errors);
            policy = query.get("propagationPolicy").map(str::to_owned);
        } else {
            let body = decode_typed(SCHEMA, request.media()?, &request.body)?;
            options.grace_period_seconds = body.get("gracePeriodSeconds").and_then(Value::as_i64);
            options.orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool);
            options.uid = precondition(&body, "uid");
            options.resource_version = precondition(&body, "resourceVersion");
            options.dry_run = body_dry_run(&body, &mut errors);
            policy = body.get("propagationPolicy").and_then(Value::as_str).map(str::to_owned);
        }
        // Negative times are the least there is.
        options.grace_period_seconds = options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s });
        let path = Path::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (&policy, options.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&path, policy.as_str(), why);
        }
        options.propagation = match policy.as_deref() {
            None | Some("") => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                errors.not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
        };
        if errors.is_empty() { Ok(options) } else { Err(ApiError::invalid_options("DeleteOptions", &errors)) }
    }

    /// What was asked for, in the new way or the old one.
    pub(crate) fn propagation(&self) -> Option<Propagation> {
        match (self.propagation, self.orphan_dependents) {
            (Some(propagation), _) => Some(propagation),
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        }
    }
}

fn precondition(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get("preconditions")?.get(name)?.as_str().map(str::to_owned)
}

fn body_dry_run(body: &Map<String, Value>, errors: &mut FieldErrors) -> bool {
    let values: Vec<&str> = body
        .get("dryRun")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    check_dry_run(&values, errors)
}
