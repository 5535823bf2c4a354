//! Service account tokens: issued by `serviceaccounts/NAME/token`, verified by authentication and by reviews.
//!
//! [`key_file`] stores the keys, `signing_keys` reads them again when they change, and `keys` combines them with those of the
//! configuration. `legacy` verifies tokens that are stored in Secrets, with what `token_secrets` remembers of these. [`lifetime`] decides
//! how long tokens are valid. This module checks in the store that the account and the objects a token is bound to still exist.

pub mod key_file;
mod keys;
mod legacy;
mod lifetime;
mod signing_keys;
mod token_secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use orlop_store::{Kv, Snapshot};

use crate::clock::Clock;
use crate::dispatch;
use crate::encode::head::ObjectHead;
use crate::projection::Projection;
use crate::registry::by_resource;
use keys::AccountKeys;
pub(crate) use lifetime::Lifetime;
use lifetime::LifetimeLimits;
use orlop_api::status::ApiError;
use orlop_auth::jwt::public_key::PublicKey;
use orlop_auth::service_account::claims::{self, Claims, ObjectRef, Subject, TokenError};
use orlop_auth::service_account::key::SigningKey;
use orlop_auth::service_account::legacy::LegacyClaims;
use orlop_auth::{SecretDigest, UserInfo};
pub(crate) use signing_keys::KeyError;
use token_secrets::TokenSecrets;

/// Seconds for which tokens of terminating objects stay valid, because a shutdown may need them.
const AFTERLIFE: i64 = 60;
const EXTRA: &str = "authentication.kubernetes.io/";
/// The annotation of a request with a token whose validity was extended (upstream: `pkg/serviceaccount/claims.go`).
const STALE_TOKEN: &str = "authentication.k8s.io/stale-token";

/// The default issuer of tokens.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The configuration of tokens.
#[derive(Clone, Debug)]
pub struct ServiceAccountConfig {
    /// The issuer in tokens.
    pub issuer: String,
    /// The audiences of this server, and of tokens that are requested without one; empty means the issuer.
    pub audiences: Vec<String>,
    /// The key that signs tokens; `None` means the key of [`key_file`].
    pub signing_key: Option<Arc<SigningKey>>,
    /// Further keys that verify tokens.
    pub verifying_keys: Vec<PublicKey>,
    /// Maximum validity of a token.
    pub max_expiration: Option<Duration>,
    /// Whether the tokens of pods are valid for a year if the usual validity is requested, as upstream.
    pub extend_expiration: bool,
}

impl Default for ServiceAccountConfig {
    fn default() -> Self {
        ServiceAccountConfig {
            issuer: DEFAULT_ISSUER.to_owned(),
            audiences: Vec::new(),
            signing_key: None,
            verifying_keys: Vec::new(),
            max_expiration: None,
            extend_expiration: true,
        }
    }
}

/// Issues and verifies tokens.
pub(crate) struct Accounts {
    keys: AccountKeys,
    issuer: String,
    audiences: Vec<String>,
    limits: LifetimeLimits,
    store: Arc<dyn Kv<Projection>>,
    clock: Clock,
    label_writes: legacy::LabelWrites,
    token_secrets: TokenSecrets,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// A new token.
pub(crate) struct IssuedToken {
    pub(crate) token: String,
    /// The unique id in the token.
    pub(crate) id: String,
}

/// The account of a token.
#[derive(Debug)]
pub(crate) struct AccountUser {
    pub(crate) user: UserInfo,
    /// For which of the requested audiences the token is valid.
    pub(crate) audiences: Vec<String>,
    /// The annotation for the audit log about the kind of token, if any: key and text.
    pub(crate) annotation: Option<(&'static str, String)>,
    /// The warning for the client, if any.
    pub(crate) warning: Option<&'static str>,
    /// The token.
    pub(crate) token: AccountToken,
}

/// The id of the key that has signed the token of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenKey(Arc<str>);

/// A token with a valid signature: its claims and its key, without its text.
#[derive(Clone, Debug)]
pub(crate) struct AccountToken {
    claims: AccountClaims,
    key: TokenKey,
}

#[derive(Clone, Debug)]
enum AccountClaims {
    /// A token that `serviceaccounts/NAME/token` has issued.
    Issued(Arc<Claims>),
    /// A token in a Secret, and its digest.
    Legacy(Arc<LegacyClaims>, SecretDigest),
}

impl AccountToken {
    /// The key that has signed it.
    pub(crate) fn key(&self) -> &TokenKey {
        &self.key
    }

    /// When it expires.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        match &self.claims {
            AccountClaims::Issued(claims) => Timestamp::from_second(claims.exp).ok(),
            AccountClaims::Legacy(..) => None,
        }
    }
}

impl Accounts {
    /// The accounts of a store. `key_file` contains the keys, unless the configuration has a signing key; without both, the key
    /// exists only in memory.
    pub(crate) async fn new(
        store: Arc<dyn Kv<Projection>>,
        key_file: Option<PathBuf>,
        config: &ServiceAccountConfig,
        clock: Clock,
    ) -> Result<Self, KeyError> {
        let keys = AccountKeys::load(&store, key_file, config).await?;
        let issuer = config.issuer.clone();
        let audiences = match config.audiences.is_empty() {
            true => vec![issuer.clone()],
            false => config.audiences.clone(),
        };
        let max = config.max_expiration.map(|max| i64::try_from(max.as_secs()).unwrap_or(i64::MAX));
        let limits = LifetimeLimits { max, extends: config.extend_expiration };
        let label_writes = legacy::LabelWrites::default();
        let token_secrets = TokenSecrets::default();
        Ok(Accounts { keys, issuer, audiences, limits, store, clock, label_writes, token_secrets })
    }

    /// The issuer in tokens.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The audiences of this server.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Reads the file of the keys again whenever it changes. Returns if there is none.
    pub(crate) async fn keep_keys_current(&self) {
        self.keys.keep_current().await;
    }

    /// Whether a key still verifies tokens.
    pub(crate) fn accepts(&self, key: &TokenKey) -> bool {
        self.keys.accepts(&key.0, (self.clock)())
    }

    /// Passes the keys that verify tokens to a function; the signing one is the first.
    pub(crate) fn with_public_keys<R>(&self, read: impl FnOnce(&[&PublicKey]) -> R) -> R {
        self.keys.with_accepted((self.clock)(), read)
    }

    /// The validity of a token, for the requested seconds and audiences.
    pub(crate) fn lifetime(&self, seconds: i64, is_for_pod: bool, audiences: &[String]) -> Lifetime {
        let is_for_server = audiences.iter().all(|audience| self.audiences.contains(audience));
        Lifetime::new(self.limits, seconds, is_for_pod, is_for_server)
    }

    /// Issues a token that is valid from now on; none if the system returns no random numbers.
    pub(crate) fn issue(
        &self,
        subject: Subject,
        audiences: Vec<String>,
        lifetime: &Lifetime,
    ) -> Option<IssuedToken> {
        let now = (self.clock)().as_second();
        let account = format!("system:serviceaccount:{}:{}", subject.namespace, subject.serviceaccount.name);
        let warnafter = lifetime.warn_after.map(|seconds| now.saturating_add(seconds));
        let claims = Claims {
            aud: audiences,
            exp: now.saturating_add(lifetime.actual),
            iat: now,
            iss: self.issuer.clone(),
            jti: uuid::Uuid::new_v4().to_string(),
            kubernetes: Subject { warnafter, ..subject },
            nbf: now,
            sub: account,
        };
        let token = self.keys.sign(&claims)?;
        Some(IssuedToken { token, id: claims.jti })
    }

    /// Whether a token names this issuer, or that of tokens in Secrets. Verifies nothing.
    pub(crate) fn has_issued(&self, token: &str) -> bool {
        claims::calls_itself(token, &self.issuer) || legacy::is_legacy(token)
    }

    /// The user of a token and its audiences among the requested ones (none requested: this server); none if this is no service
    /// account token.
    pub(crate) fn user_of(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Option<Result<AccountUser, TokenError>> {
        if legacy::is_legacy(token) {
            return Some(self.verify_legacy(token, audiences));
        }
        claims::calls_itself(token, &self.issuer).then(|| self.verify(token, audiences))
    }

    /// Whether the account of a user, and the pod that its token was bound to, still exist. True for all other users.
    pub(crate) fn is_alive(&self, user: &UserInfo) -> bool {
        let Some((namespace, name)) = account_name(user) else { return true };
        let (head, now) = (self.store.head(), (self.clock)());
        let is_there = |plural: &str, name: &str, uid: &str| {
            let object = ObjectRef { name: name.to_owned(), uid: uid.to_owned() };
            still_there(&head, plural, namespace, &object, now).is_ok()
        };
        let extra = |name: &str| user.extra.get(&format!("{EXTRA}{name}")).and_then(|values| values.first());
        is_there("serviceaccounts", name, &user.uid)
            && extra("pod-name").zip(extra("pod-uid")).is_none_or(|(name, uid)| is_there("pods", name, uid))
    }

    /// The user of a token that was verified before, if it is still valid for these audiences (none requested: this server). The
    /// result is that of a request with the token.
    ///
    /// # Errors
    /// The token is not valid any more.
    pub(crate) fn verify_again(
        &self,
        token: &AccountToken,
        audiences: &[String],
    ) -> Result<AccountUser, TokenError> {
        if !self.accepts(&token.key) {
            return Err(TokenError::Forged);
        }
        match &token.claims {
            AccountClaims::Issued(claims) => self.check_issued(claims.clone(), token.key.clone(), audiences),
            AccountClaims::Legacy(claims, digest) => {
                self.check_legacy(claims.clone(), *digest, token.key.clone(), audiences)
            }
        }
    }

    fn verify(&self, token: &str, audiences: &[String]) -> Result<AccountUser, TokenError> {
        let (claims, key) = self.keys.verify(token, (self.clock)())?;
        self.check_issued(Arc::new(claims), TokenKey(key.into()), audiences)
    }

    /// Checks the time and the audiences of a token, and the objects it depends on.
    fn check_issued(
        &self,
        claims: Arc<Claims>,
        key: TokenKey,
        audiences: &[String],
    ) -> Result<AccountUser, TokenError> {
        let now = (self.clock)();
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        let audiences = claims::check(&claims, now.as_second(), wanted)?;
        let subject = &claims.kubernetes;
        let head = self.store.head();
        let alive = |plural: &str, namespace: &str, object: &ObjectRef| {
            still_there(&head, plural, namespace, object, now)
        };
        alive("serviceaccounts", &subject.namespace, &subject.serviceaccount)?;
        if let Some(pod) = &subject.pod {
            alive("pods", &subject.namespace, pod)?;
        } else if let Some(node) = &subject.node {
            // A token that is bound to a pod names its node, but does not depend on it.
            alive("nodes", "", node)?;
        }
        if let Some(secret) = &subject.secret {
            alive("secrets", &subject.namespace, secret)?;
        }
        let stale = claims::stale_seconds(&claims, now.as_second());
        let annotation = stale.map(|seconds| {
            (STALE_TOKEN, format!("subject: {}, seconds after warning threshold: {seconds}", claims.sub))
        });
        let user = user(&claims);
        let token = AccountToken { claims: AccountClaims::Issued(claims), key };
        Ok(AccountUser { user, audiences, annotation, warning: None, token })
    }
}

/// The namespace and the name of the service account of a user; `None` for a user of other credentials with such a name.
pub(crate) fn account_name(user: &UserInfo) -> Option<(&str, &str)> {
    if user.uid.is_empty() {
        return None;
    }
    user.username.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// Checks that an object exists with the same UID.
fn still_there(
    head: &Snapshot<Projection>,
    plural: &str,
    namespace: &str,
    wanted: &ObjectRef,
    now: Timestamp,
) -> Result<(), TokenError> {
    let gone = |why: String| Err(TokenError::Gone(why));
    let name = &wanted.name;
    let object = match find(head, plural, namespace, name) {
        Ok(Some(object)) => object,
        Ok(None) => return gone(format!("{plural} {name:?} not found")),
        // No token depends on an object that cannot be read.
        Err(error) => return gone(error.message),
    };
    let ended: Option<Timestamp> = object.deletion_timestamp().and_then(|time| time.parse().ok());
    if ended.is_some_and(|ended| ended.as_second() < now.as_second() - AFTERLIFE) {
        return gone(format!("{plural} {name:?} has been deleted"));
    }
    if object.uid() != wanted.uid {
        return gone(format!(
            "the UID of {plural} {name:?} ({}) does not match claim ({})",
            object.uid(),
            wanted.uid
        ));
    }
    Ok(())
}

/// The head of an object of the core group. Every request with a token reads some, and users make them as large as any object.
///
/// # Errors
/// The object exists, but cannot be read.
pub(crate) fn find(
    head: &Snapshot<Projection>,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectHead>, ApiError> {
    let Some(kind) = by_resource("", "v1", plural) else { return Ok(None) };
    head.get(&dispatch::key(kind, namespace, name)).map(ObjectHead::of).transpose()
}

fn user(claims: &Claims) -> UserInfo {
    let subject = &claims.kubernetes;
    let namespace = &subject.namespace;
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let name = &subject.serviceaccount.name;
    let mut user = UserInfo::new(format!("system:serviceaccount:{namespace}:{name}"), groups);
    user.uid.clone_from(&subject.serviceaccount.uid);
    let mut add = |key: &str, value: String| {
        user.extra.insert(format!("{EXTRA}{key}"), vec![value]);
    };
    add("credential-id", format!("JTI={}", claims.jti));
    for (kind, object) in [("pod", &subject.pod), ("node", &subject.node)] {
        if let Some(object) = object {
            add(&format!("{kind}-name"), object.name.clone());
            add(&format!("{kind}-uid"), object.uid.clone());
        }
    }
    user
}
