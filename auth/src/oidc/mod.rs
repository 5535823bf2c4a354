//! ID tokens of an OpenID Connect issuer.
//!
//! Distributed claims (`_claim_sources`) are not supported: groups must be in the token.
//!
//! Upstream: apiserver `plugin/pkg/authenticator/token/oidc/oidc.go`, `github.com/coreos/go-oidc`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::UserInfo;
use crate::jwt::UnverifiedToken;
use crate::jwt::algorithm::Algorithm;
use crate::jwt::public_key::PublicKey;

/// Tolerated clock difference at the start of the validity, in seconds (go-oidc). There is none at the end.
const NOT_BEFORE_LEEWAY: f64 = 300.0;
/// Maximum number of keys of an issuer. A token without a key id is verified with all of them.
const MAX_KEYS: usize = 100;
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// An issuer, and how its claims become users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// The URL of the issuer, exactly as in its tokens.
    pub issuer: String,
    /// The audience of the tokens.
    pub client_id: String,
    /// The claim with the user name.
    pub username_claim: String,
    /// Prefix of the user names; may be empty.
    pub username_prefix: String,
    /// The claim with the groups, if there is one.
    pub groups_claim: Option<String>,
    /// Prefix of the groups; may be empty.
    pub groups_prefix: String,
    /// Claims that a token must have, and their values.
    pub required_claims: BTreeMap<String, String>,
    /// The accepted algorithms.
    pub algorithms: Vec<Algorithm>,
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerKeys(Vec<PublicKey>);

impl IssuerKeys {
    /// Reads a JSON Web Key Set. Keys of unknown kinds are left out.
    ///
    /// # Errors
    /// A message for the log if the document has another form or no usable key.
    pub fn parse(document: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(document).map_err(|error| error.to_string())?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or("the key set has no keys")?;
        if keys.len() > MAX_KEYS {
            return Err(format!("the key set has more than {MAX_KEYS} keys"));
        }
        let keys: Vec<PublicKey> = keys.iter().filter_map(|key| PublicKey::from_jwk(key).ok()).collect();
        if keys.is_empty() { Err("the key set has no usable key".to_owned()) } else { Ok(IssuerKeys(keys)) }
    }

    /// Whether a key may have signed a token with this key id.
    fn candidates<'k>(&'k self, key_id: &'k str) -> impl Iterator<Item = &'k PublicKey> {
        self.0.iter().filter(move |key| key_id.is_empty() || key.id() == key_id)
    }
}

/// Why a token of the issuer is invalid. The texts are for reviews; they contain no part of the token but its claims' names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The issuer may have published another key in the meantime.
    #[error("oidc: verify token: failed to verify signature: failed to verify id token signature")]
    UnknownKey,
    /// The token is damaged.
    #[error("oidc: verify token: oidc: malformed jwt")]
    Malformed,
    /// The token has another algorithm.
    #[error("oidc: verify token: oidc: id token signed with unsupported algorithm")]
    Algorithm,
    /// The token has ended.
    #[error("oidc: verify token: oidc: token is expired")]
    Expired,
    /// The token is not valid yet.
    #[error("oidc: verify token: oidc: current time is before the nbf (not before) time")]
    NotYet,
    /// The token is for another client.
    #[error("oidc: verify token: oidc: expected audience in [{0:?}]")]
    Audience(String),
    /// A claim is missing or has another type.
    #[error("oidc: parse claim {0:?}")]
    Claim(String),
    /// The address is not verified.
    #[error("oidc: email not verified")]
    EmailNotVerified,
    /// A required claim is missing.
    #[error("oidc: required claim {0} not present in ID token")]
    RequiredMissing(String),
    /// A required claim has another value.
    #[error("oidc: required claim {0} value does not match")]
    RequiredDiffers(String),
}

/// The claims of a token with a valid signature, and the key that has signed it. Does not contain the token.
#[derive(Clone, Debug)]
pub struct VerifiedClaims {
    claims: Map<String, Value>,
    key: PublicKey,
}

impl VerifiedClaims {
    /// The user of the token, if it is valid at a time and with these keys.
    ///
    /// # Errors
    /// The token would be invalid.
    pub fn user(
        &self,
        config: &OidcConfig,
        keys: &IssuerKeys,
        now: Timestamp,
    ) -> Result<UserInfo, OidcError> {
        if !keys.0.contains(&self.key) {
            return Err(OidcError::UnknownKey);
        }
        check(config, &self.claims, now)?;
        user(config, &self.claims)
    }

    /// When the token expires.
    pub fn expires(&self) -> Option<Timestamp> {
        // The conversion to an integer saturates.
        self.claims.get("exp").and_then(Value::as_f64).and_then(|end| Timestamp::from_second(end as i64).ok())
    }
}

/// The user of a token that names the issuer.
///
/// # Errors
/// The token is invalid.
pub fn verify(
    config: &OidcConfig,
    keys: &IssuerKeys,
    token: &str,
    now: Timestamp,
) -> Result<UserInfo, OidcError> {
    verify_signature(config, keys, token)?.user(config, keys, now)
}

/// Verifies the signature of a token that names the issuer.
///
/// # Errors
/// The token is damaged, or none of the keys has signed it.
pub fn verify_signature(
    config: &OidcConfig,
    keys: &IssuerKeys,
    token: &str,
) -> Result<VerifiedClaims, OidcError> {
    let token = UnverifiedToken::parse(token).ok_or(OidcError::Malformed)?;
    let accepted = config.algorithms.iter().find(|accepted| accepted.name() == token.algorithm);
    let algorithm = *accepted.ok_or(OidcError::Algorithm)?;
    let has_signed = |key: &PublicKey| key.verify(algorithm, token.message.as_bytes(), &token.signature);
    let key = keys.candidates(&token.key_id).find(|key| has_signed(key)).ok_or(OidcError::UnknownKey)?;
    Ok(VerifiedClaims { claims: token.claims().ok_or(OidcError::Malformed)?, key: key.clone() })
}

/// Checks the issuer, the client and the time.
fn check(config: &OidcConfig, claims: &Map<String, Value>, now: Timestamp) -> Result<(), OidcError> {
    if claims.get("iss").and_then(Value::as_str) != Some(&config.issuer) {
        return Err(OidcError::Malformed);
    }
    let audience = match claims.get("aud") {
        Some(Value::String(one)) => *one == config.client_id,
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(&config.client_id)),
        Some(_) | None => false,
    };
    if !audience {
        return Err(OidcError::Audience(config.client_id.clone()));
    }
    let now = now.as_second() as f64;
    let end = claims.get("exp").and_then(Value::as_f64).ok_or(OidcError::Expired)?;
    if end < now {
        return Err(OidcError::Expired);
    }
    match claims.get("nbf").map(Value::as_f64) {
        None => Ok(()),
        Some(Some(begin)) if begin <= now + NOT_BEFORE_LEEWAY => Ok(()),
        Some(_) => Err(OidcError::NotYet),
    }
}

fn user(config: &OidcConfig, claims: &Map<String, Value>) -> Result<UserInfo, OidcError> {
    let wrong = |claim: &str| OidcError::Claim(claim.to_owned());
    let name = claims.get(&config.username_claim).and_then(Value::as_str);
    // Upstream accepts an empty name. No rule could name such a user.
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| wrong(&config.username_claim))?;
    if config.username_claim == "email"
        && claims.get("email_verified").is_some_and(|verified| *verified != Value::Bool(true))
    {
        return Err(OidcError::EmailNotVerified);
    }
    let mut groups = Vec::new();
    if let Some((claim, value)) =
        config.groups_claim.as_ref().and_then(|claim| claims.get(claim).map(|value| (claim, value)))
    {
        let items = match value {
            Value::String(_) => std::slice::from_ref(value),
            Value::Array(items) => items,
            _ => return Err(wrong(claim)),
        };
        for item in items {
            let group = item.as_str().ok_or_else(|| wrong(claim))?;
            groups.push(format!("{}{group}", config.groups_prefix));
        }
    }
    for (claim, want) in &config.required_claims {
        let found = claims.get(claim).ok_or_else(|| OidcError::RequiredMissing(claim.clone()))?;
        if found.as_str() != Some(want) {
            return Err(OidcError::RequiredDiffers(claim.clone()));
        }
    }
    let mut user = UserInfo::new(format!("{}{name}", config.username_prefix), groups);
    if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
    }
    Ok(user)
}

#[cfg(test)]
mod tests;
