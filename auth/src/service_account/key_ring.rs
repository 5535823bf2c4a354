//! The keys of service account tokens: one signs, several verify.

use std::sync::Arc;

use super::claims::{self, Claims, TokenError};
use super::key::SigningKey;
use crate::jwt::public_key::PublicKey;

/// The keys.
#[derive(Debug)]
pub struct KeyRing {
    signing: Arc<SigningKey>,
    /// The public half of the signing key, then the others.
    verifying: Vec<PublicKey>,
}

impl KeyRing {
    /// A ring whose tokens are verified with the signing key and with `others`.
    pub fn new(signing: Arc<SigningKey>, others: impl IntoIterator<Item = PublicKey>) -> Self {
        let mut verifying = vec![signing.public().clone()];
        for key in others {
            if verifying.iter().all(|known| known.id() != key.id()) {
                verifying.push(key);
            }
        }
        KeyRing { signing, verifying }
    }

    /// The keys that verify tokens; the signing one is the first.
    pub fn verifying(&self) -> &[PublicKey] {
        &self.verifying
    }

    /// Signs a token with these claims; none if the system returns no random numbers.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        claims::sign(&self.signing, claims)
    }

    /// The claims of a token that one of the keys has signed.
    ///
    /// # Errors
    /// None of them has signed it.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        claims::verify(&self.verifying, token)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::claims::tests::claims;
    use super::super::key::generate;
    use super::*;

    fn key() -> Arc<SigningKey> {
        Arc::new(SigningKey::from_pkcs8(&generate().unwrap()).unwrap())
    }

    #[test]
    fn earlier_keys_verify_and_removed_ones_do_not() {
        let (old, new, other) = (key(), key(), key());
        let tokens = [&old, &new, &other].map(|key| claims::sign(key, &claims()).unwrap());
        let ring = KeyRing::new(new, [old.public().clone()]);
        let verified = tokens.each_ref().map(|token| ring.verify(token).is_ok());
        assert_eq!(verified, [true, true, false]);
        assert_eq!(ring.verify(&ring.sign(&claims()).unwrap()), Ok(claims()));
        let again = KeyRing::new(key(), [old.public().clone(), old.public().clone()]);
        assert_eq!(again.verifying().len(), 2);
    }
}
