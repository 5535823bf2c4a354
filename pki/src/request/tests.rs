#![allow(clippy::unwrap_used)]

use super::*;

fn names() -> AlternativeNames {
    AlternativeNames {
        dns: vec!["n1".to_owned(), "n1.example.org".to_owned()],
        addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        emails: vec!["a@example.org".to_owned()],
        uris: vec!["spiffe://x/y".to_owned()],
    }
}

fn groups() -> Vec<String> {
    vec!["system:nodes".to_owned(), "dévs".to_owned()]
}

#[test]
fn created_request_is_read_and_verified() {
    let (key, _) = PrivateKey::generate().unwrap();
    for names in [names(), AlternativeNames::default()] {
        let text = create(&key, "system:node:n1", &groups(), &names).unwrap();
        let request = CertificateRequest::from_pem(text.as_bytes()).unwrap();
        assert_eq!(request.common_name, "system:node:n1");
        assert_eq!(request.organizations, groups());
        assert_eq!(request.names, names);
        assert_eq!(request.public(), key.public());
        assert_eq!(request.verify(), Ok(()));
    }
    assert!(create(&key, "", &[], &names()).is_err());
}

/// A request of OpenSSL with an RSA key.
const RSA: &str = include_str!("testdata/rsa.csr");
/// The same with keys on the curves P-384 and P-521, and with Ed25519.
const P384_REQUEST: &str = include_str!("testdata/p384.csr");
const P521_REQUEST: &str = include_str!("testdata/p521.csr");
const ED25519_REQUEST: &str = include_str!("testdata/ed25519.csr");

#[test]
fn requests_of_openssl_are_verified() {
    for (case, text, want) in [
        ("1 RSA", RSA, Ok(())),
        ("2 P-384", P384_REQUEST, Ok(())),
        ("3 Ed25519", ED25519_REQUEST, Ok(())),
        ("4 P-521, which ring cannot verify", P521_REQUEST, Err(RequestError::Algorithm)),
    ] {
        let request = CertificateRequest::from_pem(text.as_bytes()).unwrap();
        assert_eq!(
            (request.common_name.as_str(), &*request.organizations),
            ("ann", &["devs".to_owned()][..])
        );
        assert_eq!(request.names.dns, ["n1.example.org"], "{case}");
        assert_eq!(request.verify(), want, "{case}");
    }
}

#[test]
fn changed_request_fails_verification() {
    for text in [RSA, P384_REQUEST, ED25519_REQUEST] {
        let (block, _) = pem::next(text.as_bytes()).unwrap();
        let at = block.bytes.windows(3).position(|bytes| bytes == b"ann").unwrap();
        let mut changed = block.bytes.clone();
        changed[at] = b'b';
        let request = CertificateRequest::from_der(&changed).unwrap();
        assert_eq!(request.common_name, "bnn");
        assert!(matches!(request.verify(), Err(RequestError::Signature(_))));
    }
}

#[test]
fn other_text_is_refused() {
    for text in ["", "x", &pem::encode("CERTIFICATE", b"x"), "-----BEGIN CERTIFICATE REQUEST-----\n"] {
        assert_eq!(CertificateRequest::from_pem(text.as_bytes()).err(), Some(RequestError::Pem), "{text:?}");
    }
    let damaged = pem::encode(pem::REQUEST, b"x");
    assert!(matches!(CertificateRequest::from_pem(damaged.as_bytes()), Err(RequestError::Malformed(_))));
}

#[test]
fn no_prefix_and_no_flipped_bit_panics() {
    let (block, _) = pem::next(ED25519_REQUEST.as_bytes()).unwrap();
    for length in 0..block.bytes.len() {
        assert!(CertificateRequest::from_der(&block.bytes[..length]).is_err(), "{length}");
    }
    for position in 0..block.bytes.len() {
        for bit in 0..8 {
            let mut bad = block.bytes.clone();
            bad[position] ^= 1 << bit;
            if let Ok(request) = CertificateRequest::from_der(&bad) {
                let _ = request.verify();
            }
        }
    }
}
