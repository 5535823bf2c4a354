//! Service account tokens: issued by `serviceaccounts/NAME/token`, verified by authentication and by reviews.
//!
//! [`key_file`] stores the keys, `signing_keys` provides them to a running server. This module does what needs the store: it checks
//! that the account and the objects a token is bound to still exist.

pub mod key_file;
mod signing_keys;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use orlop_store::{Kv, Snapshot};
use serde_json::Value;

use crate::clock::Clock;
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::by_resource;
use orlop_api::object::Object;
use orlop_auth::UserInfo;
use orlop_auth::service_account::claims::{self, Claims, ObjectRef, Subject, TokenError};
use orlop_auth::service_account::key::PublicKey;
pub(crate) use signing_keys::KeyError;
use signing_keys::SigningKeys;

/// Seconds for which tokens of terminating objects stay valid, because a shutdown may need them.
const AFTERLIFE: i64 = 60;
const EXTRA: &str = "authentication.kubernetes.io/";

/// Issues and verifies tokens.
pub(crate) struct Accounts {
    keys: SigningKeys,
    issuer: String,
    store: Arc<dyn Kv<Projection>>,
    clock: Clock,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Accounts {
    /// The accounts of a store. `key_file` contains the keys; without it, they exist only in memory. `issuer` is the name of this
    /// server in tokens.
    pub(crate) async fn new(
        store: Arc<dyn Kv<Projection>>,
        key_file: Option<PathBuf>,
        issuer: String,
        clock: Clock,
    ) -> Result<Self, KeyError> {
        Ok(Accounts { keys: SigningKeys::load(&store, key_file).await?, issuer, store, clock })
    }

    /// The issuer in tokens, and their default audience.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The public halves of the accepted keys, as JSON Web Keys.
    pub(crate) fn jwks(&self) -> Vec<Value> {
        self.keys.current().jwks((self.clock)())
    }

    /// The accepted keys.
    pub(crate) fn accepted_keys(&self) -> Vec<PublicKey> {
        self.keys.current().accepted((self.clock)()).cloned().collect()
    }

    /// Whether all these keys are still accepted.
    pub(crate) fn accepts_all(&self, keys: &[PublicKey]) -> bool {
        let (current, now) = (self.keys.current(), (self.clock)());
        keys.iter().all(|key| current.accepted(now).any(|accepted| accepted == key))
    }

    /// Issues a token that is valid from now on for so many seconds; none if the system returns no random numbers.
    pub(crate) fn issue(&self, subject: Subject, audiences: Vec<String>, seconds: i64) -> Option<String> {
        let now = (self.clock)().as_second();
        let account = format!("system:serviceaccount:{}:{}", subject.namespace, subject.serviceaccount.name);
        let claims = Claims {
            aud: audiences,
            exp: now.saturating_add(seconds),
            iat: now,
            iss: self.issuer.clone(),
            jti: uuid::Uuid::new_v4().to_string(),
            kubernetes: subject,
            nbf: now,
            sub: account,
        };
        claims::sign(self.keys.current().signing(), &claims)
    }

    /// The user of a token and its audiences among the requested ones (none requested: this server); none if this is no service
    /// account token.
    pub(crate) fn user_of(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Option<Result<(UserInfo, Vec<String>), TokenError>> {
        claims::calls_itself(token, &self.issuer).then(|| self.believe(token, audiences))
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

    fn believe(&self, token: &str, audiences: &[String]) -> Result<(UserInfo, Vec<String>), TokenError> {
        let (keys, now) = (self.keys.current(), (self.clock)());
        let claims = claims::verify(token, |message, signature| keys.verify(message, signature, now))?;
        let own = [self.issuer.clone()];
        let wanted = if audiences.is_empty() { &own[..] } else { audiences };
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
        Ok((user(&claims), audiences))
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
    let Some(object) = find(head, plural, namespace, name) else {
        return gone(format!("{plural} {name:?} not found"));
    };
    let ended: Option<Timestamp> = object.str_at(&["metadata", "deletionTimestamp"]).parse().ok();
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

/// An object of the core group.
pub(crate) fn find(head: &Snapshot<Projection>, plural: &str, namespace: &str, name: &str) -> Option<Object> {
    let kind = by_resource("", "v1", plural)?;
    let found = head.get(&dispatch::key(kind, namespace, name));
    found.filter(|record| record.is_whole()).map(|record| stored::decode(record))
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
