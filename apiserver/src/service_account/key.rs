//! Loads the key that signs service account tokens.
//!
//! The first start of a store generates the key and saves it in a record that no kind shows, so that tokens outlive
//! the process.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_auth::service_account::key::{NoRandom, SigningKey, generate};
use orlop_store::{CommitError, Expect, Key, Kv, Op, Write};
use serde_json::{Value, json};

use crate::projection::Projection;

/// Where the key lies in the store.
const PLACE: &str = "/registry/orlop.serviceaccountkeys/current";
/// There is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The record cannot be read.
    #[error(
        "the signing key in {PLACE} cannot be used; remove that record, and a new key is made (tokens that were \
             given before are then worth nothing)"
    )]
    Damaged,
    /// The operating system returned no random numbers.
    #[error(transparent)]
    Random(#[from] NoRandom),
    /// It could not be stored.
    #[error("the signing key cannot be stored: {0}")]
    Store(String),
}

/// The key of a store; makes one when there is none.
pub(crate) async fn load(store: &Arc<dyn Kv<Projection>>) -> Result<SigningKey, KeyError> {
    loop {
        if let Some(record) = store.head().get(PLACE) {
            return read(&record.value).ok_or(KeyError::Damaged);
        }
        let value = json!({ "pkcs8": STANDARD.encode(generate()?) }).to_string().into_bytes().into();
        let op = Op::Put { value, view: Projection::default() };
        let write = Write { key: Key::from(PLACE), expect: Expect::Absent, op };
        match store.commit(vec![write]).await {
            // Written, or another writer was faster: its key is read.
            Ok(_) | Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(KeyError::Store(error.to_string())),
        }
    }
}

fn read(value: &[u8]) -> Option<SigningKey> {
    let value: Value = serde_json::from_slice(value).ok()?;
    SigningKey::from_pkcs8(&STANDARD.decode(value.get("pkcs8")?.as_str()?).ok()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_store::memory::Memory;

    use super::*;

    #[tokio::test]
    async fn store_keeps_its_key() {
        let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
        let first = load(&store).await.unwrap_or_else(|error| panic!("{error}"));
        let again = load(&store).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.public(), first.public());
    }

    #[tokio::test]
    async fn damaged_key_is_reported() {
        let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
        let op = Op::Put { value: b"{\"pkcs8\":\"secret\"}".as_slice().into(), view: Projection::default() };
        let write = Write { key: Key::from(PLACE), expect: Expect::Absent, op };
        store.commit(vec![write]).await.unwrap();
        let error = load(&store).await.err().unwrap().to_string();
        assert!(error.contains(PLACE) && !error.contains("secret"), "{error}");
    }
}
