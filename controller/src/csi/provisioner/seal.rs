//! Proves that a note on a claim is orlop's own. A client with write access to claims can write their annotations, and the note
//! determines which secrets, parameters and contents a driver receives; so it carries a code that only orlop can compute
//! (HMAC-SHA256, RFC 2104), with a key from a Secret. The code covers the whole request, whose name contains the claim's UID: a
//! copied or altered note is invalid. The class is no substitute: it may be gone, and the volume must not be forgotten (I9).

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use orlop_client::api::Api;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use super::intent::Intent;
use orlop_client::client::is_already_exists;

/// The location of the key.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "orlop-csi-notes";
const FIELD: &str = "key";
/// Length of the key in bytes.
const LENGTH: usize = 32;
/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

/// Why a note cannot be sealed or verified.
#[derive(Debug, thiserror::Error)]
pub(super) enum SealError {
    /// The key cannot be read from the server.
    #[error("cannot read the key of notes in Secret {NAMESPACE}/{NAME}: {0}")]
    Read(kube::Error),
    /// There is no key yet, and a new one cannot be saved.
    #[error("cannot save a key of notes in Secret {NAMESPACE}/{NAME}: {0}")]
    Save(kube::Error),
    /// The Secret was written by another client.
    #[error(
        "Secret {NAMESPACE}/{NAME} has no {FIELD:?} of {LENGTH} bytes; delete it, and a new one is made as soon as it is needed"
    )]
    Malformed,
}

struct Key([u8; LENGTH]);

/// Creates and verifies seals.
pub(super) struct Seals {
    client: Client,
    key: OnceCell<Key>,
}

impl Seals {
    pub(super) fn new(client: Client) -> Self {
        Seals { client, key: OnceCell::new() }
    }

    /// Returns the intent with its seal.
    ///
    /// # Errors
    /// The key cannot be read or created.
    pub(super) async fn seal(&self, mut intent: Intent) -> Result<Intent, SealError> {
        intent.seal = of(self.key().await?, &intent);
        Ok(intent)
    }

    /// Whether orlop wrote this intent.
    ///
    /// # Errors
    /// The key cannot be read or created.
    pub(super) async fn is_ours(&self, intent: &Intent) -> Result<bool, SealError> {
        let expected = of(self.key().await?, intent);
        let (expected, given) = (expected.as_bytes(), intent.seal.as_bytes());
        // Constant time: the duration does not reveal how many bytes match.
        let differ = expected.iter().zip(given).fold(0, |differ, (one, other)| differ | (one ^ other));
        Ok(expected.len() == given.len() && differ == 0)
    }

    /// The key, created with the first note.
    async fn key(&self) -> Result<&Key, SealError> {
        self.key.get_or_try_init(|| self.load()).await
    }

    async fn load(&self) -> Result<Key, SealError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        if let Some(found) = api.get_opt(NAME).await.map_err(SealError::Read)? {
            return key_of(&found);
        }
        let key: [u8; LENGTH] = rand::random();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..Default::default() },
            data: Some([(FIELD.to_owned(), ByteString(key.to_vec()))].into()),
            immutable: Some(true),
            ..Default::default()
        };
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(Key(key)),
            // Another process created it first.
            Err(error) if is_already_exists(&error) => key_of(&api.get(NAME).await.map_err(SealError::Read)?),
            Err(error) => Err(SealError::Save(error)),
        }
    }
}

fn key_of(secret: &Secret) -> Result<Key, SealError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(FIELD));
    let key = bytes.and_then(|bytes| <[u8; LENGTH]>::try_from(bytes.0.as_slice()).ok());
    key.map(Key).ok_or(SealError::Malformed)
}

/// Computes the seal of an intent, ignoring its present one.
fn of(key: &Key, intent: &Intent) -> String {
    let plain = Intent { seal: String::new(), ..intent.clone() };
    // A struct of strings and numbers always serializes to JSON; its fields and maps have a fixed order.
    let text = serde_json::to_vec(&plain).unwrap_or_default();
    hmac(&key.0, &text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA256 for keys of at most one block (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    debug_assert!(key.len() <= BLOCK);
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeApi;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn hmac_matches_rfc_4231() {
        // RFC 4231, test cases 1 and 2.
        assert_eq!(
            hex(&hmac(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    fn intent(parameter: &str) -> Intent {
        let volume = serde_json::json!({"class": "c", "provisioner": "d", "reclaimPolicy": "Delete"});
        let intent = serde_json::json!({"driver": "d", "name": "pvc-1", "bytes": 1, "modes": [],
            "parameters": {"p": parameter}, "volume": volume});
        serde_json::from_value(intent).expect("an intent")
    }

    #[tokio::test]
    async fn seal_survives_a_restart_and_rejects_forgeries() {
        let api = FakeApi::new();
        let first = Seals::new(api.client());
        let sealed = first.seal(intent("a")).await.expect("a key is made");
        assert!(first.is_ours(&sealed).await.expect("the key is there"));
        let again = Seals::new(api.client());
        assert!(again.is_ours(&sealed).await.expect("the key is stored"));
        for (name, forged) in [
            ("no seal", intent("a")),
            ("another request", Intent { seal: sealed.seal.clone(), ..intent("b") }),
            ("a part of a seal", Intent { seal: sealed.seal[..8].to_owned(), ..intent("a") }),
        ] {
            assert!(!again.is_ours(&forged).await.expect("the key is stored"), "{name}");
        }
        let elsewhere = Seals::new(FakeApi::new().client());
        assert!(!elsewhere.is_ours(&sealed).await.expect("another key"), "keys are not alike");
    }

    #[tokio::test]
    async fn invalid_key_is_reported() {
        let api = FakeApi::new();
        api.seed(serde_json::json!({"kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": NAME},
            "data": {"key": "aHVzaA=="}}));
        let error = Seals::new(api.client()).seal(intent("a")).await.expect_err("too short");
        assert!(
            error.to_string().contains("kube-system/orlop-csi-notes has no \"key\" of 32 bytes"),
            "{error}"
        );
    }
}
