//! The key that service account tokens are signed with: ECDSA over P-256 with SHA-256 (ES256 of RFC 7518).
//!
//! The key is never logged, and nothing here can print it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The DER before the point in a public key of this curve (RFC 5480).
const DER_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of each coordinate of the point.
const COORDINATE: usize = 32;

/// The operating system returned no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate a signing key: the system returned no random numbers")]
pub struct NoRandom;

/// The key.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
}

impl SigningKey {
    /// Reads a key in PKCS #8; none when it is not one of this kind.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        let mut digest = Sha256::new();
        digest.update(DER_HEAD);
        digest.update(pair.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.finalize());
        Some(SigningKey { pair, random, id })
    }

    /// The id of the key: the digest of its public half.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Signs a message; none if the system returns no random numbers.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.pair.sign(&self.random, message).ok().map(|signature| signature.as_ref().to_vec())
    }

    /// Whether this key has signed the message.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let public = self.pair.public_key().as_ref();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).verify(message, signature).is_ok()
    }

    /// The public half as a JSON Web Key (RFC 7517).
    pub fn public(&self) -> Value {
        // A byte that says how the point is written, and two coordinates.
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(COORDINATE.min(point.len()));
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

/// Generates a key, in PKCS #8.
///
/// # Errors
/// The system returned no random numbers.
pub fn generate() -> Result<Vec<u8>, NoRandom> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    made.map(|pkcs8| pkcs8.as_ref().to_vec()).map_err(|_| NoRandom)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_pkcs8(&generate().unwrap()).unwrap()
    }

    #[test]
    fn key_verifies_its_own_signatures_only() {
        let pkcs8 = generate().unwrap();
        let first = SigningKey::from_pkcs8(&pkcs8).unwrap();
        let signature = first.sign(b"message").unwrap();
        let again = SigningKey::from_pkcs8(&pkcs8).unwrap();
        assert_eq!(again.id(), first.id());
        assert!(again.verify(b"message", &signature));
        assert!(!again.verify(b"massage", &signature) && !again.verify(b"message", &signature[1..]));
        let other = key();
        assert!(!other.verify(b"message", &signature) && other.id() != first.id());
    }

    #[test]
    fn public_half_has_both_coordinates_and_no_secret() {
        let public = key().public();
        for name in ["x", "y"] {
            assert_eq!(URL_SAFE_NO_PAD.decode(public[name].as_str().unwrap()).unwrap().len(), COORDINATE);
        }
        assert_eq!(public.get("d"), None, "nothing of the private half");
    }
}
