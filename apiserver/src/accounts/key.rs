//! The key that service account tokens are signed with: ECDSA over P-256 with SHA-256 (ES256 of RFC 7518).
//!
//! It is made when a store has none and kept there, in a record that no kind shows, so that tokens outlive
//! the process. It is never logged, and nothing here can print it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use orlop_store::{CommitError, Expect, Key, Kv, Op, Write};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::projection::Projection;

/// Where the key lies in the store.
const PLACE: &str = "/registry/orlop.serviceaccountkeys/current";
/// What stands before the point in a public key of this curve as DER (RFC 5480).
const DER_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of each coordinate of the point.
const COORDINATE: usize = 32;

/// There is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The record cannot be read.
    #[error(
        "the signing key in {PLACE} cannot be used; remove that record, and a new key is made (tokens that were \
             given before are then worth nothing)"
    )]
    Damaged,
    /// The operating system gave no random numbers.
    #[error("no signing key can be made: the system gives no random numbers")]
    Random,
    /// It could not be stored.
    #[error("the signing key cannot be stored: {0}")]
    Store(String),
}

/// The key.
pub(crate) struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
}

impl SigningKey {
    /// The key of a store; makes one when there is none.
    pub(crate) async fn of(store: &Arc<dyn Kv<Projection>>) -> Result<Self, KeyError> {
        loop {
            if let Some(record) = store.head().get(PLACE) {
                return Self::read(&record.value).ok_or(KeyError::Damaged);
            }
            let value = json!({ "pkcs8": STANDARD.encode(generate()?) }).to_string().into_bytes().into();
            let op = Op::Put { value, view: Projection::default() };
            let write = Write { key: Key::from(PLACE), expect: Expect::Absent, op };
            match store.commit(vec![write]).await {
                // Written, or somebody else was faster: that one is read.
                Ok(_) | Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(KeyError::Store(error.to_string())),
            }
        }
    }

    fn read(value: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(value).ok()?;
        Self::from_pkcs8(&STANDARD.decode(value.get("pkcs8")?.as_str()?).ok()?)
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        let mut digest = Sha256::new();
        digest.update(DER_HEAD);
        digest.update(pair.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.finalize());
        Some(SigningKey { pair, random, id })
    }

    /// A key of its own, for tests.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::from_pkcs8(&generate().expect("random numbers")).expect("a key that was just made")
    }

    /// What tokens and clients call it.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The signature of a message; `None` when the system gives no random numbers.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.pair.sign(&self.random, message).ok().map(|signature| signature.as_ref().to_vec())
    }

    /// Whether this key has signed the message.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let public = self.pair.public_key().as_ref();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).verify(message, signature).is_ok()
    }

    /// The public half as others verify with it (RFC 7517).
    pub(crate) fn public(&self) -> Value {
        // A byte that says how the point is written, and two coordinates.
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(COORDINATE.min(point.len()));
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

fn generate() -> Result<Vec<u8>, KeyError> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    made.map(|pkcs8| pkcs8.as_ref().to_vec()).map_err(|_| KeyError::Random)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_store::memory::Memory;

    use super::*;

    #[tokio::test]
    async fn a_store_keeps_its_key() {
        let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
        let first = SigningKey::of(&store).await.unwrap_or_else(|error| panic!("{error}"));
        let signature = first.sign(b"message").unwrap();
        let again = SigningKey::of(&store).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.id(), first.id());
        assert!(again.verify(b"message", &signature));
        assert!(!again.verify(b"massage", &signature) && !again.verify(b"message", &signature[1..]));
        let other = SigningKey::new();
        assert!(!other.verify(b"message", &signature) && other.id() != first.id());
    }

    #[tokio::test]
    async fn a_damaged_key_is_told() {
        let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
        let op = Op::Put { value: b"{\"pkcs8\":\"secret\"}".as_slice().into(), view: Projection::default() };
        let write = Write { key: Key::from(PLACE), expect: Expect::Absent, op };
        store.commit(vec![write]).await.unwrap();
        let error = SigningKey::of(&store).await.err().unwrap().to_string();
        assert!(error.contains(PLACE) && !error.contains("secret"), "{error}");
    }

    #[test]
    fn the_public_half() {
        let public = SigningKey::new().public();
        for name in ["x", "y"] {
            assert_eq!(URL_SAFE_NO_PAD.decode(public[name].as_str().unwrap()).unwrap().len(), COORDINATE);
        }
        assert_eq!(public.get("d"), None, "nothing of the private half");
    }
}
