//! XSalsa20 and Poly1305, as NaCl's secretbox. The layout is a random nonce (24 bytes), the tag (16 bytes), and the encrypted value.

use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};

use super::{CryptError, Provider, TOO_SHORT, random};

const NONCE: usize = 24;
const TAG: usize = 16;
/// Upstream's error for a value that is not authentic.
const NOT_AUTHENTIC: &str = "output array was not large enough for encryption";

/// A key of 32 bytes.
pub(crate) struct Secretbox(XSalsa20Poly1305);

impl Secretbox {
    /// `None` if the key has another length.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        XSalsa20Poly1305::new_from_slice(key).ok().map(Secretbox)
    }
}

impl Provider for Secretbox {
    fn encrypt(&self, _key: &str, value: &[u8]) -> Result<Vec<u8>, CryptError> {
        let nonce: [u8; NONCE] = random()?;
        let sealed = self.0.encrypt(Nonce::from_slice(&nonce), value);
        Ok([&nonce[..], &sealed.map_err(|_| "the value is too large for secretbox")?].concat())
    }

    fn decrypt(&self, _key: &str, stored: &[u8]) -> Result<Vec<u8>, CryptError> {
        let (nonce, sealed) = stored.split_at_checked(NONCE).ok_or(TOO_SHORT)?;
        if sealed.len() < TAG {
            return Err(TOO_SHORT);
        }
        self.0.decrypt(Nonce::from_slice(nonce), sealed).map_err(|_| NOT_AUTHENTIC)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn values_round_trip_and_damage_is_detected() {
        let key = Secretbox::new(&[7; 32]).unwrap();
        for value in [&b""[..], b"value"] {
            let stored = key.encrypt("k", value).unwrap();
            assert_eq!(stored.len(), NONCE + TAG + value.len());
            assert_eq!(key.decrypt("k", &stored).unwrap(), value);
            let mut damaged = stored.clone();
            damaged[NONCE] ^= 1;
            assert_eq!(key.decrypt("k", &damaged), Err(NOT_AUTHENTIC));
        }
        for length in [0, NONCE - 1, NONCE, NONCE + TAG - 1] {
            assert_eq!(key.decrypt("k", &vec![0; length]), Err(TOO_SHORT), "{length}");
        }
        assert!(Secretbox::new(&[7; 16]).is_none());
    }
}
