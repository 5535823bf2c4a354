//! The algorithms with keys in the configuration, each with upstream's layout of the encrypted bytes.
//!
//! Upstream: apiserver `pkg/storage/value/encrypt`.

mod aes_cbc;
mod aes_gcm;
mod secretbox;

use rand::TryRngCore as _;
use rand::rngs::OsRng;

pub(crate) use self::aes_cbc::AesCbc;
pub(crate) use self::aes_gcm::AesGcmKey;
pub(crate) use self::secretbox::Secretbox;

/// Upstream's error for a value that is too short.
pub(crate) const TOO_SHORT: &str = "the stored data was shorter than the required size";
/// Upstream's error when the system returns no random numbers.
const NO_RANDOM: &str = "unable to read sufficient random bytes";

/// Why a value cannot be encrypted or decrypted. The texts are upstream's.
pub(crate) type CryptError = &'static str;

/// An algorithm with a key. `key` is the key of the record: the authenticated data of the algorithms that have it.
pub(crate) trait Provider: Send + Sync {
    /// Encrypts a value.
    fn encrypt(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, CryptError>;

    /// Decrypts a value.
    fn decrypt(&self, key: &str, stored: &[u8]) -> Result<Vec<u8>, CryptError>;
}

/// Random bytes of the system.
pub(crate) fn random<const SIZE: usize>() -> Result<[u8; SIZE], CryptError> {
    let mut bytes = [0; SIZE];
    OsRng.try_fill_bytes(&mut bytes).map_err(|_| NO_RANDOM)?;
    Ok(bytes)
}
