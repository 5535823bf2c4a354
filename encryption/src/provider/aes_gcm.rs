//! AES in GCM mode. The layout is a random nonce (12 bytes), the encrypted value, and the tag (16 bytes). The key of the record is
//! authenticated, so that a value cannot be moved to another key.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{AesGcm, Nonce};

use super::{CryptError, Provider, TOO_SHORT, random};

const NONCE: usize = 12;
/// The error of Go's `crypto/cipher`.
const NOT_AUTHENTIC: &str = "cipher: message authentication failed";

/// A key of 16, 24 or 32 bytes.
pub(crate) enum AesGcmKey {
    Aes128(Box<AesGcm<Aes128, U12>>),
    Aes192(Box<AesGcm<Aes192, U12>>),
    Aes256(Box<AesGcm<Aes256, U12>>),
}

impl AesGcmKey {
    /// `None` if the key has another length.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => AesGcm::new_from_slice(key).ok().map(|cipher| AesGcmKey::Aes128(Box::new(cipher))),
            24 => AesGcm::new_from_slice(key).ok().map(|cipher| AesGcmKey::Aes192(Box::new(cipher))),
            32 => AesGcm::new_from_slice(key).ok().map(|cipher| AesGcmKey::Aes256(Box::new(cipher))),
            _ => None,
        }
    }
}

impl Provider for AesGcmKey {
    fn encrypt(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, CryptError> {
        let nonce: [u8; NONCE] = random()?;
        let (at, payload) = (Nonce::from_slice(&nonce), Payload { msg: value, aad: key.as_bytes() });
        let sealed = match self {
            AesGcmKey::Aes128(cipher) => cipher.encrypt(at, payload),
            AesGcmKey::Aes192(cipher) => cipher.encrypt(at, payload),
            AesGcmKey::Aes256(cipher) => cipher.encrypt(at, payload),
        };
        Ok([&nonce[..], &sealed.map_err(|_| "the value is too large for AES-GCM")?].concat())
    }

    fn decrypt(&self, key: &str, stored: &[u8]) -> Result<Vec<u8>, CryptError> {
        let (nonce, sealed) = stored.split_at_checked(NONCE).ok_or(TOO_SHORT)?;
        let (at, payload) = (Nonce::from_slice(nonce), Payload { msg: sealed, aad: key.as_bytes() });
        let opened = match self {
            AesGcmKey::Aes128(cipher) => cipher.decrypt(at, payload),
            AesGcmKey::Aes192(cipher) => cipher.decrypt(at, payload),
            AesGcmKey::Aes256(cipher) => cipher.decrypt(at, payload),
        };
        opened.map_err(|_| NOT_AUTHENTIC)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_key_size_round_trips_and_the_record_key_is_authenticated() {
        for size in [16, 24, 32] {
            let key = AesGcmKey::new(&vec![7; size]).unwrap();
            for value in [&b""[..], b"value"] {
                let stored = key.encrypt("/registry/secrets/a/b", value).unwrap();
                assert_eq!(stored.len(), NONCE + value.len() + 16);
                assert_eq!(key.decrypt("/registry/secrets/a/b", &stored).unwrap(), value);
                assert_eq!(key.decrypt("/registry/secrets/a/c", &stored), Err(NOT_AUTHENTIC));
                let mut damaged = stored.clone();
                damaged[NONCE] ^= 1;
                assert_eq!(key.decrypt("/registry/secrets/a/b", &damaged), Err(NOT_AUTHENTIC));
            }
            assert_eq!(key.decrypt("k", &[0; NONCE - 1]), Err(TOO_SHORT));
            assert_eq!(key.decrypt("k", &[0; NONCE]), Err(NOT_AUTHENTIC));
        }
        assert!(AesGcmKey::new(&[7; 31]).is_none());
    }
}
