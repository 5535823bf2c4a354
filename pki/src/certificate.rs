//! Facts about certificates: their dates, and the digest of their public key.

use jiff::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::pem;
use crate::public_key::{digest_of, timestamp};
use crate::subject::names_of;

/// The dates and the common name of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The start of its validity.
    pub not_before: Timestamp,
    /// The end of its validity.
    pub not_after: Timestamp,
    /// The common name of its subject; may be empty.
    pub common_name: String,
}

/// The facts of the first certificate of a text in PEM; `None` if there is none.
pub fn facts(text: &[u8]) -> Option<CertificateFacts> {
    let block = pem::blocks(text).find(|block| block.label == pem::CERTIFICATE)?;
    let certificate = Certificate::from_der(&block.bytes).ok()?;
    let tbs = certificate.tbs_certificate();
    let validity = tbs.validity();
    Some(CertificateFacts {
        not_before: timestamp(validity.not_before),
        not_after: timestamp(validity.not_after),
        common_name: names_of(tbs.subject()).map(|(name, _)| name).unwrap_or_default(),
    })
}

/// The digest of the public key of a certificate in DER, as in `kubeadm join --discovery-token-ca-cert-hash`: `sha256:` and 64
/// hexadecimal digits. `None` if the bytes are no certificate.
pub fn public_key_digest(der: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(der).ok()?;
    digest_of(certificate.tbs_certificate().subject_public_key_info()).ok()
}

/// Checks the certificates that a signer returns: at least one, and nothing else.
///
/// # Errors
/// Upstream's text (`validateCertificate` in pkg/apis/certificates/validation).
pub fn check_chain(text: &[u8]) -> Result<(), String> {
    let mut count = 0;
    for block in pem::blocks(text) {
        if block.label != pem::CERTIFICATE {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if let Err(error) = Certificate::from_der(&block.bytes) {
            return Err(format!("x509: malformed certificate: {error}"));
        }
        count += 1;
    }
    if count == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::authority::Authority;

    #[test]
    fn facts_and_digest_are_those_of_the_certificate() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let pair = Authority::create(now).unwrap();
        let authority = Authority::read(&pair).unwrap();
        let signed = authority.client("ann", &[], now).unwrap();
        let facts = facts(format!("x\n{}{}", signed.key, signed.certificate).as_bytes()).unwrap();
        assert_eq!(facts.common_name, "ann");
        assert!(facts.not_before < now && facts.not_after > now);
        let (block, _) = pem::next(pair.certificate.as_bytes()).unwrap();
        assert_eq!(public_key_digest(&block.bytes), authority.digest().ok());
        assert_eq!(public_key_digest(b"x"), None);
    }

    #[test]
    fn chains_contain_certificates_only() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let pair = Authority::create(now).unwrap();
        let body = pair.certificate.split_once('\n').unwrap().1;
        for (case, text, want) in [
            ("1 one", pair.certificate.clone(), None),
            ("2 two", pair.certificate.repeat(2), None),
            ("3 none", "x".to_owned(), Some("must contain at least one CERTIFICATE PEM block")),
            (
                "4 a key",
                pair.key.clone(),
                Some("only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\""),
            ),
            (
                "5 headers",
                format!("-----BEGIN CERTIFICATE-----\nA: b\n\n{body}"),
                Some("no PEM block headers are permitted"),
            ),
            ("6 damaged", pem::encode("CERTIFICATE", b"x"), Some("x509: malformed certificate")),
        ] {
            let got = check_chain(text.as_bytes()).err();
            match want {
                None => assert_eq!(got, None, "{case}"),
                Some(part) => assert!(got.clone().unwrap_or_default().starts_with(part), "{case}: {got:?}"),
            }
        }
    }
}
