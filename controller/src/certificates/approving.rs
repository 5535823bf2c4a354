//! `certificatesigningrequest-approving-controller`: approves the requests of nodes, if the requesters have the right.
//!
//! Upstream: pkg/controller/certificates/approver.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};
use kube::api::PostParams;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::names::controller;
use orlop_pki::request::CertificateRequest;
use orlop_pki::signer::Signer;

use super::{APPROVED, CertificateError, DENIED, certificate, follow, has_condition};
use crate::context::{Context, ControllerError};

/// The reason of the condition `Approved`.
const REASON: &str = "AutoApproved";

/// A right that suffices for an approval: to create this subresource of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct SufficientRight {
    /// The subresource.
    pub subresource: &'static str,
    /// The message of the approval.
    pub message: &'static str,
}

const SELF: SufficientRight = SufficientRight {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const ANY: SufficientRight = SufficientRight {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// The rights to check, in order; one of them suffices. Empty if an administrator must decide about the request, or it has a decision.
pub fn sufficient_rights(csr: &CertificateSigningRequest) -> &'static [SufficientRight] {
    let is_decided = has_condition(csr, APPROVED) || has_condition(csr, DENIED);
    let signer = Signer::ApiserverClientKubelet;
    if is_decided || certificate(csr).is_some() || csr.spec.signer_name != signer.name() {
        return &[];
    }
    let Ok(request) = CertificateRequest::from_pem(&csr.spec.request.0) else { return &[] };
    if signer.accepts(&request, csr.spec.usages.as_deref().unwrap_or_default()).is_err() {
        return &[];
    }
    if csr.spec.username.as_deref() == Some(request.common_name.as_str()) { &[SELF, ANY] } else { &[ANY] }
}

/// The review of a right of the requester.
fn review(csr: &CertificateSigningRequest, right: &SufficientRight) -> SubjectAccessReview {
    let attributes = ResourceAttributes {
        group: Some("certificates.k8s.io".to_owned()),
        resource: Some("certificatesigningrequests".to_owned()),
        verb: Some("create".to_owned()),
        subresource: Some(right.subresource.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: csr.spec.username.clone(),
        uid: csr.spec.uid.clone(),
        groups: csr.spec.groups.clone(),
        extra: csr.spec.extra.clone(),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// The request with its approval.
fn approved(csr: &CertificateSigningRequest, message: &str) -> CertificateSigningRequest {
    let mut approved = csr.clone();
    let status = approved.status.get_or_insert_with(CertificateSigningRequestStatus::default);
    status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
        type_: APPROVED.to_owned(),
        status: "True".to_owned(),
        reason: Some(REASON.to_owned()),
        message: Some(message.to_owned()),
        ..CertificateSigningRequestCondition::default()
    });
    approved
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        follow(&context, controller::CSR_APPROVING, |requests, _queue, name| {
            sync(&context, requests.get(&name))
        })
        .await;
        Ok(())
    })
}

/// One write, conditional on the cached version; if it fails, the next sync checks the rights again.
async fn sync(
    context: &Context,
    csr: Option<Arc<CertificateSigningRequest>>,
) -> Result<(), CertificateError> {
    let Some(csr) = csr else { return Ok(()) };
    let name = csr.metadata.name.clone().unwrap_or_default();
    let rights = sufficient_rights(&csr);
    let reviews: Api<SubjectAccessReview> = Api::all(context.client.clone());
    for right in rights {
        let answer = reviews.create(&PostParams::default(), &review(&csr, right)).await;
        let answer = answer.map_err(|source| CertificateError::Review { name: name.clone(), source })?;
        if !answer.status.is_some_and(|status| status.allowed) {
            continue;
        }
        let api: Api<CertificateSigningRequest> = Api::all(context.client.clone());
        let next = approved(&csr, right.message);
        return match api.replace_subresource("approval", &name, &PostParams::default(), &next).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(source) => Err(CertificateError::Write { what: "approve", name, source }),
        };
    }
    match rights {
        [] => Ok(()),
        rights => Err(CertificateError::NotPermitted {
            name,
            tried: rights.iter().map(|right| right.subresource).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::super::testing::{node_request, user_request, with_condition};
    use super::*;

    #[test]
    fn only_pending_requests_of_nodes_are_approved() {
        let by = |user: &str| {
            let mut csr = node_request();
            csr.spec.username = Some(user.to_owned());
            csr
        };
        let mut issued = by("x");
        issued.status.get_or_insert_default().certificate = Some(ByteString(b"x".to_vec()));
        let mut serving = by("x");
        serving.spec.signer_name = Signer::KubeletServing.name().to_owned();
        let mut usages = by("x");
        usages.spec.usages = Some(vec!["server auth".to_owned()]);
        for (case, csr, want) in [
            ("1 a new node", by("system:bootstrap:abcdef"), &["nodeclient"][..]),
            ("2 the node itself", by("system:node:n1"), &["selfnodeclient", "nodeclient"]),
            ("3 another node", by("system:node:n2"), &["nodeclient"]),
            ("4 approved", with_condition(by("x"), APPROVED), &[]),
            ("5 denied", with_condition(by("x"), DENIED), &[]),
            ("6 issued", issued, &[]),
            ("7 a user", user_request(), &[]),
            ("8 a server", serving, &[]),
            ("9 other usages", usages, &[]),
        ] {
            let got: Vec<_> = sufficient_rights(&csr).iter().map(|right| right.subresource).collect();
            assert_eq!(got, want, "{case}");
        }
    }

    #[test]
    fn review_names_the_requester() {
        let mut csr = node_request();
        csr.spec.username = Some("u".to_owned());
        csr.spec.groups = Some(vec!["g".to_owned()]);
        let spec = review(&csr, &SELF).spec;
        assert_eq!((spec.user.as_deref(), spec.groups), (Some("u"), Some(vec!["g".to_owned()])));
        let attributes = spec.resource_attributes.unwrap_or_default();
        assert_eq!(attributes.subresource.as_deref(), Some("selfnodeclient"));
        assert_eq!(attributes.verb.as_deref(), Some("create"));
        assert!(has_condition(&approved(&csr, "m"), APPROVED));
    }
}
