//! The spec of a claim: requests for devices, constraints and configurations.

use serde_json::{Map, Value};

use super::collection::{each, each_unique, items};
use super::names::{self, RequestNames};
use super::selector::{validate_configuration, validate_selectors};
use super::taint::validate_tolerations;
use crate::registry::expressions::CompilesExpressions;
use crate::registry::json_defaults;
use crate::registry::workload::{given, number, text};
use crate::registry::{checks, workload};
use crate::validate::{FieldErrors, Path};

/// Maximum number of requests of a claim, and of references to them.
pub(super) const MOST_REQUESTS: usize = 32;
/// Maximum number of configurations of a claim or a class.
pub(super) const MOST_CONFIGURATIONS: usize = 32;
const MOST_CONSTRAINTS: usize = 32;
const MOST_ALTERNATIVES: usize = 8;

/// Maximum length of the expressions of all selectors of a claim, bytes: compiling a kilobyte takes several milliseconds.
const MOST_SELECTOR_BYTES: usize = 256 << 10;

const ONE_OF: &str = "exactly one of `exactly` or `firstAvailable` is required";
const MANY_OF: &str = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
const NO_ATTRIBUTE: &str =
    "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";

/// Sets the fields that the requests of a claim omit.
pub(super) fn default_spec(spec: &mut Map<String, Value>) {
    let Some(devices) = json_defaults::object(spec, "devices") else { return };
    for request in json_defaults::objects(json_defaults::list(devices, "requests")) {
        if let Some(exactly) = json_defaults::object(request, "exactly") {
            default_request(exactly);
        }
        json_defaults::objects(json_defaults::list(request, "firstAvailable")).for_each(default_request);
    }
}

fn default_request(request: &mut Map<String, Value>) {
    json_defaults::text(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
        json_defaults::number(request, "count", 1);
    }
}

/// Validates a spec.
pub(super) fn validate_spec(
    spec: &Value,
    compiler: &dyn CompilesExpressions,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let devices = spec.get("devices").unwrap_or(&Value::Null);
    if selector_bytes(devices) > MOST_SELECTOR_BYTES {
        return errors.too_long(&path.child("devices"), MOST_SELECTOR_BYTES);
    }
    let path = path.child("devices");
    let known = RequestNames::of(devices);
    let name = |request: &Value| text(request, "name").into();
    let requests = items(devices, "requests");
    each_unique(requests, MOST_REQUESTS, name, &path.child("requests"), errors, |request, path, errors| {
        validate_request(request, compiler, path, errors);
    });
    let constraints = items(devices, "constraints");
    each(constraints, MOST_CONSTRAINTS, &path.child("constraints"), errors, |constraint, path, errors| {
        validate_constraint(constraint, &known, path, errors);
    });
    let config = items(devices, "config");
    each(config, MOST_CONFIGURATIONS, &path.child("config"), errors, |config, path, errors| {
        validate_references(config, &known, path, errors);
        validate_configuration(config, false, path, errors);
    });
}

/// The length of the expressions of all selectors.
fn selector_bytes(devices: &Value) -> usize {
    let requests = items(devices, "requests").iter();
    let parts = requests
        .flat_map(|request| given(request, "exactly").into_iter().chain(items(request, "firstAvailable")));
    let selectors = parts.flat_map(|part| items(part, "selectors"));
    selectors.map(|selector| given(selector, "cel").map_or(0, |cel| text(cel, "expression").len())).sum()
}

fn validate_request(
    request: &Value,
    compiler: &dyn CompilesExpressions,
    path: &Path,
    errors: &mut FieldErrors,
) {
    checks::label(errors, &path.child("name"), text(request, "name"));
    let alternatives = items(request, "firstAvailable");
    match (given(request, "exactly"), alternatives.is_empty()) {
        (None, true) => errors.required(path, ONE_OF),
        (Some(_), false) => errors.invalid(path, Value::Null, MANY_OF),
        (Some(exactly), true) => validate_devices(exactly, compiler, &path.child("exactly"), errors),
        (None, false) => {
            let path = path.child("firstAvailable");
            let name = |one: &Value| text(one, "name").into();
            each_unique(alternatives, MOST_ALTERNATIVES, name, &path, errors, |one, path, errors| {
                checks::label(errors, &path.child("name"), text(one, "name"));
                validate_devices(one, compiler, path, errors);
            });
        }
    }
}

/// The devices that a request, or one of its alternatives, asks for.
fn validate_devices(
    request: &Value,
    compiler: &dyn CompilesExpressions,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let class = text(request, "deviceClassName");
    if checks::required(errors, &path.child("deviceClassName"), class) {
        checks::subdomain(errors, &path.child("deviceClassName"), class);
    }
    validate_selectors(request, compiler, path, errors);
    let count = number(request, "count");
    match text(request, "allocationMode") {
        mode @ "All" if count != 0 => {
            let why = format!("must not be specified when allocationMode is '{mode}'");
            errors.invalid(&path.child("count"), count, &why);
        }
        "All" => {}
        "ExactCount" if count <= 0 => {
            errors.invalid(&path.child("count"), count, "must be greater than zero");
        }
        "ExactCount" => {}
        other => errors.not_supported(&path.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    validate_tolerations(request, path, errors);
}

fn validate_constraint(constraint: &Value, known: &RequestNames<'_>, path: &Path, errors: &mut FieldErrors) {
    validate_references(constraint, known, path, errors);
    let attribute = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|field| workload::given(constraint, field).map(|name| (field, name)));
    match attribute {
        Some((field, name)) => {
            names::fully_qualified(name.as_str().unwrap_or_default(), &path.child(field), errors);
        }
        None => errors.required(path, NO_ATTRIBUTE),
    }
}

/// The `requests` that a constraint or a configuration applies to.
pub(super) fn validate_references(
    of: &Value,
    known: &RequestNames<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("requests");
    each_unique(items(of, "requests"), MOST_REQUESTS, Value::clone, &path, errors, |name, path, errors| {
        known.validate_reference(name.as_str().unwrap_or_default(), path, errors);
    });
}
