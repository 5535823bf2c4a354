//! The user of a client certificate: its common name is the user name, its organizations are the groups.
//!
//! The caller has verified the certificate (chain, dates, possession of the key). This module parses the DER up to the
//! public key, and rejects anything it does not expect. Layout: RFC 5280 section 4.1, rules of DER: X.690.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use crate::UserInfo;
use crate::der::{GENERALIZED_TIME, OBJECT_IDENTIFIER, Reader, SEQUENCE, SET, UTC_TIME};

/// The attribute of a subject with the user name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The attribute of a subject with a group.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const VERSION: u8 = 0xa0;

/// A client certificate that was verified with the authorities of `--client-ca-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The user.
    pub user: UserInfo,
}

/// A certificate without a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The bytes are not a certificate in DER.
    #[error("the client certificate cannot be read")]
    Malformed,
    /// The subject has no common name.
    #[error("the subject of the client certificate has no common name, which would be the user")]
    NoCommonName,
}

impl ClientCertificate {
    /// Reads a verified certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let mut username = None;
        let mut groups = Vec::new();
        for (kind, value) in subject(der).ok_or(CertificateError::Malformed)? {
            match kind {
                // The last one counts, as in Go's pkix.Name.
                COMMON_NAME => username = Some(value),
                ORGANIZATION => groups.push(value),
                _ => {}
            }
        }
        let username = username.filter(|name| !name.is_empty()).ok_or(CertificateError::NoCommonName)?;
        let mut user = UserInfo::new(username, groups);
        let hex: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
        user.extra.insert(
            "authentication.kubernetes.io/credential-id".to_owned(),
            vec![format!("X509SHA256={hex}")],
        );
        Ok(ClientCertificate { user })
    }
}

/// The common name of a verified certificate, if there is one.
///
/// # Errors
/// The bytes are not a certificate in DER.
pub fn common_name(der: &[u8]) -> Result<Option<String>, CertificateError> {
    let attributes = subject(der).ok_or(CertificateError::Malformed)?;
    Ok(attributes.into_iter().rev().find(|(kind, _)| *kind == COMMON_NAME).map(|(_, name)| name))
}

/// When a certificate ends; `None` if the bytes are not a certificate in DER.
pub fn not_after(der: &[u8]) -> Option<Timestamp> {
    let mut fields = from_validity(der)?;
    let mut validity = Reader(fields.expect(SEQUENCE)?);
    validity.next()?;
    let (tag, value) = validity.next()?;
    time(tag, std::str::from_utf8(value).ok()?)
}

/// The public key of a certificate in DER (SubjectPublicKeyInfo); `None` if the bytes are not a certificate.
pub(crate) fn public_key(der: &[u8]) -> Option<&[u8]> {
    let mut fields = from_validity(der)?;
    // validity, subject
    fields.next()?;
    fields.next()?;
    let rest = fields.0;
    fields.next()?;
    rest.get(..rest.len() - fields.0.len())
}

/// A time of RFC 5280, section 4.1.2.5.
fn time(tag: u8, text: &str) -> Option<Timestamp> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i16 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i8>().ok();
    let time = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
}

/// The names in a certificate, in their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedNames<'a> {
    /// The authority that has signed it.
    pub issuer: &'a [u8],
    /// The owner of its key.
    pub subject: &'a [u8],
}

/// The names in a certificate; `None` if the bytes are not a certificate in DER.
pub fn encoded_names(der: &[u8]) -> Option<EncodedNames<'_>> {
    let mut fields = from_issuer(der)?;
    let issuer = fields.expect(SEQUENCE)?;
    fields.next()?;
    Some(EncodedNames { issuer, subject: fields.expect(SEQUENCE)? })
}

/// The fields of a certificate from its validity on.
fn from_validity(der: &[u8]) -> Option<Reader<'_>> {
    let mut fields = from_issuer(der)?;
    fields.next()?;
    Some(fields)
}

/// The fields of a certificate from its issuer on.
fn from_issuer(der: &[u8]) -> Option<Reader<'_>> {
    let mut certificate = Reader(Reader(der).expect(SEQUENCE)?);
    let mut fields = Reader(certificate.expect(SEQUENCE)?);
    // version (may be left out), serial number, signature
    if fields.0.first() == Some(&VERSION) {
        fields.next()?;
    }
    for _ in 0..2 {
        fields.next()?;
    }
    Some(fields)
}

/// The attributes of the subject: identifier and text.
fn subject(der: &[u8]) -> Option<Vec<(&[u8], String)>> {
    let mut fields = from_validity(der)?;
    fields.next()?;
    let mut names = Reader(fields.expect(SEQUENCE)?);
    let mut attributes = Vec::new();
    while !names.0.is_empty() {
        let mut set = Reader(names.expect(SET)?);
        while !set.0.is_empty() {
            let mut attribute = Reader(set.expect(SEQUENCE)?);
            let kind = attribute.expect(OBJECT_IDENTIFIER)?;
            let (tag, value) = attribute.next()?;
            if let Some(text) = text(tag, value) {
                attributes.push((kind, text));
            } else if kind == COMMON_NAME || kind == ORGANIZATION {
                // A name in an unknown alphabet must not turn into another name.
                return None;
            }
        }
    }
    Some(attributes)
}

/// UTF8String, PrintableString and IA5String; the others are not used for names any more.
fn text(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        0x0c => String::from_utf8(value.to_vec()).ok(),
        0x13 | 0x16 if value.is_ascii() => String::from_utf8(value.to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match value.len() {
            short @ 0..0x80 => out.push(short as u8),
            long => out.extend([0x82, (long >> 8) as u8, long as u8]),
        }
        out.extend(value);
        out
    }

    fn attribute(kind: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        let pair = [tlv(OBJECT_IDENTIFIER, kind), tlv(tag, text)].concat();
        tlv(SET, &tlv(SEQUENCE, &pair))
    }

    fn certificate(with_version: bool, subject: &[Vec<u8>]) -> Vec<u8> {
        let mut fields = if with_version { tlv(VERSION, &tlv(2, &[2])) } else { Vec::new() };
        fields.extend(tlv(2, &[1])); // serial number
        fields.extend(tlv(SEQUENCE, &[])); // signature
        fields.extend(tlv(SEQUENCE, &attribute(COMMON_NAME, 0x0c, b"the authority"))); // issuer
        fields.extend(tlv(SEQUENCE, &[])); // validity
        fields.extend(tlv(SEQUENCE, &subject.concat()));
        fields.extend(tlv(SEQUENCE, &[0; 300])); // public key
        tlv(SEQUENCE, &tlv(SEQUENCE, &fields))
    }

    #[test]
    fn the_subject_is_the_user() {
        for with_version in [true, false] {
            let der = certificate(
                with_version,
                &[
                    attribute(ORGANIZATION, 0x13, b"system:masters"),
                    attribute(&[0x55, 0x04, 0x06], 0x13, b"DE"),
                    attribute(ORGANIZATION, 0x0c, "gärtner".as_bytes()),
                    attribute(COMMON_NAME, 0x0c, b"ann"),
                ],
            );
            let user = ClientCertificate::from_der(&der).map(|certificate| certificate.user);
            let user = user.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(user.username, "ann");
            assert_eq!(user.groups, ["system:masters", "gärtner", "system:authenticated"]);
            let id = &user.extra["authentication.kubernetes.io/credential-id"];
            assert!(id[0].starts_with("X509SHA256=") && id[0].len() == 11 + 64, "{id:?}");
        }
    }

    #[test]
    fn certificates_without_a_common_name_are_rejected() {
        let without_name = certificate(true, &[attribute(ORGANIZATION, 0x13, b"g")]);
        assert_eq!(ClientCertificate::from_der(&without_name), Err(CertificateError::NoCommonName));
        let empty = certificate(true, &[attribute(COMMON_NAME, 0x0c, b"")]);
        assert_eq!(ClientCertificate::from_der(&empty), Err(CertificateError::NoCommonName));
        let odd = certificate(true, &[attribute(COMMON_NAME, 0x1e, b"\0a")]);
        assert_eq!(ClientCertificate::from_der(&odd), Err(CertificateError::Malformed));
        let wrong = certificate(true, &[attribute(COMMON_NAME, 0x0c, b"\xff")]);
        assert_eq!(ClientCertificate::from_der(&wrong), Err(CertificateError::Malformed));
    }

    #[test]
    fn no_prefix_and_no_flipped_byte_panics() {
        let good = certificate(true, &[attribute(COMMON_NAME, 0x0c, b"ann")]);
        for length in 0..good.len() {
            assert_eq!(
                ClientCertificate::from_der(&good[..length]),
                Err(CertificateError::Malformed),
                "{length}"
            );
        }
        for position in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[position] ^= 1 << bit;
                let _ = ClientCertificate::from_der(&bad);
            }
        }
    }
}
