//! The `CertificateSigningRequest` kind: a request for a certificate, its approval and the certificate.
//!
//! Only `/approval` changes the conditions `Approved` and `Denied`, and only `/status` sets the certificate; the spec never changes.
//!
//! Upstream: pkg/registry/certificates/certificates/strategy.go; the rules are in [`rules`].

mod conditions;
mod rules;
mod signer_name;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use orlop_apimachinery::duration;
use serde_json::{Value, json};

use super::cells;
use super::volume_rules::{items, text};
use crate::kind::{Column, Kind, NameRule, Names, Policy, Requester, Scope, StatusSubresource, Subresource};
use crate::object::Object;
use crate::validate::FieldErrors;
use conditions::{APPROVED, DENIED, FAILED};
use rules::MayChange;

/// The `CertificateSigningRequest` kind.
pub(super) struct CertificateSigningRequest;

const NAMES: Names = Names {
    group: "certificates.k8s.io",
    version: "v1",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    short: &["csr"],
    categories: &[],
    schema: "io.k8s.api.certificates.v1.CertificateSigningRequest",
};

const APPROVAL: &str = "approval";

impl Kind for CertificateSigningRequest {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/certificatesigningrequests/"
    }

    fn policy(&self) -> Policy {
        Policy { names: NameRule::PathSegment, status: StatusSubresource::WithMetadata, ..Policy::DEFAULT }
    }

    fn subresources(&self) -> &'static [Subresource] {
        const SUBRESOURCES: &[Subresource] = &[Subresource {
            name: APPROVAL,
            group: NAMES.group,
            version: NAMES.version,
            kind: NAMES.kind,
            schema: NAMES.schema,
            verbs: &["get", "patch", "update"],
        }];
        SUBRESOURCES
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        object.set(&["status"], json!({}));
    }

    fn set_requester(&self, object: &mut Object, requester: &Requester<'_>) {
        let spec = object.object_at(&["spec"]);
        let mut set = |name: &str, value: Value, is_empty: bool| match is_empty {
            true => drop(spec.remove(name)),
            false => drop(spec.insert(name.to_owned(), value)),
        };
        set("username", requester.username.into(), requester.username.is_empty());
        set("uid", requester.uid.into(), requester.uid.is_empty());
        set("groups", json!(requester.groups), requester.groups.is_empty());
        set("extra", json!(requester.extra), requester.extra.is_empty());
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _now: Timestamp) {
        object.copy_member(old, "spec");
    }

    fn prepare_status(&self, object: &mut Object, old: &Object, now: Timestamp) {
        conditions::keep(object, old, &[APPROVED, DENIED]);
        conditions::set_times(object, old, now);
    }

    fn take_part(&self, subresource: &str, given: &Object, object: &mut Object) {
        if subresource == APPROVAL {
            object.copy_member(given, "metadata");
            match given.at(&["status", "conditions"]) {
                Some(conditions) => object.set(&["status", "conditions"], conditions.clone()),
                None => drop(object.remove(&["status", "conditions"])),
            }
        }
    }

    fn prepare_part(&self, subresource: &str, object: &mut Object, old: &Object, now: Timestamp) {
        if subresource == APPROVAL {
            conditions::set_times(object, old, now);
        }
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        rules::validate(object, None, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        rules::validate(object, Some(old), errors);
        rules::validate_change(object, old, MayChange::Metadata, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        rules::validate(object, Some(old), errors);
        rules::validate_change(object, old, MayChange::Certificate, errors);
    }

    fn validate_part(&self, subresource: &str, object: &Object, old: &Object, errors: &mut FieldErrors) {
        if subresource == APPROVAL {
            rules::validate(object, Some(old), errors);
            rules::validate_change(object, old, MayChange::Approval, errors);
        }
    }

    fn selectable(&self) -> &[&'static str] {
        &["spec.signerName"]
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::AGE,
            cells::text("SignerName", "The signer that the certificate is requested from."),
            cells::text("Requestor", "The user that created the request."),
            cells::text("RequestedDuration", "The requested lifetime of the certificate."),
            cells::text(
                "Condition",
                "Whether the request is approved, and whether the certificate is issued.",
            ),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let expiration = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        vec![
            cells::name(object),
            cells::age(object, now),
            cells::or(object.str_at(&["spec", "signerName"]), "<none>").into(),
            object.str_at(&["spec", "username"]).into(),
            expiration.map_or_else(|| "<none>".to_owned(), duration::human).into(),
            condition(object).into(),
        ]
    }
}

/// The state of a request (upstream: `extractCSRStatus` in pkg/printers).
fn condition(object: &Object) -> String {
    let status = object.at(&["status"]).unwrap_or(&Value::Null);
    let has = |kind: &str| items(status, "conditions").iter().any(|one| text(one, "type") == kind);
    let decision = match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has(FAILED) { ",Failed" } else { "" };
    let issued = if text(status, "certificate").is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}
