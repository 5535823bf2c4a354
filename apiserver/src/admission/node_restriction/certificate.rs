//! Certificate requests: a node requests certificates for itself (upstream: `admitCSR`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::status::ApiError;
use orlop_pki::request::CertificateRequest;
use orlop_pki::signer::{NODE_PREFIX, Signer};

use crate::admission::request::{Operation, Request};

pub(super) fn restrict(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    let (Operation::Create, "", Some(object)) =
        (request.operation, request.subresource, request.object.as_deref())
    else {
        return Ok(());
    };
    match Signer::of(object.str_at(&["spec", "signerName"])) {
        Some(Signer::KubeletServing | Signer::ApiserverClientKubelet) => {}
        Some(Signer::ApiserverClient | Signer::LegacyUnknown) | None => return Ok(()),
    }
    let bytes = STANDARD.decode(object.str_at(&["spec", "request"])).unwrap_or_default();
    let asked = CertificateRequest::from_pem(&bytes)
        .map_err(|error| request.refuse(&format!("unable to parse csr: {error}")))?;
    if asked.common_name.strip_prefix(NODE_PREFIX) == Some(node) {
        return Ok(());
    }
    Err(request.refuse(&format!("can only create a node CSR with CN={NODE_PREFIX}{node}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_pki::private_key::PrivateKey;
    use orlop_pki::request::{AlternativeNames, create};
    use serde_json::json;

    use super::super::NodeRestriction;
    use super::*;
    use crate::admission::testing::{Facts, Write};

    #[test]
    fn nodes_request_their_own_certificates() {
        let (key, _) = PrivateKey::generate().unwrap();
        let of = |user: &str| STANDARD.encode(create(&key, user, &[], &AlternativeNames::default()).unwrap());
        let refused = |why: &str| {
            Some(format!("certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: {why}"))
        };
        let other = refused("can only create a node CSR with CN=system:node:n1");
        for (case, signer, encoded, want) in [
            ("1 own", Signer::ApiserverClientKubelet, of("system:node:n1"), None),
            ("2 own server", Signer::KubeletServing, of("system:node:n1"), None),
            ("3 another node", Signer::ApiserverClientKubelet, of("system:node:n2"), other.clone()),
            ("4 another server", Signer::KubeletServing, of("n1"), other),
            ("5 a user", Signer::ApiserverClient, of("ann"), None),
            (
                "6 unreadable",
                Signer::KubeletServing,
                STANDARD.encode("x"),
                refused("unable to parse csr: PEM block type must be CERTIFICATE REQUEST"),
            ),
        ] {
            let object =
                json!({"metadata": {"name": "a"}, "spec": {"signerName": signer.name(), "request": encoded}});
            let mut write = Write::create("certificatesigningrequests", object).by_node("n1");
            let got = write.mutate(&NodeRestriction, &Facts::none()).err().map(|error| error.message);
            assert_eq!(got, want, "{case}");
        }
    }
}
