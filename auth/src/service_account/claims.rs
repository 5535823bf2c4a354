//! The claims of service account tokens: encoding, verification and validity. Pure.
//!
//! A token is a JSON Web Token (RFC 7519) in upstream's shape (pkg/serviceaccount/claims.go).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::key::SigningKey;

const ALGORITHM: &str = "ES256";
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
    /// The signature is not of this key, or the claims have another shape.
    #[error("the token is not signed by this server")]
    Forged,
    /// It has expired.
    #[error("service account token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("service account token is not valid yet")]
    NotYet,
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
pub fn sign(key: &SigningKey, claims: &Claims) -> Option<String> {
    let header = json!({"alg": ALGORITHM, "kid": key.public().id()}).to_string();
    let claims = serde_json::to_vec(claims).ok()?;
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = key.sign(message.as_bytes())?;
    Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Whether a token names this issuer. Verifies nothing.
pub fn calls_itself(token: &str, issuer: &str) -> bool {
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    decode(claims).is_some_and(|claims| claims.get("iss").and_then(Value::as_str) == Some(issuer))
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// The claims of a token. `is_signed` decides whether a signature is that of a message.
///
/// # Errors
/// The signature is not valid, or the claims have another shape.
pub fn verify(token: &str, is_signed: impl FnOnce(&[u8], &[u8]) -> bool) -> Result<Claims, TokenError> {
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Forged)?;
    let (header, claims) = message.split_once('.').ok_or(TokenError::Forged)?;
    let header = decode(header).ok_or(TokenError::Forged)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Forged)?;
    // The token must not choose the algorithm.
    if header.get("alg").and_then(Value::as_str) != Some(ALGORITHM)
        || !is_signed(message.as_bytes(), &signature)
    {
        return Err(TokenError::Forged);
    }
    decode(claims).and_then(|claims| serde_json::from_value(claims).ok()).ok_or(TokenError::Forged)
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
    let given: HashSet<&String> = claims.aud.iter().collect();
    let both: Vec<String> = wanted.iter().filter(|one| given.contains(one)).cloned().collect();
    if both.is_empty() {
        return Err(TokenError::Audience { given: claims.aud.clone(), wanted: wanted.to_vec() });
    }
    Ok(both)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_apimachinery::thread_time::assert_linear;

    use super::*;
    use crate::service_account::key::generate;

    fn test_key() -> SigningKey {
        SigningKey::from_pkcs8(&generate().unwrap()).unwrap()
    }

    fn claims() -> Claims {
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
            },
            nbf: 1000,
            sub: "system:serviceaccount:n:s".to_owned(),
        }
    }

    #[test]
    fn signed_token_is_verified() {
        let key = test_key();
        let token = sign(&key, &claims()).unwrap();
        let is_signed = |message: &[u8], signature: &[u8]| key.public().verify(message, signature);
        assert_eq!(verify(&token, is_signed), Ok(claims()));
        assert!(calls_itself(&token, "https://i") && !calls_itself(&token, "https://j"));
        let shown = decode(token.split('.').nth(1).unwrap()).unwrap();
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
        ] {
            let is_signed = |message: &[u8], signature: &[u8]| key.public().verify(message, signature);
            assert_eq!(verify(&forged, is_signed), Err(TokenError::Forged), "{case}");
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
        let text = "token audiences [\"a\", \"b\"] is invalid for the target audiences [\"c\"]";
        assert_eq!(audience(&["c"]).to_string(), text);
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
