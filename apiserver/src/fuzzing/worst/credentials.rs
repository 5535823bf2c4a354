//! Tokens, documents of issuers, and files of keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{DEPTH, Size, nested, nested_objects};

impl Size {
    pub(super) fn bearer_tokens(self) -> Vec<String> {
        let half = self.0 / 2;
        let token = |header: &str, claims: &str, signature: usize| {
            let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
            format!("{header}.{claims}.{}", "A".repeat(signature / 4 * 4))
        };
        let header = r#"{"alg":"ES256"}"#;
        let items = self.of(half, |n| format!(r#""k{n}":{n}"#));
        vec![
            ".".repeat(self.0),
            "a".repeat(self.0),
            token(header, "{}", self.0),
            token(header, &format!(r#"{{"iss":"https://i",{items}}}"#), 86),
            token(header, &format!(r#"{{"iss":"{}"}}"#, "\\\\".repeat(half / 2)), 86),
            token(header, &nested(half, ""), 86),
            token(header, &nested_objects(half / 6, "1"), 86),
            token(&format!(r#"{{"alg":"ES256","kid":"{}"}}"#, "k".repeat(half)), "{}", 86),
            token(&format!(r#"{{"alg":"ES256","x":{}}}"#, nested(half / 2, "1")), "{}", 86),
        ]
    }

    pub(super) fn issuer_documents(self) -> Vec<String> {
        let claims = |more: &str| format!(r#"{{"iss":"https://i","aud":"c","exp":60,"sub":"a",{more}}}"#);
        let groups = self.fill(|n| format!("\"{n}\""));
        let audiences = self.fill(|_| "\"x\"".to_owned());
        let keys = self.fill(|_| r#"{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}"#.to_owned());
        vec![
            claims(&format!(r#""groups":[{groups}]"#)),
            format!(r#"{{"iss":"https://i","aud":[{audiences}]}}"#),
            claims(&self.fill(|n| format!(r#""k{n}":1"#))),
            claims(&format!(r#""jti":"{}""#, "j".repeat(self.0))),
            claims(&format!(r#""groups":{}"#, nested(DEPTH, "1"))),
            format!(r#"{{"keys":[{keys}]}}"#),
            format!(r#"{{"keys":[{{"kty":"RSA","n":"{}","e":"AQAB"}}]}}"#, "A".repeat(self.0 / 4 * 4)),
            nested(self.0 / 2, ""),
        ]
    }

    pub(super) fn certificates(self) -> Vec<String> {
        let block =
            |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let many = |label: &str, body: &str| {
            let one = block(label, body);
            one.repeat(self.0 / one.len())
        };
        vec![
            "-----BEGIN ".repeat(self.0 / 11),
            block("PUBLIC KEY", &"A".repeat(self.0 / 4 * 4)),
            block("PRIVATE KEY", &"A".repeat(self.0 / 4 * 4)),
            many("PRIVATE KEY", "AAAA"),
            many("EC PARAMETERS", "AAAA"),
            many("", ""),
            block("K", &format!("a:{}", "\n".repeat(self.0))),
            "0\u{1}".repeat(self.0 / 2),
            "0".repeat(self.0),
        ]
    }
}
