//! The subject of a certificate: the common name is the user, each organization is a group.
//!
//! Readers differ about a subject with several common names: some take the first one, some the last one. No certificate of this
//! program's authorities has such a subject, whatever a request contains.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, ObjectIdentifier, SetOfVec, Utf8StringRef};
use x509_cert::der::{self, Tag, Tagged as _};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The attributes that a certificate takes over from a request, in the order of the certificate. Those without `true` occur at most
/// once (upstream: Go's `pkix.Name`, which signers read and write).
const SIGNED: [(ObjectIdentifier, bool); 9] = [
    (ObjectIdentifier::new_unwrap("2.5.4.6"), true), // country
    (ORGANIZATION, true),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), true), // organizational unit
    (ObjectIdentifier::new_unwrap("2.5.4.7"), true),  // locality
    (ObjectIdentifier::new_unwrap("2.5.4.8"), true),  // province
    (ObjectIdentifier::new_unwrap("2.5.4.9"), true),  // street address
    (ObjectIdentifier::new_unwrap("2.5.4.17"), true), // postal code
    (COMMON_NAME, false),
    (ObjectIdentifier::new_unwrap("2.5.4.5"), false), // serial number
];

/// The subject of a user; `None` if a name cannot be in a certificate.
pub(crate) fn subject(common_name: &str, groups: &[String]) -> Option<Name> {
    if common_name.is_empty() {
        return None;
    }
    let mut names = RdnSequence::default();
    let all = groups.iter().map(|group| (ORGANIZATION, group.as_str())).chain([(COMMON_NAME, common_name)]);
    for (oid, value) in all {
        names.push(attribute(oid, value).ok()?);
    }
    Some(Name::hazmat_from_rdn_sequence(names))
}

/// The subject of a certificate for a request with this subject: the attributes of [`SIGNED`], of which only the last common name and
/// the last serial number, as [`names_of`] reads them. Leaves out values of an unknown alphabet. `None` if the common name or an
/// organization has one.
pub(crate) fn signed_subject(requested: &Name) -> Option<Name> {
    names_of(requested)?;
    let mut names = RdnSequence::default();
    for (oid, is_repeated) in SIGNED {
        let values = requested.iter().filter(|one| one.oid == oid).filter_map(|one| text(&one.value));
        let values: Vec<String> = values.collect();
        let first = if is_repeated { 0 } else { values.len().saturating_sub(1) };
        for value in values.iter().skip(first).filter(|value| is_repeated || !value.is_empty()) {
            names.push(attribute(oid, value).ok()?);
        }
    }
    Some(Name::hazmat_from_rdn_sequence(names))
}

fn attribute(oid: ObjectIdentifier, value: &str) -> Result<RelativeDistinguishedName, der::Error> {
    let value = Any::encode_from(&Utf8StringRef::new(value)?)?;
    let mut set = SetOfVec::new();
    set.insert(AttributeTypeAndValue { oid, value })?;
    Ok(RelativeDistinguishedName::from(set))
}

/// The common name and the organizations. The last common name counts, as in Go's `pkix.Name` and in the authentication of client
/// certificates. `None` if one of them has an unknown alphabet: it must not turn into another name.
pub(crate) fn names_of(subject: &Name) -> Option<(String, Vec<String>)> {
    let (mut common_name, mut organizations) = (String::new(), Vec::new());
    for attribute in subject.iter() {
        if attribute.oid == COMMON_NAME {
            common_name = text(&attribute.value)?;
        } else if attribute.oid == ORGANIZATION {
            organizations.push(text(&attribute.value)?);
        }
    }
    Some((common_name, organizations))
}

/// UTF8String, PrintableString and IA5String; the others are not used for names any more.
fn text(value: &Any) -> Option<String> {
    let bytes = value.value();
    match value.tag() {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        Tag::PrintableString | Tag::Ia5String if bytes.is_ascii() => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn name_of(attributes: &[(&str, &str)]) -> Name {
        let mut names = RdnSequence::default();
        for (oid, value) in attributes {
            names.push(attribute(ObjectIdentifier::new_unwrap(oid), value).unwrap());
        }
        Name::hazmat_from_rdn_sequence(names)
    }

    fn shown(name: &Name) -> Vec<(String, String)> {
        name.iter().map(|one| (one.oid.to_string(), text(&one.value).unwrap())).collect()
    }

    #[test]
    fn signed_subject_has_one_common_name_and_known_attributes() {
        const CN: &str = "2.5.4.3";
        const O: &str = "2.5.4.10";
        const OU: &str = "2.5.4.11";
        for (case, requested, want) in [
            ("1 a node", &[(O, "system:nodes"), (CN, "n1")][..], &[(O, "system:nodes"), (CN, "n1")][..]),
            ("2 several common names", &[(CN, "admin"), (CN, "n1")], &[(CN, "n1")]),
            (
                "3 another order",
                &[(CN, "n1"), (O, "b"), (OU, "u"), (O, "a")],
                &[(O, "b"), (O, "a"), (OU, "u"), (CN, "n1")],
            ),
            (
                "4 several serial numbers",
                &[("2.5.4.5", "1"), ("2.5.4.5", "2"), (CN, "a")],
                &[(CN, "a"), ("2.5.4.5", "2")],
            ),
            (
                "5 user ID, e-mail address, domain component and title",
                &[
                    ("0.9.2342.19200300.100.1.1", "admin"),
                    ("1.2.840.113549.1.9.1", "a@b"),
                    ("0.9.2342.19200300.100.1.25", "c"),
                    ("2.5.4.12", "t"),
                    (CN, "a"),
                ],
                &[(CN, "a")],
            ),
            ("6 no common name", &[(O, "a")], &[(O, "a")]),
        ] {
            let want: Vec<(String, String)> =
                want.iter().map(|(oid, value)| ((*oid).to_owned(), (*value).to_owned())).collect();
            let signed = signed_subject(&name_of(requested)).unwrap();
            assert_eq!(shown(&signed), want, "{case}");
            assert_eq!(names_of(&signed), names_of(&name_of(requested)), "{case}");
        }
    }
}
