//! The claims of tokens that are stored in Secrets of the type `kubernetes.io/service-account-token`. Such a token does
//! not expire; it is valid while the Secret contains it. Pure.
//!
//! Upstream: pkg/serviceaccount/legacy.go.

use serde::{Deserialize, Serialize};

use super::claims::TokenError;

/// The issuer in these tokens.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LegacyClaims {
    /// The issuer.
    pub iss: String,
    /// The namespace of the account and the Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    /// The name of the Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    /// The name of the account.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    /// The UID of the account.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub uid: String,
    /// Subject: the user name.
    pub sub: String,
}

impl LegacyClaims {
    /// The claims of a token of `account` in `secret`.
    pub fn new(namespace: &str, secret: &str, account: &str, uid: &str) -> Self {
        Self {
            iss: LEGACY_ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.to_owned(),
            uid: uid.to_owned(),
            sub: username(namespace, account),
        }
    }

    /// Checks that the claims are complete, and that the subject is the account.
    ///
    /// # Errors
    /// A claim is missing, or the subject is another user.
    pub fn check(&self) -> Result<(), TokenError> {
        let required = [
            ("sub", &self.sub),
            ("namespace", &self.namespace),
            ("secretName", &self.secret),
            ("serviceAccountName", &self.account),
            ("serviceAccountUID", &self.uid),
        ];
        if let Some((name, _)) = required.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(TokenError::Gone(format!("{name} claim is missing")));
        }
        match self.sub == username(&self.namespace, &self.account) {
            true => Ok(()),
            false => Err(TokenError::Gone("sub claim is invalid".to_owned())),
        }
    }
}

fn username(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::service_account::claims::{calls_itself, sign, verify, verify_as};
    use crate::service_account::key::{SigningKey, generate};

    #[test]
    fn token_has_upstream_claims() {
        let key = SigningKey::from_pkcs8(&generate().unwrap()).unwrap();
        let claims = LegacyClaims::new("n", "t", "s", "u");
        let token = sign(&key, &claims).unwrap();
        assert!(calls_itself(&token, LEGACY_ISSUER));
        let keys = [key.public().clone()];
        assert_eq!(verify_as::<LegacyClaims>(&keys, &token).unwrap().claims, claims);
        assert_eq!(verify(&keys, &token), Err(TokenError::Forged), "it has no audience and no expiry");
        let json = r#"{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":"n","kubernetes.io/serviceaccount/secret.name":"t","kubernetes.io/serviceaccount/service-account.name":"s","kubernetes.io/serviceaccount/service-account.uid":"u","sub":"system:serviceaccount:n:s"}"#;
        assert_eq!(serde_json::to_string(&claims).unwrap(), json);
    }

    #[test]
    fn incomplete_claims_are_rejected() {
        let good = LegacyClaims::new("n", "t", "s", "u");
        assert_eq!(good.check(), Ok(()));
        let none = String::new;
        for (case, claims, want) in [
            ("1 no subject", LegacyClaims { sub: none(), ..good.clone() }, "sub claim is missing"),
            (
                "2 no namespace",
                LegacyClaims { namespace: none(), ..good.clone() },
                "namespace claim is missing",
            ),
            ("3 no Secret", LegacyClaims { secret: none(), ..good.clone() }, "secretName claim is missing"),
            (
                "4 no account",
                LegacyClaims { account: none(), ..good.clone() },
                "serviceAccountName claim is missing",
            ),
            ("5 no UID", LegacyClaims { uid: none(), ..good.clone() }, "serviceAccountUID claim is missing"),
            (
                "6 another subject",
                LegacyClaims { sub: "system:serviceaccount:n:other".to_owned(), ..good },
                "sub claim is invalid",
            ),
        ] {
            assert_eq!(claims.check(), Err(TokenError::Gone(want.to_owned())), "{case}");
        }
    }
}
