//! The seed for new values. It expires three minutes after the plugin was last healthy, because the key of the plugin may have changed.
//! Without this limit, a value could be written with the former key after an administrator has rewritten all values with the new one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prost::Message as _;
use ring::hkdf::{HKDF_SHA256, Prk};

use super::data_key::{DataKey, encrypt};
use super::object::{SeedId, hashed, seed_id, validate};
use super::proto::{EncryptResponse, EncryptedDekSourceType, EncryptedObject};

/// How long a seed may be used after the plugin was last healthy, as upstream.
const LIFETIME: Duration = Duration::from_secs(3 * 60);

/// A seed that the plugin has encrypted.
pub(crate) struct WriteSeed {
    seed: Prk,
    /// The same seed, for the decryption of the values that it encrypted.
    pub(crate) data_key: Arc<DataKey>,
    pub(crate) id: SeedId,
    /// The fields that all objects with this seed share.
    header: EncryptedObject,
}

impl WriteSeed {
    /// A seed and its encrypted form.
    pub(crate) fn new(seed: &[u8], encrypted: EncryptResponse) -> Result<Self, String> {
        let kind = EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed;
        let EncryptResponse { ciphertext, key_id, annotations } = encrypted;
        let mut header = EncryptedObject {
            // Any value that is valid.
            encrypted_data: vec![0],
            key_id,
            encrypted_dek_source: ciphertext,
            annotations,
            encrypted_dek_source_type: kind.into(),
        };
        validate(&header)?;
        header.encrypted_data.clear();
        Ok(WriteSeed {
            seed: Prk::new_less_safe(HKDF_SHA256, seed),
            data_key: Arc::new(DataKey::new(kind, seed)?),
            id: seed_id(&header),
            header,
        })
    }

    /// The key of the plugin that has encrypted the seed.
    pub(crate) fn key_id(&self) -> &str {
        &self.header.key_id
    }

    /// The stored form of a value. `key` is the key of its record.
    pub(crate) fn encrypt(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, String> {
        let encrypted_data = encrypt(&self.seed, key, value)?;
        Ok(EncryptedObject { encrypted_data, ..self.header.clone() }.encode_to_vec())
    }

    /// Whether an object should be written again.
    pub(crate) fn is_stale(&self, object: &EncryptedObject) -> bool {
        object.key_id != self.header.key_id
            || object.encrypted_dek_source_type != self.header.encrypted_dek_source_type
    }
}

/// A point in time, on the monotonic clock and on the wall clock.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) shown: Timestamp,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Moment { at: Instant::now(), shown: Timestamp::now() }
    }

    /// In upstream's form: RFC 3339 without a fraction.
    pub(crate) fn rfc3339(self) -> String {
        Timestamp::from_second(self.shown.as_second()).unwrap_or(self.shown).to_string()
    }
}

/// The seed for new values, and when it expires.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) seed: Arc<WriteSeed>,
    pub(crate) expires: Moment,
}

impl Current {
    /// A seed that was valid at this time.
    pub(crate) fn valid_at(seed: Arc<WriteSeed>, now: Moment) -> Self {
        let shown = now.shown.checked_add(LIFETIME).unwrap_or(now.shown);
        Current { seed, expires: Moment { at: now.at + LIFETIME, shown } }
    }

    /// Whether values may be encrypted.
    pub(crate) fn may_encrypt(&self, now: Moment) -> Result<(), String> {
        if now.at <= self.expires.at {
            return Ok(());
        }
        Err(format!(
            "encryptedDEKSource with keyID hash {:?} expired at {} (current time is {})",
            hashed(self.seed.key_id()),
            self.expires.rfc3339(),
            now.rfc3339()
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn encrypted() -> EncryptResponse {
        EncryptResponse {
            ciphertext: vec![9],
            key_id: "1".to_owned(),
            annotations: [("a.example.com".to_owned(), vec![1])].into(),
        }
    }

    #[test]
    fn seed_expires_three_minutes_after_the_plugin_was_healthy() {
        let start = Moment { at: Instant::now(), shown: "2026-01-02T03:04:05.25Z".parse().unwrap() };
        let after = |seconds| {
            let more = Duration::from_secs(seconds);
            Moment { at: start.at + more, shown: start.shown.checked_add(more).unwrap() }
        };
        let seed = Arc::new(WriteSeed::new(&[7; 32], encrypted()).unwrap());
        let current = Current::valid_at(seed, start);
        assert_eq!((current.may_encrypt(start), current.may_encrypt(after(180))), (Ok(()), Ok(())));
        assert_eq!(
            current.may_encrypt(after(181)).unwrap_err(),
            "encryptedDEKSource with keyID hash \"sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\" \
             expired at 2026-01-02T03:07:05Z (current time is 2026-01-02T03:07:06Z)"
        );
    }

    #[test]
    fn objects_of_other_keys_and_of_the_older_type_are_stale() {
        let seed = WriteSeed::new(&[7; 32], encrypted()).unwrap();
        let written = super::super::object::decode(&seed.encrypt("k", b"value").unwrap()).unwrap();
        assert_eq!(seed_id(&written), seed.id);
        assert_eq!(seed.data_key.decrypt("k", &written.encrypted_data).unwrap(), b"value");
        let (mut other_key, mut other_type) = (written.clone(), written.clone());
        other_key.key_id = "2".to_owned();
        other_type.encrypted_dek_source_type = 0;
        let stale = [&written, &other_key, &other_type].map(|object| seed.is_stale(object));
        assert_eq!(stale, [false, true, true]);
    }

    #[test]
    fn response_of_the_plugin_is_validated() {
        let mut without_key = encrypted();
        without_key.key_id.clear();
        let mut bad_annotation = encrypted();
        bad_annotation.annotations = [("a".to_owned(), Vec::new())].into();
        for (response, want) in [
            (without_key, "failed to validate key id: keyID is empty"),
            (
                EncryptResponse { ciphertext: vec![0; 1025], ..encrypted() },
                "failed to validate encrypted DEK source:",
            ),
            (bad_annotation, "failed to validate annotations:"),
        ] {
            let error = WriteSeed::new(&[7; 32], response).err().unwrap();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
