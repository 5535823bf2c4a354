//! The keys of a server: one signs tokens, and several verify them.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use orlop_auth::jwt::public_key::PublicKey;
use orlop_auth::service_account::claims::{self, Claims, TokenError};
use orlop_auth::service_account::key::SigningKey;
use orlop_store::Kv;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ServiceAccountConfig;
use super::signing_keys::{self, KeyError, SigningKeys};
use crate::projection::Projection;

/// The keys.
pub(super) struct AccountKeys {
    signing: Signing,
    /// Further keys that verify tokens.
    verifying: Vec<PublicKey>,
}

/// The key that signs.
enum Signing {
    /// The key of the configuration.
    Given(Arc<SigningKey>),
    /// The key that the server has created, and the former ones that are still accepted.
    Own(Arc<SigningKeys>),
}

impl AccountKeys {
    /// The keys of the configuration, or those of `key_file`. A key that an earlier version put into the store is moved to the file.
    pub(super) async fn load(
        store: &Arc<dyn Kv<Projection>>,
        key_file: Option<PathBuf>,
        config: &ServiceAccountConfig,
    ) -> Result<Self, KeyError> {
        let signing = match &config.signing_key {
            Some(key) => {
                signing_keys::move_out(store, key_file.as_deref()).await?;
                Signing::Given(key.clone())
            }
            None => Signing::Own(Arc::new(SigningKeys::load(store, key_file).await?)),
        };
        Ok(AccountKeys { signing, verifying: config.verifying_keys.clone() })
    }

    /// Reads changed files again. Does not return if there is a file.
    pub(super) async fn keep_current(&self) {
        match &self.signing {
            Signing::Given(_) => {}
            Signing::Own(keys) => keys.clone().keep_current().await,
        }
    }

    /// Passes the keys that verify tokens at a time to a function; the signing one is the first. A key may be among them twice.
    fn each_accepted<R>(
        &self,
        now: Timestamp,
        read: impl FnOnce(&mut dyn Iterator<Item = &PublicKey>) -> R,
    ) -> R {
        match &self.signing {
            Signing::Given(key) => read(&mut std::iter::once(key.public()).chain(&self.verifying)),
            Signing::Own(keys) => read(&mut keys.current().accepted(now).chain(&self.verifying)),
        }
    }

    /// Passes the keys that verify tokens at a time to a function, each key once; the signing one is the first.
    pub(super) fn with_accepted<R>(&self, now: Timestamp, read: impl FnOnce(&[&PublicKey]) -> R) -> R {
        self.each_accepted(now, |all| {
            let mut keys: Vec<&PublicKey> = Vec::new();
            for key in all {
                if keys.iter().all(|known| known.id() != key.id()) {
                    keys.push(key);
                }
            }
            read(&keys)
        })
    }

    /// Whether the key with this id verifies tokens at a time.
    pub(super) fn accepts(&self, id: &str, now: Timestamp) -> bool {
        self.each_accepted(now, |mut all| Iterator::any(&mut all, |key| key.id() == id))
    }

    /// Signs a token with these claims; none if the system returns no random numbers.
    pub(super) fn sign<C: Serialize>(&self, claims: &C) -> Option<String> {
        match &self.signing {
            Signing::Given(key) => claims::sign(key, claims),
            Signing::Own(keys) => claims::sign(keys.current().signing(), claims),
        }
    }

    /// The claims of a token that an accepted key has signed, and the id of the key.
    ///
    /// # Errors
    /// None of the keys has signed it.
    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Result<(Claims, String), TokenError> {
        self.verify_as(token, now)
    }

    /// Like [`verify`](Self::verify), for a token with other claims.
    ///
    /// # Errors
    /// None of the keys has signed it.
    pub(super) fn verify_as<C: DeserializeOwned>(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(C, String), TokenError> {
        self.each_accepted(now, |all| {
            let verified = claims::verify_as(all, token)?;
            Ok((verified.claims, verified.key.id().to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_auth::service_account::claims::{ObjectRef, Subject};
    use orlop_auth::service_account::key::generate;
    use orlop_store::memory::Memory;

    use super::super::key_file;
    use super::*;

    fn key() -> Arc<SigningKey> {
        Arc::new(SigningKey::from_pkcs8(&generate().unwrap()).unwrap())
    }

    fn claims_of(account: &str) -> Claims {
        let serviceaccount = ObjectRef { name: account.to_owned(), uid: "u".to_owned() };
        let kubernetes = Subject {
            namespace: "n".to_owned(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount,
            warnafter: None,
        };
        Claims {
            aud: vec!["a".to_owned()],
            exp: 2000,
            iat: 1000,
            iss: "i".to_owned(),
            jti: "j".to_owned(),
            kubernetes,
            nbf: 1000,
            sub: format!("system:serviceaccount:n:{account}"),
        }
    }

    async fn load(config: &ServiceAccountConfig) -> AccountKeys {
        let store: Arc<dyn Kv<Projection>> = Arc::new(Memory::new());
        AccountKeys::load(&store, None, config).await.unwrap_or_else(|error| panic!("{error}"))
    }

    #[tokio::test]
    async fn own_key_is_not_created_beside_a_configured_one() {
        let (dir, store) = (tempfile::tempdir().unwrap(), Arc::new(Memory::new()) as Arc<dyn Kv<Projection>>);
        let path = key_file::key_file(dir.path());
        let config = ServiceAccountConfig { signing_key: Some(key()), ..ServiceAccountConfig::default() };
        AccountKeys::load(&store, Some(path.clone()), &config)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(!path.exists());
        // A damaged file is not needed.
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        AccountKeys::load(&store, Some(path), &config).await.unwrap_or_else(|error| panic!("{error}"));
    }

    #[tokio::test]
    async fn earlier_keys_verify_and_removed_ones_do_not() {
        let (old, new, other) = (key(), key(), key());
        let claims = claims_of("s");
        let tokens = [&old, &new, &other].map(|key| claims::sign(key, &claims).unwrap());
        let verifying_keys = vec![old.public().clone(), old.public().clone()];
        for signing_key in [Some(new), None] {
            let is_given = signing_key.is_some();
            let config = ServiceAccountConfig {
                signing_key,
                verifying_keys: verifying_keys.clone(),
                ..ServiceAccountConfig::default()
            };
            let keys = load(&config).await;
            let now = Timestamp::UNIX_EPOCH;
            let verified = tokens.each_ref().map(|token| keys.verify(token, now).is_ok());
            assert_eq!(verified, [true, is_given, false]);
            let (verified, id) = keys.verify(&keys.sign(&claims).unwrap(), now).unwrap();
            assert_eq!(verified, claims);
            assert!(keys.accepts(&id, now) && keys.accepts(old.public().id(), now));
            assert!(!keys.accepts(other.public().id(), now));
            let count = keys.with_accepted(now, |keys| keys.len());
            assert_eq!(count, 2, "a key that is given twice is accepted once");
        }
    }
}
