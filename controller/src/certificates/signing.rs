//! `certificatesigningrequest-signing-controller`: signs approved requests for the signers of Kubernetes.
//!
//! Upstream runs one controller for each signer, pkg/controller/certificates/signer.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::names::controller;
use orlop_pki::request::CertificateRequest;
use orlop_pki::signer::Signer;

use super::authority::SigningAuthority;
use super::{APPROVED, CertificateError, DENIED, FAILED, certificate, follow, has_condition};
use crate::context::{Context, ControllerError};

/// The shortest lifetime: twice the time by which clocks may differ.
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// The reason of the condition `Failed`.
const REFUSED: &str = "SignerValidationFailure";

/// The decision about a request.
#[derive(Debug)]
pub enum Signing {
    /// Nothing: it is not approved, done, or for another signer.
    Nothing,
    /// The condition `Failed`, with this message.
    Fail(String),
    /// A certificate.
    Sign {
        /// The content of the request.
        request: Box<CertificateRequest>,
        /// The usages of the certificate.
        usages: Vec<String>,
        /// Its lifetime.
        lifetime: SignedDuration,
    },
}

/// Decides about a request. No certificate lives longer than `longest`.
pub fn decide(csr: &CertificateSigningRequest, longest: SignedDuration) -> Signing {
    let is_ready = has_condition(csr, APPROVED) && !has_condition(csr, DENIED) && !has_condition(csr, FAILED);
    let Some(signer) = Signer::of(&csr.spec.signer_name).filter(|_| is_ready && certificate(csr).is_none())
    else {
        return Signing::Nothing;
    };
    let request = match CertificateRequest::from_pem(&csr.spec.request.0) {
        Ok(request) => Box::new(request),
        Err(error) => return Signing::Fail(error.to_string()),
    };
    let usages = csr.spec.usages.clone().unwrap_or_default();
    if let Err(why) = signer.accepts(&request, &usages) {
        return Signing::Fail(why);
    }
    let requested = csr.spec.expiration_seconds.map(|seconds| SignedDuration::from_secs(seconds.into()));
    let lifetime = requested.map_or(longest, |requested| requested.max(SHORTEST).min(longest));
    Signing::Sign { request, usages, lifetime }
}

/// The request with the condition `Failed`.
fn failed(csr: &CertificateSigningRequest, message: String, now: Timestamp) -> CertificateSigningRequest {
    let mut failed = csr.clone();
    let status = failed.status.get_or_insert_with(CertificateSigningRequestStatus::default);
    status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
        type_: FAILED.to_owned(),
        status: "True".to_owned(),
        reason: Some(REFUSED.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        ..CertificateSigningRequestCondition::default()
    });
    failed
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let authority = context.options.signing_authority.clone();
        if authority.is_none() {
            tracing::info!("no certificate requests are signed: there is no authority");
        }
        follow(&context, controller::CSR_SIGNING, |requests, _queue, name| {
            sync(&context, authority.as_ref(), requests.get(&name))
        })
        .await;
        Ok(())
    })
}

/// One write, conditional on the cached version; if it fails, the next sync decides and signs again. The certificate of the
/// failed write is discarded.
async fn sync(
    context: &Context,
    authority: Option<&SigningAuthority>,
    csr: Option<std::sync::Arc<CertificateSigningRequest>>,
) -> Result<(), CertificateError> {
    let Some(csr) = csr else { return Ok(()) };
    let name = csr.metadata.name.clone().unwrap_or_default();
    let now = context.clock.now();
    let longest =
        SignedDuration::try_from(context.options.cluster_signing_duration).unwrap_or(SignedDuration::MAX);
    let (what, next) = match decide(&csr, longest) {
        Signing::Nothing => return Ok(()),
        Signing::Fail(message) => ("reject", failed(&csr, message, now)),
        Signing::Sign { request, usages, lifetime } => {
            // Without an authority, only invalid requests get a result.
            let Some(authority) = authority else { return Ok(()) };
            let refused = |reason: String| CertificateError::Authority { name: name.clone(), reason };
            let authority = authority.load().map_err(|error| refused(error.to_string()))?;
            let signed = authority.sign_request(&request, &usages, lifetime, now);
            let signed = signed.map_err(|error| refused(error.to_string()))?;
            let mut next = CertificateSigningRequest::clone(&csr);
            let status = next.status.get_or_insert_with(CertificateSigningRequestStatus::default);
            status.certificate = Some(ByteString(signed.into_bytes()));
            ("sign", next)
        }
    };
    let api: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    match api.replace_status(&name, &PostParams::default(), &next).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(source) => Err(CertificateError::Write { what, name, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node_request, user_request, with_condition};
    use super::*;

    /// The decision in a form that can be compared.
    fn shown(csr: &CertificateSigningRequest) -> String {
        match decide(csr, SignedDuration::from_hours(24)) {
            Signing::Nothing => "nothing".to_owned(),
            Signing::Fail(why) => why,
            Signing::Sign { request, usages, lifetime } => {
                format!("{} {usages:?} {}s", request.common_name, lifetime.as_secs())
            }
        }
    }

    #[test]
    fn approved_requests_are_signed_within_the_longest_lifetime() {
        let approved = with_condition(node_request(), APPROVED);
        let with_expiration = |seconds| {
            let mut csr = approved.clone();
            csr.spec.expiration_seconds = Some(seconds);
            csr
        };
        let of_signer = |name: &str| {
            let mut csr = approved.clone();
            csr.spec.signer_name = name.to_owned();
            csr
        };
        let mut issued = approved.clone();
        issued.status.get_or_insert_default().certificate = Some(ByteString(b"x".to_vec()));
        let mut damaged = approved.clone();
        damaged.spec.request = ByteString(b"x".to_vec());
        let mut server = with_condition(user_request(), APPROVED);
        server.spec.usages = Some(vec!["server auth".to_owned()]);
        let of_node = "system:node:n1 [\"digital signature\", \"client auth\"]";
        for (case, csr, want) in [
            ("1 pending", node_request(), "nothing".to_owned()),
            ("2 approved", approved.clone(), format!("{of_node} 86400s")),
            ("3 denied", with_condition(node_request(), DENIED), "nothing".to_owned()),
            ("4 denied after the approval", with_condition(approved.clone(), DENIED), "nothing".to_owned()),
            ("5 failed", with_condition(approved.clone(), FAILED), "nothing".to_owned()),
            ("6 issued", issued, "nothing".to_owned()),
            ("7 another signer", of_signer("example.org/x"), "nothing".to_owned()),
            ("8 an hour", with_expiration(3600), format!("{of_node} 3600s")),
            ("9 too short", with_expiration(1), format!("{of_node} 600s")),
            ("10 too long", with_expiration(i32::MAX), format!("{of_node} 86400s")),
            ("11 wrong usages", server, "invalid usage for client certificate: server auth".to_owned()),
            ("12 damaged", damaged, "PEM block type must be CERTIFICATE REQUEST".to_owned()),
            (
                "13 a user as a node",
                {
                    let mut csr = with_condition(user_request(), APPROVED);
                    csr.spec.signer_name = Signer::ApiserverClientKubelet.name().to_owned();
                    csr
                },
                "subject organization is not system:nodes".to_owned(),
            ),
        ] {
            assert_eq!(shown(&csr), want, "{case}");
        }
    }

    #[test]
    fn failure_is_a_condition() {
        let approved = with_condition(user_request(), APPROVED);
        let failed = failed(&approved, "why".to_owned(), Timestamp::UNIX_EPOCH);
        assert!(has_condition(&failed, APPROVED) && has_condition(&failed, FAILED));
        assert!(matches!(decide(&failed, SignedDuration::from_hours(1)), Signing::Nothing));
    }
}
