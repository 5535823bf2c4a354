//! Certificate requests: `CertificateApproval` and `CertificateSigning` require the right to approve for a signer or to sign in its
//! name, and `CertificateSubjectRestriction` rejects requests for a certificate of the administrators' group.
//!
//! Upstream: plugin/pkg/admission/certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::request_info::{RequestInfo, RequestTarget, ResourceTarget};
use orlop_pki::request::CertificateRequest;
use orlop_pki::signer::Signer;
use serde_json::Value;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
/// The group of administrators.
const MASTERS: &str = "system:masters";

/// `CertificateApproval`.
pub(super) struct CertificateApproval;
/// `CertificateSigning`.
pub(super) struct CertificateSigning;
/// `CertificateSubjectRestriction`.
pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        // The signer is that of the stored request, because the client could send another one.
        let Some((old, _)) = updated(request, "approval") else { return Ok(()) };
        require(request, lookup, "approve", signer_of(old))
    }
}

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let Some((old, new)) = updated(request, "status") else { return Ok(()) };
        let part =
            |object: &Object, name| object.at(&["status", name]).filter(|value| !value.is_null()).cloned();
        let is_same = |name| part(old, name) == part(new, name);
        if is_same("certificate") && is_same("conditions") {
            return Ok(());
        }
        require(request, lookup, "sign", signer_of(old))
    }
}

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate(&self, request: &Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        let signer = Signer::ApiserverClient.name();
        let Some(object) = request
            .object
            .as_deref()
            .filter(|_| request.operation == Operation::Create && request.is(GROUP, PLURAL))
        else {
            return Ok(());
        };
        if signer_of(object) != signer {
            return Ok(());
        }
        let encoded = object.at(&["spec", "request"]).and_then(Value::as_str).unwrap_or_default();
        let asked = CertificateRequest::from_pem(&STANDARD.decode(encoded).unwrap_or_default())
            .map_err(|error| request.refuse(&format!("failed to parse CSR: {error}")))?;
        if asked.organizations.iter().any(|group| group == MASTERS) {
            let why = format!("use of {signer} signer with {MASTERS} group is not allowed");
            return Err(request.refuse(&why));
        }
        Ok(())
    }
}

/// The stored and the new form of a request, if this is an update through the subresource.
fn updated<'a>(request: &'a Request<'_>, subresource: &str) -> Option<(&'a Object, &'a Object)> {
    let names = request.names();
    let is_this = request.operation == Operation::Update
        && request.subresource == subresource
        && names.group == GROUP
        && names.plural == PLURAL;
    is_this.then_some(request.old?).zip(request.object.as_deref())
}

fn signer_of(object: &Object) -> &str {
    object.str_at(&["spec", "signerName"])
}

/// The right is for one signer, or for all signers of a domain (`example.com/*`).
fn require(
    request: &Request<'_>,
    lookup: &dyn Lookup,
    verb: &'static str,
    signer: &str,
) -> Result<(), ApiError> {
    let is_permitted = |name: &str| {
        let target = ResourceTarget {
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name: name.to_owned(),
            ..ResourceTarget::default()
        };
        let asked = RequestInfo { verb: verb.into(), target: RequestTarget::Resource(target) };
        lookup.permits(request.user, &asked)
    };
    let domain = signer.split('/').next().unwrap_or_default();
    if is_permitted(signer) || is_permitted(&format!("{domain}/*")) {
        return Ok(());
    }
    Err(request.refuse(&format!("user not permitted to {verb} requests with signerName {signer:?}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_pki::private_key::PrivateKey;
    use orlop_pki::request::{AlternativeNames, create};
    use serde_json::json;

    use super::super::testing::{Facts, PERMITTED_DOMAIN, Write};
    use super::*;

    fn of_signer(signer: &str, status: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"signerName": signer}, "status": status})
    }

    #[test]
    fn approval_and_signature_need_a_right_for_the_signer() {
        let permitted = format!("{PERMITTED_DOMAIN}/x");
        let refused = |verb: &str| {
            Err(format!(
                "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to {verb} \
                 requests with signerName \"example.org/x\""
            ))
        };
        let none = json!({});
        let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        let issued = json!({"certificate": "eA=="});
        type Case<'a> = (&'a str, &'a dyn Plugin, &'static str, &'a str, &'a Value, Result<(), String>);
        let cases: [Case<'_>; 8] = [
            ("1 approval", &CertificateApproval, "approval", &permitted, &approved, Ok(())),
            ("2 no right", &CertificateApproval, "approval", "example.org/x", &approved, refused("approve")),
            ("3 another part", &CertificateApproval, "status", "example.org/x", &approved, Ok(())),
            ("4 signature", &CertificateSigning, "status", &permitted, &issued, Ok(())),
            ("5 no right", &CertificateSigning, "status", "example.org/x", &issued, refused("sign")),
            (
                "6 no right to set a condition",
                &CertificateSigning,
                "status",
                "example.org/x",
                &approved,
                refused("sign"),
            ),
            ("7 no change", &CertificateSigning, "status", "example.org/x", &none, Ok(())),
            ("8 another part", &CertificateSigning, "", "example.org/x", &issued, Ok(())),
        ];
        for (case, plugin, part, signer, status, want) in cases {
            let (old, new) = (of_signer(signer, none.clone()), of_signer(signer, status.clone()));
            let mut write = Write::update(PLURAL, old, new).to(part);
            let got = write.validate(plugin, &Facts::none()).map_err(|error| error.message);
            assert_eq!(got, want, "{case}");
        }
        // The client sends a signer that differs from the stored one.
        let claimed = of_signer(&permitted, approved);
        let mut write = Write::update(PLURAL, of_signer("example.org/x", none), claimed).to("approval");
        assert!(write.validate(&CertificateApproval, &Facts::none()).is_err());
    }

    #[test]
    fn requests_for_the_group_of_administrators_are_rejected() {
        let (key, _) = PrivateKey::generate().unwrap();
        let signer = Signer::ApiserverClient.name();
        for (case, groups, signer, want) in [
            ("1 a group", &["devs"][..], signer, true),
            ("2 the administrators", &["devs", MASTERS], signer, false),
            ("3 of another signer", &[MASTERS], "example.org/x", true),
        ] {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            let text = create(&key, "ann", &groups, &AlternativeNames::default()).unwrap();
            let object = json!({"metadata": {"name": "a"}, "spec": {"signerName": signer,
                "request": STANDARD.encode(text)}});
            let got = Write::create(PLURAL, object).validate(&CertificateSubjectRestriction, &Facts::none());
            assert_eq!(got.is_ok(), want, "{case}: {got:?}");
        }
    }
}
