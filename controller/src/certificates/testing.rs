//! Requests for the tests of the controllers.
#![allow(clippy::unwrap_used)]

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kube::core::ObjectMeta;
use orlop_pki::private_key::PrivateKey;
use orlop_pki::request::{AlternativeNames, create};
use orlop_pki::signer::{NODES, Signer};

fn request(signer: Signer, user: &str, group: &str) -> CertificateSigningRequest {
    let (key, _) = PrivateKey::generate().unwrap();
    let text = create(&key, user, &[group.to_owned()], &AlternativeNames::default()).unwrap();
    CertificateSigningRequest {
        metadata: ObjectMeta { name: Some("r".to_owned()), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(text.into_bytes()),
            signer_name: signer.name().to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

/// The request of the node `n1`.
pub(super) fn node_request() -> CertificateSigningRequest {
    request(Signer::ApiserverClientKubelet, "system:node:n1", NODES)
}

/// The request of a user.
pub(super) fn user_request() -> CertificateSigningRequest {
    request(Signer::ApiserverClient, "ann", "devs")
}

/// With a condition more.
pub(super) fn with_condition(mut csr: CertificateSigningRequest, kind: &str) -> CertificateSigningRequest {
    csr.status.get_or_insert_default().conditions.get_or_insert_default().push(
        CertificateSigningRequestCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            ..CertificateSigningRequestCondition::default()
        },
    );
    csr
}
