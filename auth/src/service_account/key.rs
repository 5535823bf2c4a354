//! The key that service account tokens are signed with: ECDSA on P-256 or P-384, or RSA.
//!
//! The key is never logged, and nothing here can print it.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_SHA256, RsaKeyPair,
};

use crate::jwt::public_key::{Curve, PublicKey};

/// The operating system returned no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot generate a signing key: the system returned no random numbers")]
pub struct NoRandom;

enum KeyPair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// The key.
pub struct SigningKey {
    pair: KeyPair,
    random: SystemRandom,
    public: PublicKey,
}

impl std::fmt::Debug for SigningKey {
    /// Without the private half.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SigningKey").field("id", &self.public.id()).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads a key in PKCS #8; none when it is not one of these kinds.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let curves = [
            (Curve::P256, &ECDSA_P256_SHA256_FIXED_SIGNING),
            (Curve::P384, &ECDSA_P384_SHA384_FIXED_SIGNING),
        ];
        let random = SystemRandom::new();
        for (curve, algorithm) in curves {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random) {
                let public = PublicKey::from_point(curve, pair.public_key().as_ref()).ok()?;
                return Some(SigningKey { pair: KeyPair::Ecdsa(pair), random, public });
            }
        }
        Self::of_rsa(RsaKeyPair::from_pkcs8(pkcs8).ok()?)
    }

    /// Reads an RSA key in PKCS #1.
    pub(super) fn from_pkcs1(pkcs1: &[u8]) -> Option<Self> {
        Self::of_rsa(RsaKeyPair::from_der(pkcs1).ok()?)
    }

    fn of_rsa(pair: RsaKeyPair) -> Option<Self> {
        let public = PublicKey::from_pkcs1(pair.public_key().as_ref()).ok()?;
        Some(SigningKey { pair: KeyPair::Rsa(pair), random: SystemRandom::new(), public })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message with [`PublicKey::account_algorithm`]; none if the system returns no random numbers.
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.pair {
            KeyPair::Ecdsa(pair) => {
                pair.sign(&self.random, message).ok().map(|signature| signature.as_ref().to_vec())
            }
            KeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

/// Generates a key on P-256, in PKCS #8.
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

    fn verify(key: &SigningKey, message: &[u8], signature: &[u8]) -> bool {
        key.public().verify(key.public().account_algorithm(), message, signature)
    }

    #[test]
    fn key_verifies_its_own_signatures_only() {
        let pkcs8 = generate().unwrap();
        let first = SigningKey::from_pkcs8(&pkcs8).unwrap();
        let signature = first.sign(b"message").unwrap();
        let again = SigningKey::from_pkcs8(&pkcs8).unwrap();
        assert_eq!(again.public(), first.public());
        assert!(verify(&again, b"message", &signature));
        assert!(!verify(&again, b"massage", &signature) && !verify(&again, b"message", &signature[1..]));
        let other = SigningKey::from_pkcs8(&generate().unwrap()).unwrap();
        assert!(!verify(&other, b"message", &signature) && other.public().id() != first.public().id());
    }

    #[test]
    fn debug_and_public_half_have_no_secret() {
        let key = SigningKey::from_pkcs8(&generate().unwrap()).unwrap();
        assert_eq!(key.public().jwk().get("d"), None, "nothing of the private half");
        assert_eq!(format!("{key:?}"), format!("SigningKey {{ id: {:?}, .. }}", key.public().id()));
    }
}
