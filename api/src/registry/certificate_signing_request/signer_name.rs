//! The name of a signer: a domain and a path, such as `example.com/signer`.
//!
//! Upstream: `ValidateSignerName` in pkg/apis/core/validation.

use orlop_apimachinery::names;

use crate::validate::{FieldErrors, Path};

const DOMAIN_MAX: usize = 253;
/// The length of a namespace, a dot, and the name of an object.
const PATH_MAX: usize = 63 + 1 + 253;

/// Validates a name.
pub(super) fn validate(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(path, name, why);
        return;
    };
    if domain.len() > DOMAIN_MAX {
        errors.too_long(path, DOMAIN_MAX);
    }
    labels(domain, names::dns_label, path, errors);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    labels(rest, names::dns_subdomain, path, errors);
    let max = DOMAIN_MAX + PATH_MAX + 1;
    if name.len() > max {
        errors.too_long(path, max);
    }
}

/// Reports the first invalid label.
fn labels(segment: &str, rule: fn(&str) -> Vec<String>, path: &Path, errors: &mut FieldErrors) {
    for label in segment.split('.') {
        let wrong = rule(label);
        for why in &wrong {
            errors.invalid(path, segment, &format!("validating label {label:?}: {why}"));
        }
        if !wrong.is_empty() {
            return;
        }
    }
}
