//! The usages of a certificate, by their names in the API (upstream: `KeyUsage` in k8s.io/api/certificates/v1, and
//! `keyUsagesFromStrings` in pkg/controller/certificates/authority/policies.go).

use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::{KeyUsage, KeyUsages};

/// The flag or the purpose of a name.
enum Meaning {
    Key(KeyUsages),
    Extended(&'static str),
}

use Meaning::{Extended, Key};

/// All usages, sorted by name.
const USAGES: [(&str, Meaning); 23] = [
    ("any", Extended("2.5.29.37.0")),
    ("cert sign", Key(KeyUsages::KeyCertSign)),
    ("client auth", Extended("1.3.6.1.5.5.7.3.2")),
    ("code signing", Extended("1.3.6.1.5.5.7.3.3")),
    ("content commitment", Key(KeyUsages::NonRepudiation)),
    ("crl sign", Key(KeyUsages::CRLSign)),
    ("data encipherment", Key(KeyUsages::DataEncipherment)),
    ("decipher only", Key(KeyUsages::DecipherOnly)),
    ("digital signature", Key(KeyUsages::DigitalSignature)),
    ("email protection", Extended("1.3.6.1.5.5.7.3.4")),
    ("encipher only", Key(KeyUsages::EncipherOnly)),
    ("ipsec end system", Extended("1.3.6.1.5.5.7.3.5")),
    ("ipsec tunnel", Extended("1.3.6.1.5.5.7.3.6")),
    ("ipsec user", Extended("1.3.6.1.5.5.7.3.7")),
    ("key agreement", Key(KeyUsages::KeyAgreement)),
    ("key encipherment", Key(KeyUsages::KeyEncipherment)),
    ("microsoft sgc", Extended("1.3.6.1.4.1.311.10.3.3")),
    ("netscape sgc", Extended("2.16.840.1.113730.4.1")),
    ("ocsp signing", Extended("1.3.6.1.5.5.7.3.9")),
    ("s/mime", Extended("1.3.6.1.5.5.7.3.4")),
    ("server auth", Extended("1.3.6.1.5.5.7.3.1")),
    ("signing", Key(KeyUsages::DigitalSignature)),
    ("timestamping", Extended("1.3.6.1.5.5.7.3.8")),
];

/// The names of all usages, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    USAGES.iter().map(|(name, _)| *name)
}

/// The flags and the purposes of a certificate with these usages; the unknown names otherwise.
///
/// # Errors
/// The names that are no usages.
pub(crate) fn parse(usages: &[String]) -> Result<(KeyUsage, Vec<ObjectIdentifier>), Vec<String>> {
    let (mut flags, mut purposes, mut unknown) = (KeyUsage(Default::default()), Vec::new(), Vec::new());
    for usage in usages {
        match USAGES.iter().find(|(name, _)| name == usage).map(|(_, meaning)| meaning) {
            Some(Key(flag)) => flags.0 |= *flag,
            Some(Extended(oid)) => {
                let oid = ObjectIdentifier::new_unwrap(oid);
                if !purposes.contains(&oid) {
                    purposes.push(oid);
                }
            }
            None => unknown.push(usage.clone()),
        }
    }
    if unknown.is_empty() { Ok((flags, purposes)) } else { Err(unknown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_are_flags_or_purposes() {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (flags, purposes) = parse(&owned(&[
            "signing",
            "digital signature",
            "client auth",
            "client auth",
            "key encipherment",
        ]))
        .expect("known names");
        assert_eq!(flags.0, KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment);
        assert_eq!(purposes.len(), 1);
        assert_eq!(parse(&owned(&["client auth", "x"])), Err(owned(&["x"])));
        assert!(names().is_sorted());
    }
}
