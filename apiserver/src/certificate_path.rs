//! Selects the intermediate certificates from which a path to an authority is built.
//!
//! The library tries every order of certificates whose names fit, and reads all of them for each attempt. Anyone can make certificates
//! with equal names, so their number and size are limited. Go reads each certificate once and verifies at most 100 signatures.

use orlop_auth::certificate::{EncodedNames, encoded_names};
use rustls::pki_types::CertificateDer;

/// Maximum number of intermediate certificates.
const INTERMEDIATES_MAX: usize = 8;
/// Maximum size of all intermediate certificates, bytes.
const BYTES_MAX: usize = 16 << 10;
/// Maximum number of certificates with one subject: one of the current key, and one of the former key or of another authority.
const OF_SUBJECT_MAX: usize = 2;

/// The intermediate certificates of a chain that may be part of a path from its first certificate.
pub(crate) fn intermediates<'c>(
    leaf: &[u8],
    others: &'c [CertificateDer<'c>],
) -> Vec<&'c CertificateDer<'c>> {
    let Some(leaf) = encoded_names(leaf) else { return Vec::new() };
    let read: Vec<(EncodedNames<'_>, &CertificateDer<'_>)> =
        others.iter().filter_map(|one| Some((encoded_names(one)?, one))).collect();
    let mut found: Vec<&(EncodedNames<'_>, &CertificateDer<'_>)> = Vec::new();
    let mut bytes = 0;
    // The issuers whose certificates are still to be found; those of the found certificates follow.
    let mut wanted = vec![leaf.issuer];
    let mut next = 0;
    while let Some(issuer) = wanted.get(next).copied() {
        next += 1;
        for one in read.iter().filter(|(names, _)| names.subject == issuer).take(OF_SUBJECT_MAX) {
            let size = bytes + one.1.len();
            if found.len() >= INTERMEDIATES_MAX || size > BYTES_MAX {
                continue;
            }
            bytes = size;
            found.push(one);
            if !wanted.contains(&one.0.issuer) {
                wanted.push(one.0.issuer);
            }
        }
    }
    found.into_iter().map(|(_, certificate)| *certificate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DER value.
    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).expect("a short value").to_be_bytes();
        [&[tag, 0x82], &length[..], content].concat()
    }

    /// The beginning of a certificate with these names, and with a text that makes it distinct and long.
    fn certificate(subject: &str, issuer: &str, rest: &str) -> CertificateDer<'static> {
        let name = |text: &str| value(0x30, text.as_bytes());
        let fields = [
            value(2, b"1"),
            value(0x30, b""),
            name(issuer),
            value(0x30, b""),
            name(subject),
            value(4, rest.as_bytes()),
        ];
        value(0x30, &value(0x30, &fields.concat())).into()
    }

    #[test]
    fn only_certificates_of_a_path_are_selected() {
        let long = "x".repeat(6 << 10);
        let leaf = certificate("leaf", "A", "");
        for (case, others, want) in [
            ("1 none", vec![], vec![]),
            ("2 a chain", vec![("A", "B", ""), ("B", "root", "")], vec![0, 1]),
            ("3 in any order", vec![("B", "root", ""), ("A", "B", "")], vec![1, 0]),
            ("4 with a stranger", vec![("C", "root", ""), ("A", "root", "")], vec![1]),
            ("5 with the root", vec![("A", "root", ""), ("root", "root", "")], vec![0, 1]),
            ("6 cross-signed", vec![("A", "B", ""), ("A", "root", ""), ("B", "root", "")], vec![0, 1, 2]),
            ("7 many of one name", vec![("A", "A", ""); 9], vec![0, 1]),
            ("8 in a circle", vec![("A", "B", ""), ("B", "A", "")], vec![0, 1]),
            (
                "9 too many",
                vec![
                    ("A", "B", ""),
                    ("B", "C", ""),
                    ("C", "D", ""),
                    ("D", "E", ""),
                    ("E", "F", ""),
                    ("F", "G", ""),
                    ("G", "H", ""),
                    ("H", "I", ""),
                    ("I", "root", ""),
                ],
                vec![0, 1, 2, 3, 4, 5, 6, 7],
            ),
            (
                "10 too large",
                vec![("A", "B", long.as_str()), ("B", "C", long.as_str()), ("C", "root", long.as_str())],
                vec![0, 1],
            ),
        ] {
            let others: Vec<_> = others
                .into_iter()
                .enumerate()
                .map(|(at, (subject, issuer, rest))| certificate(subject, issuer, &format!("{at}{rest}")))
                .collect();
            let found = intermediates(&leaf, &others);
            let at = |one: &CertificateDer<'_>| others.iter().position(|other| other == one);
            let found: Vec<usize> = found.into_iter().filter_map(at).collect();
            assert_eq!(found, want, "{case}");
        }
        assert!(intermediates(b"no certificate", &[certificate("A", "root", "")]).is_empty());
    }
}
