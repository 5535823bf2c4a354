//! The claims of service account tokens: encoding, verification and validity. Pure.
//!
//! A token is a JSON Web Token (RFC 7519) in upstream's shape (pkg/serviceaccount/claims.go).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::key::SigningKey;
use crate::jwt::public_key::PublicKey;
use crate::jwt::{self, UnverifiedToken};

/// Tolerated clock difference in seconds.
const LEEWAY: i64 = 60;

/// An object, by name and uid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The name.
    pub name: String,
    /// The UID; empty in tokens of other servers.
    #[serde(default)]
    pub uid: String,
}

/// The account of a token, and the objects it is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The namespace of the account.
    pub namespace: String,
    /// The node that the token is bound to, or that runs its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<ObjectRef>,
    /// The pod that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<ObjectRef>,
    /// The secret that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectRef>,
    /// The account.
    pub serviceaccount: ObjectRef,
    /// From this time on, the use of the token is recorded as stale: its validity was extended. Seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// The claims of a token. Times are seconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Audiences.
    pub aud: Vec<String>,
    /// Expiration time.
    pub exp: i64,
    /// Time of issue.
    pub iat: i64,
    /// Issuer.
    pub iss: String,
    /// Unique id.
    pub jti: String,
    /// The account and the bound objects.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Subject,
    /// Start of validity.
    pub nbf: i64,
    /// Subject: the user name.
    pub sub: String,
}

/// Why a token of this issuer is invalid. The texts are upstream's where it has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// None of the keys has signed it, or the claims have another shape.
    #[error("the token is not signed by this server")]
    Forged,
    /// It has expired.
    #[error("service account token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("service account token is not valid yet")]
    NotYet,
    /// Its time of issue has not been reached.
    #[error("service account token claims could not be validated due to unexpected validation error")]
    IssuedLater,
    /// It is for other audiences.
    #[error("token audiences {} is invalid for the target audiences {}", shown(given), shown(wanted))]
    Audience {
        /// The audiences of the token.
        given: Vec<String>,
        /// The audiences of the caller.
        wanted: Vec<String>,
    },
    /// The account or a bound object does not exist any more, or has another UID.
    #[error("{0}")]
    Gone(String),
    /// The Secret with the token is marked as invalid.
    #[error("{why}")]
    Invalidated {
        /// Upstream's text.
        why: String,
        /// The name and the namespace of the Secret, as upstream's audit annotation shows them.
        secret: String,
    },
}

/// Maximum number of audiences in an error; a client chooses how many there are.
const SHOWN: usize = 10;

fn shown(audiences: &[String]) -> String {
    match audiences.len().checked_sub(SHOWN) {
        None | Some(0) => format!("{audiences:?}"),
        Some(more) => format!("{:?} and {more} more", &audiences[..SHOWN]),
    }
}

/// Signs a token with these claims; none if the system returns no random numbers.
pub fn sign<C: Serialize>(key: &SigningKey, claims: &C) -> Option<String> {
    let public = key.public();
    let header = json!({"alg": public.account_algorithm().name(), "kid": public.id()}).to_string();
    let claims = serde_json::to_vec(claims).ok()?;
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = key.sign(message.as_bytes())?;
    Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Whether a token names this issuer. Verifies nothing.
pub fn calls_itself(token: &str, issuer: &str) -> bool {
    jwt::unverified_issuer(token).is_some_and(|named| named == issuer)
}

/// A token with a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken<'k, C = Claims> {
    /// Its claims, which are not checked.
    pub claims: C,
    /// The key that has signed it.
    pub key: &'k PublicKey,
}

/// Finds the key that has signed a token.
///
/// # Errors
/// None of the keys has signed it.
pub fn verify<'k>(
    keys: impl IntoIterator<Item = &'k PublicKey>,
    token: &str,
) -> Result<VerifiedToken<'k>, TokenError> {
    verify_as(keys, token)
}

/// Like [`verify`], for a token with other claims.
///
/// # Errors
/// None of the keys has signed it.
pub fn verify_as<'k, C: DeserializeOwned>(
    keys: impl IntoIterator<Item = &'k PublicKey>,
    token: &str,
) -> Result<VerifiedToken<'k, C>, TokenError> {
    let token = UnverifiedToken::parse(token).ok_or(TokenError::Forged)?;
    let has_signed = |key: &&PublicKey| {
        // The token must not choose the algorithm.
        let algorithm = key.account_algorithm();
        (token.key_id.is_empty() || token.key_id == key.id())
            && token.algorithm == algorithm.name()
            && key.verify(algorithm, token.message.as_bytes(), &token.signature)
    };
    let key = keys.into_iter().find(has_signed).ok_or(TokenError::Forged)?;
    Ok(VerifiedToken { claims: token.claims().ok_or(TokenError::Forged)?, key })
}

/// For how many seconds the extended validity of a token has been in use; none if its validity was not extended.
/// Upstream: `pkg/serviceaccount/claims.go`.
pub fn stale_seconds(claims: &Claims, now: i64) -> Option<i64> {
    let stale = now.saturating_sub(claims.kubernetes.warnafter.filter(|time| *time != 0)?);
    (stale > 0).then_some(stale)
}

/// Checks the claims at a time in seconds since the epoch, and returns the audiences that both sides name.
///
/// # Errors
/// The token is not valid at this time or for these audiences.
pub fn check(claims: &Claims, now: i64, wanted: &[String]) -> Result<Vec<String>, TokenError> {
    if now.saturating_sub(LEEWAY) > claims.exp {
        return Err(TokenError::Expired);
    }
    if now.saturating_add(LEEWAY) < claims.nbf {
        return Err(TokenError::NotYet);
    }
    // Upstream's library does not accept such a token either: one of the clocks is wrong.
    if now.saturating_add(LEEWAY) < claims.iat {
        return Err(TokenError::IssuedLater);
    }
    let given: HashSet<&String> = claims.aud.iter().collect();
    let both: Vec<String> = wanted.iter().filter(|one| given.contains(one)).cloned().collect();
    if both.is_empty() {
        return Err(TokenError::Audience { given: claims.aud.clone(), wanted: wanted.to_vec() });
    }
    Ok(both)
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_apimachinery::thread_time::assert_linear;
    use serde_json::Value;

    use super::*;
    use crate::service_account::key::generate;

    fn test_key() -> SigningKey {
        SigningKey::from_pkcs8(&generate().unwrap()).unwrap()
    }

    pub(in crate::service_account) fn claims() -> Claims {
        Claims {
            aud: vec!["a".to_owned(), "b".to_owned()],
            exp: 2000,
            iat: 1000,
            iss: "https://i".to_owned(),
            jti: "j".to_owned(),
            kubernetes: Subject {
                namespace: "n".to_owned(),
                node: None,
                pod: None,
                secret: None,
                serviceaccount: ObjectRef { name: "s".to_owned(), uid: "u".to_owned() },
                warnafter: None,
            },
            nbf: 1000,
            sub: "system:serviceaccount:n:s".to_owned(),
        }
    }

    #[test]
    fn signed_token_is_verified() {
        let key = test_key();
        let token = sign(&key, &claims()).unwrap();
        let keys = [key.public().clone()];
        assert_eq!(verify(&keys, &token), Ok(VerifiedToken { claims: claims(), key: &keys[0] }));
        assert!(calls_itself(&token, "https://i") && !calls_itself(&token, "https://j"));
        let shown: Value = UnverifiedToken::parse(&token).unwrap().claims().unwrap();
        let private = json!({"namespace": "n", "serviceaccount": {"name": "s", "uid": "u"}});
        assert_eq!(shown["kubernetes.io"], private);
    }

    #[test]
    fn forged_tokens_are_rejected() {
        let key = test_key();
        let token = sign(&key, &claims()).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let other = Claims { sub: "system:admin".to_owned(), ..claims() };
        let others = sign(&test_key(), &other).unwrap();
        let other_claims = others.split('.').nth(1).unwrap();
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let hmac = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
        // An attacker knows the public key, and signs with it as the secret of an HMAC.
        let by_public_key = {
            let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key.public().spki());
            let message = format!("{hmac}.{}", parts[1]);
            let tag = ring::hmac::sign(&secret, message.as_bytes());
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
        };
        let signed = |header: &str| {
            let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), parts[1]);
            let signature = key.sign(message.as_bytes()).unwrap();
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
        };
        let other_id = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, test_key().public().id());
        assert!(verify(&[key.public().clone()], &signed(r#"{"alg":"ES256"}"#)).is_ok(), "no key id");
        for (case, forged) in [
            ("1 another's key", others.clone()),
            ("2 other claims", format!("{}.{other_claims}.{}", parts[0], parts[2])),
            ("3 no algorithm", format!("{none}.{}.", parts[1])),
            ("4 no algorithm, a signature", format!("{none}.{}.{}", parts[1], parts[2])),
            ("5 another algorithm", format!("{hmac}.{}.{}", parts[1], parts[2])),
            ("6 no signature", format!("{}.{}.", parts[0], parts[1])),
            ("7 half a signature", token[..token.len() - 8].to_owned()),
            ("8 no token", "x".to_owned()),
            ("9 nothing", String::new()),
            ("10 the public key as a secret", by_public_key),
            ("11 the id of another key", signed(&other_id)),
            ("12 the name of another algorithm", signed(r#"{"alg":"RS256"}"#)),
            ("13 a critical extension", signed(r#"{"alg":"ES256","crit":["exp"]}"#)),
            ("14 a line break", format!("{token}\n")),
            ("15 a blank", format!(" {token}")),
            ("16 a NUL", token.replacen('.', "\0.", 1)),
            ("17 padding", format!("{token}=")),
        ] {
            let keys = [key.public().clone()];
            assert_eq!(verify(&keys, &forged), Err(TokenError::Forged), "{case}");
        }
    }

    #[test]
    fn every_changed_byte_and_every_prefix_is_rejected() {
        let key = test_key();
        let keys = [key.public().clone()];
        let token = sign(&key, &claims()).unwrap();
        for length in 0..token.len() {
            assert_eq!(verify(&keys, &token[..length]), Err(TokenError::Forged), "cut at {length}");
        }
        for position in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(verify(&keys, &changed), Err(TokenError::Forged), "{position}");
        }
    }

    #[test]
    fn validity_depends_on_time_and_audience() {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        let audience =
            |wanted: &[&str]| TokenError::Audience { given: list(&["a", "b"]), wanted: list(wanted) };
        for (case, now, wanted, want) in [
            ("1 good", 1500, &["b", "c"][..], Ok(list(&["b"]))),
            ("2 to the end", 2060, &["a"], Ok(list(&["a"]))),
            ("3 over", 2061, &["a"], Err(TokenError::Expired)),
            ("4 from the beginning", 940, &["a"], Ok(list(&["a"]))),
            ("5 too early", 939, &["a"], Err(TokenError::NotYet)),
            ("6 another audience", 1500, &["c"], Err(audience(&["c"]))),
            ("7 no audience", 1500, &[], Err(audience(&[]))),
        ] {
            assert_eq!(check(&claims(), now, &list(wanted)), want, "{case}");
        }
        for (iat, want) in [(1560, Ok(list(&["a"]))), (1561, Err(TokenError::IssuedLater))] {
            assert_eq!(check(&Claims { iat, ..claims() }, 1500, &list(&["a"])), want, "issued at {iat}");
        }
        let text = "token audiences [\"a\", \"b\"] is invalid for the target audiences [\"c\"]";
        assert_eq!(audience(&["c"]).to_string(), text);
    }

    #[test]
    fn extended_validity_is_stale_after_the_requested_one() {
        for (warnafter, now, want) in
            [(None, 5000, None), (Some(0), 5000, None), (Some(4000), 4000, None), (Some(4000), 4007, Some(7))]
        {
            let kubernetes = Subject { warnafter, ..claims().kubernetes };
            assert_eq!(stale_seconds(&Claims { kubernetes, ..claims() }, now), want, "{warnafter:?} {now}");
        }
    }

    #[test]
    fn error_lists_the_first_audiences() {
        let list = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        let error = TokenError::Audience { given: list(10), wanted: list(12) };
        let ten = r#"["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]"#;
        let text = format!("token audiences {ten} is invalid for the target audiences {ten} and 2 more");
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn many_audiences_cost_linear_time() {
        let input = |n: usize| {
            let aud: Vec<String> = (0..n).map(|n| format!("a{n}")).collect();
            let wanted: Vec<String> = (0..n).map(|n| format!("b{n}")).collect();
            (Claims { aud, ..claims() }, wanted)
        };
        assert_linear("audiences", 1000, input, |(claims, wanted)| check(claims, 1500, wanted).is_err());
    }
}
