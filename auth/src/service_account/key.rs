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
/// The first byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// The operating system returned no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate a signing key: the system returned no random numbers")]
pub struct NoRandom;

/// The key.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    public: PublicKey,
}

/// The public half of a key, which verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// The uncompressed point: the byte 4, and two coordinates (SEC 1).
    point: Vec<u8>,
    id: String,
}

impl PublicKey {
    /// Reads an uncompressed point. `None` if the bytes have another form.
    pub fn from_point(point: &[u8]) -> Option<Self> {
        if point.len() != 1 + 2 * COORDINATE || point.first() != Some(&UNCOMPRESSED) {
            return None;
        }
        let mut digest = Sha256::new();
        digest.update(DER_HEAD);
        digest.update(point);
        Some(PublicKey { point: point.to_vec(), id: URL_SAFE_NO_PAD.encode(digest.finalize()) })
    }

    /// The uncompressed point.
    pub fn point(&self) -> &[u8] {
        &self.point
    }

    /// The id of the key: the digest of its DER form.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the key has signed the message.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point).verify(message, signature).is_ok()
    }

    /// The key as a JSON Web Key (RFC 7517).
    pub fn jwk(&self) -> Value {
        let (x, y) = self.point[1..].split_at(COORDINATE);
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

impl SigningKey {
    /// Reads a key in PKCS #8; none when it is not one of this kind.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        let public = PublicKey::from_point(pair.public_key().as_ref())?;
        Some(SigningKey { pair, random, public })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message; none if the system returns no random numbers.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.pair.sign(&self.random, message).ok().map(|signature| signature.as_ref().to_vec())
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
        assert_eq!(again.public(), first.public());
        let public = again.public();
        assert!(public.verify(b"message", &signature));
        assert!(!public.verify(b"massage", &signature) && !public.verify(b"message", &signature[1..]));
        let other = key();
        assert!(!other.public().verify(b"message", &signature) && other.public().id() != public.id());
    }

    #[test]
    fn public_half_has_both_coordinates_and_no_secret() {
        let public = key().public().jwk();
        for name in ["x", "y"] {
            assert_eq!(URL_SAFE_NO_PAD.decode(public[name].as_str().unwrap()).unwrap().len(), COORDINATE);
        }
        assert_eq!(public.get("d"), None, "nothing of the private half");
    }

    #[test]
    fn public_key_is_read_from_an_uncompressed_point_only() {
        let key = key();
        let point = key.public().point();
        assert_eq!(PublicKey::from_point(point).as_ref(), Some(key.public()));
        for wrong in [&[][..], &point[1..], &[&[2], &point[1..]].concat(), &[point, &[0]].concat()] {
            assert_eq!(PublicKey::from_point(wrong), None);
        }
    }
}
