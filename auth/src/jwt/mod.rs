//! JSON Web Tokens in compact form (RFC 7515, RFC 7519). The issuer of service account tokens and OpenID Connect share this module.
//!
//! [`algorithm`] lists the supported signatures, [`public_key`] verifies them. The verifier chooses the algorithm, never the token.

pub mod algorithm;
pub mod public_key;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The parts of a token. Nothing is verified.
pub struct UnverifiedToken<'t> {
    /// The signed bytes: header and claims.
    pub message: &'t str,
    /// The algorithm that the header names.
    pub algorithm: String,
    /// The id of the key that the header names; may be empty.
    pub key_id: String,
    /// The signature.
    pub signature: Vec<u8>,
    claims: &'t str,
}

/// The members of a header that the verifier reads.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that the verifier must understand. It understands none.
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

impl<'t> UnverifiedToken<'t> {
    /// Splits a token; `None` if it has another form.
    pub fn parse(token: &'t str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let header: Header = decode(header)?;
        if header.crit.is_some() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(UnverifiedToken { message, algorithm: header.alg, key_id: header.kid, signature, claims })
    }

    /// The claims; `None` if they have another form.
    pub fn claims<T: DeserializeOwned>(&self) -> Option<T> {
        decode(self.claims)
    }
}

/// The issuer that a token names. Verifies nothing.
pub fn unverified_issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Issuer {
        iss: String,
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    decode::<Issuer>(claims).map(|issuer| issuer.iss)
}

fn decode<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.AQ", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn parts_are_read() {
        let text = token(r#"{"alg":"ES256","kid":"k"}"#, r#"{"iss":"i","sub":"s"}"#);
        let parsed = UnverifiedToken::parse(&text).expect("a token");
        assert_eq!((parsed.algorithm.as_str(), parsed.key_id.as_str()), ("ES256", "k"));
        assert_eq!(parsed.signature, [1]);
        assert_eq!(parsed.claims::<serde_json::Value>(), Some(serde_json::json!({"iss": "i", "sub": "s"})));
        assert_eq!(unverified_issuer(&text).as_deref(), Some("i"));
    }

    #[test]
    fn damaged_tokens_are_rejected() {
        let deep = format!(r#"{{"alg":"ES256","x":{}}}"#, "[".repeat(10_000));
        for (case, text) in [
            ("1 empty", String::new()),
            ("2 two parts", "e30.e30".to_owned()),
            ("3 four parts", "e30.e30.e30.e30".to_owned()),
            ("4 no Base64", "!.!.!".to_owned()),
            ("5 padded", "e30=.e30=.AQ==".to_owned()),
            ("6 no algorithm", token("{}", "{}")),
            ("7 no object", token("[]", "{}")),
            ("8 deep", token(&deep, "{}")),
            ("9 a critical extension", token(r#"{"alg":"ES256","crit":["b64"],"b64":false}"#, "{}")),
            ("10 not UTF-8", token("\u{fffd}", "{}")),
        ] {
            assert!(UnverifiedToken::parse(&text).is_none(), "{case}");
        }
        assert_eq!(unverified_issuer(&token("{}", r#"{"iss":1}"#)), None);
        assert_eq!(unverified_issuer(&token("{}", &"[".repeat(10_000))), None);
    }
}
