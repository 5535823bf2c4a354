//! The keys of a server: one signs tokens, and several verify them.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use orlop_auth::jwt::public_key::PublicKey;
use orlop_auth::service_account::claims::{self, Claims, TokenError};
use orlop_auth::service_account::key::SigningKey;
use orlop_store::Kv;

use super::ServiceAccountConfig;
use super::signing_keys::{KeyError, SigningKeys};
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
    Own(SigningKeys),
}

impl AccountKeys {
    /// The keys of the configuration, or those of `key_file`. A key that an earlier version put into the store is moved to the file.
    pub(super) async fn load(
        store: &Arc<dyn Kv<Projection>>,
        key_file: Option<PathBuf>,
        config: &ServiceAccountConfig,
    ) -> Result<Self, KeyError> {
        let own = SigningKeys::load(store, key_file).await?;
        let signing = config.signing_key.clone().map_or(Signing::Own(own), Signing::Given);
        Ok(AccountKeys { signing, verifying: config.verifying_keys.clone() })
    }

    /// The keys that verify tokens at a time; the signing one is the first.
    pub(super) fn accepted(&self, now: Timestamp) -> Vec<PublicKey> {
        let mut keys = match &self.signing {
            Signing::Given(key) => vec![key.public().clone()],
            Signing::Own(keys) => keys.current().accepted(now).cloned().collect(),
        };
        for key in &self.verifying {
            if keys.iter().all(|known| known.id() != key.id()) {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Signs a token with these claims; none if the system returns no random numbers.
    pub(super) fn sign(&self, claims: &Claims) -> Option<String> {
        match &self.signing {
            Signing::Given(key) => claims::sign(key, claims),
            Signing::Own(keys) => claims::sign(keys.current().signing(), claims),
        }
    }

    /// The claims of a token that an accepted key has signed.
    ///
    /// # Errors
    /// None of the keys has signed it.
    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        claims::verify(&self.accepted(now), token)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_auth::service_account::claims::{ObjectRef, Subject};
    use orlop_auth::service_account::key::generate;
    use orlop_store::memory::Memory;

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
            assert_eq!(keys.verify(&keys.sign(&claims).unwrap(), now), Ok(claims.clone()));
            assert_eq!(keys.accepted(now).len(), 2, "a duplicate key is accepted once");
        }
    }
}
