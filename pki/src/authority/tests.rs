#![allow(clippy::unwrap_used)]

use x509_cert::der::{DecodePem as _, Encode as _};

use super::*;
use crate::request::{self, AlternativeNames};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const NOW: &str = "2026-11-26T12:00:00Z";

fn authority() -> Authority {
    Authority::read(&Authority::create(at(NOW)).unwrap()).unwrap()
}

fn der(pem: &str) -> Vec<u8> {
    Certificate::from_pem(pem).unwrap().to_der().unwrap()
}

#[test]
fn authority_is_read_again() {
    let pair = Authority::create(at(NOW)).unwrap();
    let read = Authority::read(&pair).unwrap();
    assert_eq!(read.certificate(), pair.certificate);
    assert_eq!(read.not_after(), at(NOW) + AUTHORITY_LIFETIME);
    let digest = read.digest().unwrap();
    assert!(digest.starts_with("sha256:") && digest.len() == 7 + 64, "{digest}");
    assert!(!format!("{pair:?} {read:?}").contains("PRIVATE"), "a key is shown");
}

#[test]
fn key_of_another_authority_is_refused() {
    let one = Authority::create(at(NOW)).unwrap();
    let other = Authority::create(at(NOW)).unwrap();
    let mixed = SignedKey { certificate: one.certificate.clone(), key: other.key };
    assert!(matches!(Authority::read(&mixed), Err(AuthorityError::OtherKey)));
    for cut in [0, 1, 30, 100, one.key.len() - 30] {
        let damaged = SignedKey { key: one.key[..cut].to_owned(), ..one.clone() };
        assert!(matches!(Authority::read(&damaged), Err(AuthorityError::Key)), "{cut}");
    }
    for cut in [0, 1, 30, 100, one.certificate.len() - 30] {
        let damaged = SignedKey { certificate: one.certificate[..cut].to_owned(), ..one.clone() };
        assert!(matches!(Authority::read(&damaged), Err(AuthorityError::NoCertificate)), "{cut}");
    }
}

#[test]
fn certificate_of_a_user_names_the_user_and_all_groups() {
    let groups = ["system:masters", "dev\u{e9}s", "a,O=b"].map(str::to_owned);
    let signed = authority().client("ann", &groups, at(NOW)).unwrap();
    let certificate = Certificate::from_pem(&signed.certificate).unwrap();
    let names = subject::names_of(certificate.tbs_certificate().subject());
    assert_eq!(names, Some(("ann".to_owned(), groups.to_vec())));
    assert!(matches!(authority().client("", &[], at(NOW)), Err(AuthorityError::Name(_))));
}

#[test]
fn only_names_that_a_certificate_can_contain_are_accepted() {
    for (name, want) in [
        ("localhost", true),
        ("kubernetes.default.svc.cluster.local", true),
        ("*.example.org", true),
        ("127.0.0.1", true),
        ("::1", true),
        ("host_1", true),
        ("", false),
        ("a b", false),
        ("a..b", false),
        ("a.*", false),
        ("gärtner", false),
    ] {
        let names = [name.to_owned()];
        assert_eq!(authority().server(&names, at(NOW)).is_ok(), want, "{name:?}");
    }
}

#[test]
fn certificate_is_replaced_in_time() {
    for (now, want) in [
        ("2026-11-26T12:00:00Z", false),
        ("2027-07-01T00:00:00Z", false),
        ("2027-08-01T00:00:00Z", true),
        ("2028-01-01T00:00:00Z", true),
        ("2026-11-26T11:58:00Z", false),
        ("2026-11-26T11:50:00Z", true),
    ] {
        assert_eq!(is_due(at(NOW), at(now)), want, "{now}");
    }
}

/// The verifiers of TLS accept the certificates for their names and purposes, and for no others.
#[test]
fn certificates_are_verified_by_rustls() {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::server::WebPkiClientVerifier;

    let authority = authority();
    let names = ["localhost", "10.0.0.1", "fd00::1"].map(str::to_owned);
    let server = CertificateDer::from(der(&authority.server(&names, at(NOW)).unwrap().certificate));
    let client = CertificateDer::from(der(&authority.client("ann", &[], at(NOW)).unwrap().certificate));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(der(authority.certificate()))).unwrap();
    let (roots, provider) = (Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
    let of_servers =
        WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap();
    let of_clients = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
    let time = |text: &str| {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(at(text).as_second().cast_unsigned()))
    };
    for (certificate, name, now, want) in [
        (&server, "localhost", NOW, true),
        (&server, "10.0.0.1", NOW, true),
        (&server, "fd00::1", NOW, true),
        (&server, "example.org", NOW, false),
        (&server, "localhost", "2026-11-26T11:54:00Z", false),
        (&server, "localhost", "2027-11-27T12:00:00Z", false),
        (&client, "localhost", NOW, false),
    ] {
        let to = ServerName::try_from(name).unwrap();
        let verified = of_servers.verify_server_cert(certificate, &[], &to, &[], time(now));
        assert_eq!(verified.is_ok(), want, "{name} {now}: {verified:?}");
    }
    assert!(of_clients.verify_client_cert(&client, &[], time(NOW)).is_ok());
    assert!(of_clients.verify_client_cert(&server, &[], time(NOW)).is_err(), "the wrong purpose");
    assert!(of_clients.verify_client_cert(&client, &[], time("2028-01-01T00:00:00Z")).is_err(), "too late");
}

#[test]
fn requests_are_signed_within_the_lifetime_of_the_authority() {
    let authority = authority();
    let (key, _) = PrivateKey::generate().unwrap();
    let names = AlternativeNames { dns: vec!["n1".to_owned()], ..AlternativeNames::default() };
    let groups = ["system:nodes".to_owned()];
    let text = request::create(&key, "system:node:n1", &groups, &names).unwrap();
    let request = CertificateRequest::from_pem(text.as_bytes()).unwrap();
    let usages = ["digital signature", "server auth"].map(str::to_owned);
    let hours = SignedDuration::from_hours;
    for (case, lifetime, now, want) in [
        ("1 short", hours(1), NOW, Some("2026-11-26T13:00:00Z")),
        ("2 long", hours(24), NOW, Some("2026-11-27T11:55:00Z")),
        ("3 longer than the authority", hours(24 * 365 * 20), NOW, Some("2036-11-23T12:00:00Z")),
        ("4 after the authority", hours(1), "2036-11-23T12:00:00Z", None),
    ] {
        let signed = authority.sign_request(&request, &usages, lifetime, at(now));
        let facts = signed.as_ref().ok().and_then(|text| crate::certificate::facts(text.as_bytes()));
        assert_eq!(facts.map(|facts| facts.not_after), want.map(at), "{case}");
        assert_eq!(matches!(signed, Err(AuthorityError::Ended(_))), want.is_none(), "{case}");
    }
    let unknown = authority.sign_request(&request, &["x".to_owned()], hours(1), at(NOW));
    assert_eq!(unknown.unwrap_err().to_string(), "unrecognized usage values: [\"x\"]");
}

/// A request of OpenSSL with the common names `system:node:n2` and `system:node:n1`, a user ID and an e-mail address.
const SEVERAL_NAMES: &str = include_str!("testdata/several-names.csr");

#[test]
fn certificate_has_one_common_name() {
    let request = CertificateRequest::from_pem(SEVERAL_NAMES.as_bytes()).unwrap();
    let usages = ["client auth".to_owned()];
    let signed = authority().sign_request(&request, &usages, SignedDuration::from_hours(1), at(NOW)).unwrap();
    let certificate = Certificate::from_pem(&signed).unwrap();
    let subject = certificate.tbs_certificate().subject();
    let groups = vec!["system:nodes".to_owned()];
    assert_eq!(subject::names_of(subject), Some(("system:node:n1".to_owned(), groups)));
    assert_eq!(subject.iter().count(), 2, "{subject}");
}

/// Authorities of OpenSSL: `--cluster-signing-cert-file` names such files.
#[test]
fn authorities_of_other_origin_sign() {
    let (key, _) = PrivateKey::generate().unwrap();
    let text = request::create(&key, "ann", &[], &AlternativeNames::default()).unwrap();
    let request = CertificateRequest::from_pem(text.as_bytes()).unwrap();
    for (case, certificate, key) in [
        ("1 RSA in PKCS 1", include_str!("testdata/rsa.crt"), include_str!("testdata/rsa.key")),
        ("2 P-384 in SEC 1", include_str!("testdata/p384.crt"), include_str!("testdata/p384.key")),
        ("3 Ed25519", include_str!("testdata/ed25519.crt"), include_str!("testdata/ed25519.key")),
    ] {
        let pair = SignedKey { certificate: certificate.to_owned(), key: key.to_owned() };
        let authority = Authority::read(&pair).unwrap();
        let now = authority.not_after() - SignedDuration::from_hours(24);
        let usages = ["client auth".to_owned()];
        let signed = authority.sign_request(&request, &usages, SignedDuration::from_hours(1), now).unwrap();
        verify_client(&authority, &signed, now).unwrap_or_else(|error| panic!("{case}: {error}"));
    }
}

fn verify_client(authority: &Authority, certificate: &str, now: Timestamp) -> Result<(), rustls::Error> {
    use std::sync::Arc;

    use rustls::pki_types::{CertificateDer, UnixTime};
    use rustls::server::WebPkiClientVerifier;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(der(authority.certificate()))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.as_second().cast_unsigned()));
    verifier.verify_client_cert(&CertificateDer::from(der(certificate)), &[], now).map(drop)
}

#[test]
fn authority_finds_the_signing_time_of_its_certificates() {
    let authority = authority();
    let signed = authority.client("ann", &[], at("2026-12-01T00:00:00Z")).unwrap();
    assert_eq!(authority.signed_at(&signed), Some(at("2026-12-01T00:00:00Z")));
    let other = Authority::read(&Authority::create(at("2020-01-01T00:00:00Z")).unwrap()).unwrap();
    assert_eq!(other.signed_at(&signed), None, "another authority");
    let key = other.client("ann", &[], at(NOW)).unwrap().key;
    assert_eq!(authority.signed_at(&SignedKey { key, ..signed.clone() }), None, "another key");
    assert_eq!(authority.signed_at(&SignedKey { certificate: String::new(), ..signed }), None);
}

#[test]
fn lost_certificate_is_created_again_for_the_same_key() {
    let pair = Authority::create(at(NOW)).unwrap();
    let again = Authority::recreate(pair.key.clone(), at("2027-01-01T00:00:00Z")).unwrap();
    assert_eq!(again.key, pair.key);
    let (first, second) = (Authority::read(&pair).unwrap(), Authority::read(&again).unwrap());
    assert_eq!(first.digest().unwrap(), second.digest().unwrap());
    assert!(Authority::recreate("no key".to_owned(), at(NOW)).is_err());
}
