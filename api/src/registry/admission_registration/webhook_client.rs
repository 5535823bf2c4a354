//! How the server reaches a webhook: a URL or a Service.
//!
//! Upstream: apiserver `pkg/util/webhook/validation.go`.

use orlop_apimachinery::names;
use serde_json::Value;

use super::fields::{is_set, text};
use crate::registry::checks;
use crate::validate::{FieldErrors, Path};

const FORM: &str = "; desired format: https://host[/path]";

/// Validates the client configuration of a webhook.
pub(super) fn validate_client(webhook: &Value, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("clientConfig");
    let config = webhook.get("clientConfig").unwrap_or(&Value::Null);
    match (is_set(config, "url"), is_set(config, "service")) {
        (true, false) => validate_url(text(config, "url"), &path.child("url"), errors),
        (false, true) => validate_service(&config["service"], &path.child("service"), errors),
        (true, true) | (false, false) => errors.required(&path, "exactly one of url or service is required"),
    }
}

fn validate_url(url: &str, path: &Path, errors: &mut FieldErrors) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let (authority, _) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if url.chars().any(char::is_control) {
        let why = format!(
            "url must be a valid URL: parse {url:?}: net/url: invalid control character in URL{FORM}"
        );
        return errors.required(path, &why);
    }
    if scheme != "https" {
        errors.invalid(path, scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errors.invalid(path, host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn validate_service(service: &Value, path: &Path, errors: &mut FieldErrors) {
    checks::required(errors, &path.child("name"), text(service, "name"));
    checks::required(errors, &path.child("namespace"), text(service, "namespace"));
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&path.child("port"), port, why);
    }
    let given = text(service, "path");
    let path = path.child("path");
    if given.is_empty() || given == "/" {
        return;
    }
    if given == "//" {
        return errors.invalid(&path, given, "segment[0] may not be empty");
    }
    if !given.starts_with('/') {
        errors.invalid(&path, given, "must start with a '/'");
    }
    // As upstream, the first character is dropped even if it is no slash.
    let rest: String = given.chars().skip(1).collect();
    let rest = rest.strip_suffix('/').unwrap_or(&rest);
    for (at, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(&path, given, &format!("segment[{at}] may not be empty"));
            continue;
        }
        for why in names::dns_subdomain(step) {
            errors.invalid(&path, given, &format!("segment[{at}]: {why}"));
        }
    }
}
