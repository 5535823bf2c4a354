//! Keys of values. A seed yields a new key for each value: 32 random bytes, the info, are stored before the value, and HKDF expands the
//! seed with them to a key of AES-256-GCM. No number of values exhausts a seed.
//!
//! Upstream: apiserver `pkg/storage/value/encrypt/aes/aes_extended_nonce.go`.

use ring::hkdf::{HKDF_SHA256, Prk};

use super::proto::EncryptedDekSourceType;
use crate::provider::{AesGcmKey, Provider as _, TOO_SHORT, random};

/// The size of a seed, of the info, and of a derived key.
pub(crate) const SIZE: usize = 32;

/// The key of some values, or the seed of their keys.
pub(crate) enum DataKey {
    /// The seed of a key for each value.
    Seed(Prk),
    /// The same key for all values. It is only read: upstream wrote it before 1.28.
    Key(AesGcmKey),
}

impl DataKey {
    /// Uses a decrypted source.
    pub(crate) fn new(kind: EncryptedDekSourceType, source: &[u8]) -> Result<Self, String> {
        match kind {
            EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed if source.len() < SIZE => {
                Err(format!("invalid seed length {} used for key generation", source.len()))
            }
            EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed => {
                Ok(DataKey::Seed(Prk::new_less_safe(HKDF_SHA256, source)))
            }
            EncryptedDekSourceType::AesGcmKey => {
                let key = AesGcmKey::new(source).map(DataKey::Key);
                key.ok_or_else(|| format!("crypto/aes: invalid key size {}", source.len()))
            }
        }
    }

    /// Decrypts a value. `key` is the key of its record.
    pub(crate) fn decrypt(&self, key: &str, stored: &[u8]) -> Result<Vec<u8>, String> {
        let decrypted = match self {
            DataKey::Key(cipher) => cipher.decrypt(key, stored),
            DataKey::Seed(seed) => {
                let (info, encrypted) = stored.split_at_checked(SIZE).ok_or(TOO_SHORT)?;
                derive(seed, info)?.decrypt(key, encrypted)
            }
        };
        decrypted.map_err(str::to_owned)
    }
}

/// Encrypts a value with a key of its own. `key` is the key of its record.
pub(crate) fn encrypt(seed: &Prk, key: &str, value: &[u8]) -> Result<Vec<u8>, String> {
    let info: [u8; SIZE] = random()?;
    let encrypted = derive(seed, &info)?.encrypt(key, value)?;
    Ok([&info[..], &encrypted].concat())
}

fn derive(seed: &Prk, info: &[u8]) -> Result<AesGcmKey, String> {
    let mut derived = [0; SIZE];
    let expanded = seed.expand(&[info], HKDF_SHA256).and_then(|okm| okm.fill(&mut derived));
    let key = expanded.ok().and_then(|()| AesGcmKey::new(&derived));
    key.ok_or_else(|| "failed to read a derived key from KDF".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use EncryptedDekSourceType::{AesGcmKey as Key, HkdfSha256XnonceAesGcmSeed as Seed};

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// The vectors of upstream's tests TestExtendedNonceGCMLegacyDataCompatibility and TestGCMLegacyDataCompatibility.
    #[test]
    fn upstreams_vectors_are_decrypted() {
        for (kind, source, stored) in [
            (
                Seed,
                bytes("5d40323a820ff95561675e3b95e81867c5fdd561d35a88a2d08b08aa9d4fcf5c"),
                bytes(
                    "2442759e33945fbad709db577a0f037fd8a709fc76979b8942209debcecb9d57efe3d6ff6a1ef6ee9a5003b9833b3043cec1e47b35175b151107a8d2416b0e296bbf66b5d102fcefdf9a78f293d271",
                ),
            ),
            (
                Key,
                b"snorlax_awesomes".to_vec(),
                bytes(
                    "9f27c8fcea8a58c467d8e437dbf2d85955f9b4bd912f4ef967d788a0cb07797dac0a3f0a0845605ca85ac8562b4ae1",
                ),
            ),
        ] {
            let key = DataKey::new(kind, &source).unwrap();
            assert_eq!(key.decrypt("bamboo", &stored).unwrap(), b"pandas are the best", "{kind:?}");
            assert!(key.decrypt("another record", &stored).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn every_value_has_its_own_key() {
        let Ok(DataKey::Seed(seed)) = DataKey::new(Seed, &[7; SIZE]) else { panic!("it is a seed") };
        let stored = [(); 2].map(|()| encrypt(&seed, "k", b"value").unwrap());
        assert_ne!(stored[0][..SIZE], stored[1][..SIZE]);
        let key = DataKey::Seed(seed);
        for stored in stored {
            assert_eq!(stored.len(), SIZE + 12 + 5 + 16);
            assert_eq!(key.decrypt("k", &stored).unwrap(), b"value");
        }
    }

    #[test]
    fn sources_and_values_of_another_size_are_refused() {
        for (kind, size, want) in [
            (Seed, 31, "invalid seed length 31 used for key generation"),
            (Seed, 32, ""),
            (Seed, 64, ""),
            (Key, 17, "crypto/aes: invalid key size 17"),
            (Key, 32, ""),
        ] {
            assert_eq!(DataKey::new(kind, &vec![7; size]).err().unwrap_or_default(), want);
        }
        let key = DataKey::new(Seed, &[7; SIZE]).unwrap();
        for size in [0, SIZE - 1, SIZE, SIZE + 11] {
            assert_eq!(key.decrypt("k", &vec![0; size]).unwrap_err(), TOO_SHORT, "{size}");
        }
    }
}
