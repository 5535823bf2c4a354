//! JSON web signatures with a shared key and without their content, as bootstrap tokens sign the ConfigMap `cluster-info` (RFC 7515,
//! appendix F).
//!
//! Upstream: k8s.io/cluster-bootstrap/token/jws.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// The signature of a content: the header, nothing, and the signature.
pub fn detached(key_id: &str, key: &str, content: &str) -> String {
    // The identifier of a bootstrap token has lowercase letters and digits only, and needs no escapes.
    let header = URL_SAFE_NO_PAD.encode(format!("{{\"alg\":\"HS256\",\"kid\":\"{key_id}\"}}"));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests {
    use super::detached;

    #[test]
    fn signature_is_that_of_kube_controller_manager() {
        let signed = detached("goldsi", "0123456789abcdef", "apiVersion: v1\nkind: Config\n");
        let recorded =
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImdvbGRzaSJ9..4DR21V_MMc0x_cstiNtijrs34J9-rk0KZ0hcXULRDSE";
        assert_eq!(signed, recorded);
    }
}
