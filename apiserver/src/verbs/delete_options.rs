//! Options of a delete, from its body, or from the query if there is no body.

use serde_json::{Map, Value};

use crate::registry::Kind;
use crate::verbs::options::{check_dry_run, dry_run};
use crate::verbs::request::Request;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};
use orlop_codec::decode::decode_typed;

const SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The treatment of the dependents of a deleted object.
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
    /// Deletes an object that cannot be read (`ignoreStoreReadErrorWithClusterBreakingPotential`).
    pub(crate) ignores_read_error: bool,
    propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// Parses and validates the options of a request (upstream: apimachinery `Convert_url_Values_To_v1_DeleteOptions` for
    /// those in the query).
    pub(crate) fn parse(request: &Request) -> Result<Self, ApiError> {
        if !request.body.is_empty() {
            return Self::from_body(&decode_typed(SCHEMA, request.media()?, &request.body)?);
        }
        let query = &request.query;
        let mut errors = FieldErrors::new();
        let options = DeleteOptions {
            grace_period_seconds: query.int("gracePeriodSeconds")?,
            orphan_dependents: query.has("orphanDependents").then(|| query.flag("orphanDependents")),
            uid: query.get("uid").filter(|uid| !uid.is_empty()).map(str::to_owned),
            resource_version: query
                .get("resourceVersion")
                .filter(|given| !given.is_empty())
                .map(str::to_owned),
            dry_run: dry_run(query, &mut errors),
            ignores_read_error: query.flag(IGNORE_READ_ERROR),
            ..DeleteOptions::default()
        };
        options.finish(query.get("propagationPolicy"), errors)
    }

    /// Parses and validates the options in a body, or in a part of one.
    pub(crate) fn from_body(body: &Map<String, Value>) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        let options = DeleteOptions {
            grace_period_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
            orphan_dependents: body.get("orphanDependents").and_then(Value::as_bool),
            uid: precondition(body, "uid"),
            resource_version: precondition(body, "resourceVersion"),
            dry_run: body_dry_run(body, &mut errors),
            ignores_read_error: body.get(IGNORE_READ_ERROR).and_then(Value::as_bool).unwrap_or_default(),
            propagation: None,
        };
        options.finish(body.get("propagationPolicy").and_then(Value::as_str), errors)
    }

    fn finish(mut self, policy: Option<&str>, mut errors: FieldErrors) -> Result<Self, ApiError> {
        // A negative grace period counts as one second.
        self.grace_period_seconds = self.grace_period_seconds.map(|s| if s < 0 { 1 } else { s });
        let path = Path::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (policy, self.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&path, policy, why);
        }
        self.propagation = match policy {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                errors.not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
        };
        if self.ignores_read_error {
            let path = Path::new(IGNORE_READ_ERROR);
            for (is_set, other) in [
                (self.dry_run, "dryRun"),
                (policy.is_some(), "propagationPolicy"),
                (self.orphan_dependents.is_some(), "orphanDependents"),
                (self.grace_period_seconds.is_some(), "gracePeriodSeconds"),
                (self.uid.is_some() || self.resource_version.is_some(), "preconditions"),
            ] {
                if is_set {
                    errors.invalid(&path, true, &format!("cannot be set together with .{other}"));
                }
            }
        }
        if errors.is_empty() { Ok(self) } else { Err(ApiError::invalid_options("DeleteOptions", &errors)) }
    }

    /// The requested policy, from `propagationPolicy` or the legacy `orphanDependents`.
    pub(crate) fn propagation(&self) -> Option<Propagation> {
        match (self.propagation, self.orphan_dependents) {
            (Some(propagation), _) => Some(propagation),
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        }
    }

    /// 422 if the options are not possible for the delete of a collection.
    pub(crate) fn check_collection(&self) -> Result<(), ApiError> {
        if !self.ignores_read_error {
            return Ok(());
        }
        let mut errors = FieldErrors::new();
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        errors.invalid(&Path::new(IGNORE_READ_ERROR), true, why);
        Err(ApiError::invalid_options("DeleteOptions", &errors))
    }

    /// The warnings about a delete with these options.
    pub(crate) fn warnings(&self, kind: &dyn Kind) -> Vec<String> {
        let warning = kind.delete_warning().filter(|_| self.propagation().is_none());
        warning.into_iter().map(str::to_owned).collect()
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
