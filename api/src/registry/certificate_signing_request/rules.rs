//! Validation of requests.
//!
//! Upstream: pkg/apis/certificates/validation. Rules that an old object breaks are not enforced on its updates.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_pki::certificate;
use orlop_pki::request::CertificateRequest;
use orlop_pki::signer::Signer;
use orlop_pki::usage;
use serde_json::Value;

use super::super::volume_rules::{items, text};
use super::conditions::{APPROVED, DENIED, FAILED};
use super::{conditions, signer_name};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The shortest lifetime that a client may request, seconds.
const SHORTEST: i64 = 600;
const ANY_STATUS: [&str; 3] = ["False", "True", "Unknown"];
const TRUE_STATUS: [&str; 1] = ["True"];

/// The part of the object that an update may change besides the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayChange {
    /// Nothing.
    Metadata,
    /// The certificate, and conditions other than the approval.
    Certificate,
    /// The conditions, with the approval.
    Approval,
}

/// Validates a new object, or a changed one with its stored form.
pub(super) fn validate(object: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let encoded = object.str_at(&["spec", "request"]);
    // The spec never changes, so a stored request is not parsed again.
    if old.is_none()
        && let Err(error) = check_request(encoded)
    {
        match encoded.is_empty() {
            true => errors.invalid(&path.child("request"), Value::Null, &error),
            false => errors.invalid(&path.child("request"), encoded, &error),
        }
    }
    validate_usages(object, old, &path.child("usages"), errors);
    let signer = object.str_at(&["spec", "signerName"]);
    let is_legacy = |object: &Object| object.str_at(&["spec", "signerName"]) == Signer::LegacyUnknown.name();
    if is_legacy(object) && !old.is_some_and(is_legacy) {
        let why = "the legacy signerName is not allowed via this API version";
        errors.invalid(&path.child("signerName"), signer, why);
    } else {
        signer_name::validate(signer, &path.child("signerName"), errors);
    }
    let expiration = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    if let Some(seconds) = expiration.filter(|seconds| *seconds < SHORTEST) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&path.child("expirationSeconds"), seconds, why);
    }
    validate_conditions(object, old, errors);
    validate_certificate(object, old, errors);
}

/// Parses a request, and verifies its signature.
fn check_request(encoded: &str) -> Result<(), String> {
    // The decoder of the object has rejected invalid base64.
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let request = CertificateRequest::from_pem(&bytes).map_err(|error| error.to_string())?;
    request.verify().map_err(|error| error.to_string())
}

fn usages(object: &Object) -> Vec<&str> {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    items(spec, "usages").iter().filter_map(Value::as_str).collect()
}

fn validate_usages(object: &Object, old: Option<&Object>, path: &Path, errors: &mut FieldErrors) {
    let (given, stored) = (usages(object), old.map(usages).unwrap_or_default());
    let is_unknown = |usage: &&str| usage::names().all(|name| name != *usage);
    let has_twice = |usages: &[&str]| usages.iter().collect::<BTreeSet<_>>().len() < usages.len();
    if given.is_empty() {
        errors.required(path, "");
    }
    if !stored.iter().any(is_unknown) {
        for (index, usage) in given.iter().enumerate().filter(|(_, usage)| is_unknown(usage)) {
            if errors.is_full() {
                break;
            }
            errors.not_supported(&path.index(index), *usage, &usage::names().collect::<Vec<_>>());
        }
    }
    if !has_twice(&stored) {
        let mut seen = BTreeSet::new();
        for (index, usage) in given.iter().enumerate() {
            if !seen.insert(usage) {
                errors.duplicate(&path.index(index), *usage);
            }
        }
    }
}

fn validate_conditions(object: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
    let kinds_of = |object: &Object| -> Vec<String> {
        conditions::of(object).iter().map(|condition| text(condition, "type").to_owned()).collect()
    };
    let stored = old.map(kinds_of).unwrap_or_default();
    let may_be_empty = stored.iter().any(String::is_empty);
    let may_repeat = stored.iter().collect::<BTreeSet<_>>().len() < stored.len();
    let may_contradict = [APPROVED, DENIED].iter().all(|kind| stored.iter().any(|one| one == kind));
    let path = Path::new("status").child("conditions");
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions::of(object).iter().enumerate() {
        let (kind, path) = (text(condition, "type"), path.index(index));
        if kind.is_empty() && !may_be_empty {
            errors.required(&path.child("type"), "");
        }
        let allowed = if [APPROVED, DENIED, FAILED].contains(&kind) { &TRUE_STATUS[..] } else { &ANY_STATUS };
        match text(condition, "status") {
            "" => errors.required(&path.child("status"), ""),
            status if !allowed.contains(&status) => {
                errors.not_supported(&path.child("status"), status, allowed);
            }
            _ => {}
        }
        let other = match kind {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if !may_contradict && other.is_some_and(|other| seen.contains(other)) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&path.child("type"), kind, why);
        }
        if !seen.insert(kind) && !may_repeat {
            errors.duplicate(&path.child("type"), kind);
        }
    }
}

fn certificate(object: &Object) -> &str {
    object.str_at(&["status", "certificate"])
}

fn check_certificate(object: &Object) -> Result<(), String> {
    match STANDARD.decode(certificate(object)).unwrap_or_default() {
        bytes if bytes.is_empty() => Ok(()),
        bytes => certificate::check_chain(&bytes),
    }
}

fn validate_certificate(object: &Object, old: Option<&Object>, errors: &mut FieldErrors) {
    let is_unchanged =
        |old: &Object| certificate(old) == certificate(object) || check_certificate(old).is_err();
    if old.is_some_and(is_unchanged) {
        return;
    }
    if let Err(why) = check_certificate(object) {
        errors.invalid(&Path::new("status").child("certificate"), "<certificate data>", &why);
    }
}

/// Validates a change.
pub(super) fn validate_change(object: &Object, old: &Object, may: MayChange, errors: &mut FieldErrors) {
    let path = Path::new("status").child("conditions");
    let both = |kind: &str| (conditions::of_type(object, kind), conditions::of_type(old, kind));
    for kind in [APPROVED, DENIED, FAILED] {
        let (new, stored) = both(kind);
        if new.len() < stored.len() {
            errors.forbidden(&path, &format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    if may != MayChange::Approval {
        for kind in [APPROVED, DENIED] {
            let (new, stored) = both(kind);
            if new.len() > stored.len() {
                errors.forbidden(&path, &format!("updates may not add a condition of type {kind:?}"));
            } else if new.len() == stored.len() && new != stored {
                // Upstream appends a comparison.
                errors.forbidden(&path, &format!("updates may not modify a condition of type {kind:?}"));
            }
        }
    }
    if certificate(object) == certificate(old) {
        return;
    }
    let path = Path::new("status").child("certificate");
    if may != MayChange::Certificate {
        errors.forbidden(&path, "updates may not set certificate content");
    } else if !certificate(old).is_empty() {
        errors.forbidden(&path, "updates may not modify existing certificate content");
    }
}
