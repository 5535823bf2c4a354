//! AES in CBC mode with PKCS #7 padding. The layout is the initialization vector (16 bytes), then the encrypted blocks.

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};

use super::{CryptError, Provider, TOO_SHORT, random};

const BLOCK: usize = 16;

/// A key of 16, 24 or 32 bytes.
pub(crate) struct AesCbc(Vec<u8>);

impl AesCbc {
    /// `None` if the key has another length.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        matches!(key.len(), 16 | 24 | 32).then(|| AesCbc(key.to_vec()))
    }

    fn encrypt_with(&self, iv: &[u8; BLOCK], value: &[u8]) -> Vec<u8> {
        let iv: &cbc::cipher::Iv<cbc::Encryptor<Aes128>> = iv.into();
        let blocks = match self.0.len() {
            16 => cbc::Encryptor::<Aes128>::new(self.0[..].into(), iv).encrypt_padded_vec_mut::<Pkcs7>(value),
            24 => cbc::Encryptor::<Aes192>::new(self.0[..].into(), iv).encrypt_padded_vec_mut::<Pkcs7>(value),
            _ => cbc::Encryptor::<Aes256>::new(self.0[..].into(), iv).encrypt_padded_vec_mut::<Pkcs7>(value),
        };
        [iv.as_slice(), &blocks].concat()
    }
}

impl Provider for AesCbc {
    fn encrypt(&self, _key: &str, value: &[u8]) -> Result<Vec<u8>, CryptError> {
        Ok(self.encrypt_with(&random()?, value))
    }

    fn decrypt(&self, _key: &str, stored: &[u8]) -> Result<Vec<u8>, CryptError> {
        let (iv, blocks) = stored.split_at_checked(BLOCK).ok_or(TOO_SHORT)?;
        if blocks.len() % BLOCK != 0 {
            return Err("the stored data is not a multiple of the block size");
        }
        let iv: &cbc::cipher::Iv<cbc::Decryptor<Aes128>> = iv.into();
        let decrypted = match self.0.len() {
            16 => cbc::Decryptor::<Aes128>::new(self.0[..].into(), iv)
                .decrypt_padded_vec_mut::<NoPadding>(blocks),
            24 => cbc::Decryptor::<Aes192>::new(self.0[..].into(), iv)
                .decrypt_padded_vec_mut::<NoPadding>(blocks),
            _ => cbc::Decryptor::<Aes256>::new(self.0[..].into(), iv)
                .decrypt_padded_vec_mut::<NoPadding>(blocks),
        };
        unpad(decrypted.map_err(|_| "the stored data is not a multiple of the block size")?)
    }
}

/// Removes the padding. Upstream accepts any length up to that of the data.
fn unpad(mut data: Vec<u8>) -> Result<Vec<u8>, CryptError> {
    let size = usize::from(*data.last().ok_or("invalid PKCS7 data (empty or not padded)")?);
    if size == 0 || size > data.len() {
        return Err("invalid PKCS7 data (empty or not padded)");
    }
    let left = data.len() - size;
    if data[left..].iter().any(|byte| usize::from(*byte) != size) {
        return Err("invalid padding on input");
    }
    data.truncate(left);
    Ok(data)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_length_and_key_size_round_trips() {
        for key in [16, 24, 32] {
            let key = AesCbc::new(&vec![7; key]).unwrap();
            for length in [0, 1, 15, 16, 17, 4096] {
                let value = vec![3; length];
                let stored = key.encrypt("k", &value).unwrap();
                assert_eq!(stored.len(), BLOCK + (length / BLOCK + 1) * BLOCK);
                assert_eq!(key.decrypt("k", &stored).unwrap(), value);
            }
        }
        assert!(AesCbc::new(&[7; 17]).is_none());
    }

    #[test]
    fn damaged_data_is_rejected() {
        let key = AesCbc::new(&[7; 32]).unwrap();
        for (stored, want) in [
            (vec![0; 15], TOO_SHORT),
            (vec![0; 16], "invalid PKCS7 data (empty or not padded)"),
            (vec![0; 40], "the stored data is not a multiple of the block size"),
        ] {
            assert_eq!(key.decrypt("k", &stored), Err(want), "{}", stored.len());
        }
        for (data, want) in [
            (vec![1, 2, 0], Err("invalid PKCS7 data (empty or not padded)")),
            (vec![1, 2, 4], Err("invalid PKCS7 data (empty or not padded)")),
            (vec![1, 3, 2], Err("invalid padding on input")),
            (vec![1, 2, 2], Ok(vec![1])),
        ] {
            assert_eq!(unpad(data.clone()), want, "{data:?}");
        }
    }
}
