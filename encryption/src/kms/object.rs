//! The stored form of a value: the encrypted value, and the encrypted seed of its key. Its rules and their errors are upstream's.

use orlop_apimachinery::names::{dns_label, dns_subdomain};
use orlop_apimachinery::quoted;
use prost::Message as _;
use ring::digest::{Context, SHA256, digest};

use super::proto::{EncryptedDekSourceType, EncryptedObject};
use crate::errors::aggregate;

/// The largest size of all annotations, in bytes.
const ANNOTATIONS_MAX: usize = 32 << 10;
/// The largest size of the ID of a key, in bytes.
const KEY_ID_MAX: usize = 1 << 10;
/// The largest size of an encrypted seed, in bytes.
const SOURCE_MAX: usize = 1 << 10;

/// Identifies an encrypted seed.
pub(crate) type SeedId = [u8; 32];

/// Reads the stored form of a value.
pub(crate) fn decode(stored: &[u8]) -> Result<EncryptedObject, String> {
    let object =
        EncryptedObject::decode(stored).map_err(|_| "proto: cannot parse invalid wire-format data")?;
    validate(&object)?;
    Ok(object)
}

/// Checks an object.
pub(crate) fn validate(object: &EncryptedObject) -> Result<(), String> {
    let EncryptedObject { encrypted_data, key_id, encrypted_dek_source, annotations, .. } = object;
    if EncryptedDekSourceType::try_from(object.encrypted_dek_source_type).is_err() {
        return Err(format!("unknown encryptedDEKSourceType: {}", object.encrypted_dek_source_type));
    }
    if encrypted_data.is_empty() {
        return Err("encrypted data is empty".to_owned());
    }
    validate_source(encrypted_dek_source)
        .map_err(|why| format!("failed to validate encrypted DEK source: {why}"))?;
    validate_key_id(key_id)
        .map_err(|KeyIdError { text, .. }| format!("failed to validate key id: {text}"))?;
    let mut errors: Vec<String> = annotations.keys().filter_map(|key| annotation_fault(key)).collect();
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ANNOTATIONS_MAX {
        errors.push(format!(
            "total size of annotations is {size}, which exceeds the max size of {ANNOTATIONS_MAX}"
        ));
    }
    match aggregate(errors) {
        None => Ok(()),
        Some(why) => Err(format!("failed to validate annotations: {why}")),
    }
}

fn validate_source(source: &[u8]) -> Result<(), String> {
    match source.len() {
        0 => Err("encrypted DEK source is empty".to_owned()),
        size if size > SOURCE_MAX => {
            Err(format!("encrypted DEK source is {size} bytes, which exceeds the max size of {SOURCE_MAX}"))
        }
        _ => Ok(()),
    }
}

/// Why the ID of a key is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyIdError {
    pub(crate) text: String,
    /// The label of upstream's metric.
    pub(crate) label: &'static str,
}

/// Checks the ID of a key.
pub(crate) fn validate_key_id(key_id: &str) -> Result<(), KeyIdError> {
    match key_id.len() {
        0 => Err(KeyIdError { text: "keyID is empty".to_owned(), label: "empty" }),
        size if size > KEY_ID_MAX => {
            let text = format!("keyID is {size} bytes, which exceeds the max size of {KEY_ID_MAX}");
            Err(KeyIdError { text, label: "too_long" })
        }
        _ => Ok(()),
    }
}

/// The key of an annotation is a fully qualified domain name.
fn annotation_fault(key: &str) -> Option<String> {
    if key.is_empty() {
        return Some("annotations: Required value".to_owned());
    }
    let name = key.strip_suffix('.').unwrap_or(key);
    let invalid =
        |value: &str, why: &str| Some(format!("annotations: Invalid value: {}: {why}", quoted(value)));
    let faults = dns_subdomain(name);
    if !faults.is_empty() {
        return invalid(name, &faults.join(","));
    }
    if !name.contains('.') {
        return invalid(name, "should be a domain with at least two segments separated by dots");
    }
    let label = name.split('.').map(|label| (label, dns_label(label))).find(|(_, faults)| !faults.is_empty());
    label.and_then(|(label, faults)| invalid(label, &faults.join(",")))
}

/// The identity of the encrypted seed of an object. A plugin needs all of these fields to decrypt it.
pub(crate) fn seed_id(object: &EncryptedObject) -> SeedId {
    let mut hash = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(&object.encrypted_dek_source_type.to_le_bytes());
    add(&object.encrypted_dek_source);
    add(object.key_id.as_bytes());
    for (key, value) in &object.annotations {
        add(key.as_bytes());
        add(value);
    }
    let mut id = SeedId::default();
    id.copy_from_slice(hash.finish().as_ref());
    id
}

/// The form of an ID in logs, errors and metrics, because the ID itself may be confidential.
pub(crate) fn hashed(id: &str) -> String {
    if id.is_empty() {
        return String::new();
    }
    let hash: String =
        digest(&SHA256, id.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> EncryptedObject {
        EncryptedObject {
            encrypted_data: vec![1],
            key_id: "1".to_owned(),
            encrypted_dek_source: vec![2],
            annotations: [("kms.example.com".to_owned(), vec![3])].into(),
            encrypted_dek_source_type: 1,
        }
    }

    /// A change of an object.
    type Change = fn(&mut EncryptedObject);

    #[test]
    fn objects_are_validated_as_upstream_does() {
        let cases: [(&str, Change); 15] = [
            ("", |_| {}),
            ("", |object| object.encrypted_dek_source_type = 0),
            ("", |object| object.annotations = [("a.b.".to_owned(), Vec::new())].into()),
            ("", |object| object.key_id = "k".repeat(1024)),
            ("", |object| object.encrypted_dek_source = vec![0; 1024]),
            ("unknown encryptedDEKSourceType: 2", |object| object.encrypted_dek_source_type = 2),
            ("encrypted data is empty", |object| object.encrypted_data.clear()),
            ("failed to validate encrypted DEK source: encrypted DEK source is empty", |object| {
                object.encrypted_dek_source.clear();
            }),
            (
                "failed to validate encrypted DEK source: encrypted DEK source is 1025 bytes, which exceeds the max size of 1024",
                |object| object.encrypted_dek_source = vec![0; 1025],
            ),
            ("failed to validate key id: keyID is empty", |object| object.key_id.clear()),
            (
                "failed to validate key id: keyID is 1025 bytes, which exceeds the max size of 1024",
                |object| object.key_id = "k".repeat(1025),
            ),
            ("failed to validate annotations: annotations: Required value", |object| {
                object.annotations = [(String::new(), Vec::new())].into();
            }),
            (
                "failed to validate annotations: annotations: Invalid value: \"foo\": should be a domain with at least two segments separated by dots",
                |object| object.annotations = [("foo".to_owned(), Vec::new())].into(),
            ),
            (
                "failed to validate annotations: annotations: Invalid value: \".a\": a lowercase RFC 1123 subdomain must",
                |object| object.annotations = [(".a".to_owned(), Vec::new())].into(),
            ),
            (
                "failed to validate annotations: total size of annotations is 32769, which exceeds the max size of 32768",
                |object| object.annotations = [("a.b".to_owned(), vec![0; (32 << 10) - 2])].into(),
            ),
        ];
        for (want, change) in cases {
            let mut object = object();
            change(&mut object);
            let found = validate(&object).err().unwrap_or_default();
            assert!(found.starts_with(want) && want.is_empty() == found.is_empty(), "{want}: {found}");
        }
        assert!(decode(&[0xff; 8]).is_err());
    }

    #[test]
    fn seed_is_identified_by_everything_that_decrypts_it() {
        let changes: [Change; 5] = [
            |object| object.key_id.push('a'),
            |object| object.encrypted_dek_source.push(0),
            |object| object.encrypted_dek_source_type = 0,
            |object| object.annotations.clear(),
            |object| object.annotations = [("kms.example.com".to_owned(), vec![4])].into(),
        ];
        for change in changes {
            let mut other = object();
            change(&mut other);
            assert_ne!(seed_id(&other), seed_id(&object()), "{other:?}");
        }
        let mut other = object();
        other.encrypted_data = vec![9];
        assert_eq!(seed_id(&other), seed_id(&object()));
    }

    #[test]
    fn ids_are_hashed() {
        assert_eq!(hashed(""), "");
        let want = "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
        assert_eq!(hashed("1"), want);
    }
}
