//! The subject of a certificate: the common name is the user, each organization is a group.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, ObjectIdentifier, SetOfVec, Utf8StringRef};
use x509_cert::der::{self, Tag, Tagged as _};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The subject of a user; `None` if a name cannot be in a certificate.
pub(crate) fn subject(common_name: &str, groups: &[String]) -> Option<Name> {
    let attribute = |oid, value: &str| -> Result<RelativeDistinguishedName, der::Error> {
        let value = Any::encode_from(&Utf8StringRef::new(value)?)?;
        let mut set = SetOfVec::new();
        set.insert(AttributeTypeAndValue { oid, value })?;
        Ok(RelativeDistinguishedName::from(set))
    };
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
