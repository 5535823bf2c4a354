//! What the verification of a token in a Secret reads of the Secret and its account.
//!
//! Users make both as large as any object, and each request with the token needs them. So what requires decoding is remembered until
//! one of them changes.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_auth::SecretDigest;
use orlop_store::Revision;
use parking_lot::Mutex;

use crate::encode::head::ObjectHead;

/// Maximum number of Secrets that are remembered.
const MAX_REMEMBERED: usize = 1000;

/// The most bytes of an account whose list of Secrets is read: about a thousand names. What a longer list contains only decides about a
/// warning and an annotation in the audit log, and with many Secrets each request would have to read it.
const MAX_LISTING: usize = 64 << 10;

/// The remembered contents, by the key of the Secret.
#[derive(Default)]
pub(super) struct TokenSecrets(Mutex<HashMap<String, Remembered>>);

struct Remembered {
    /// The revisions of the Secret and of its account.
    revisions: (Revision, Option<Revision>),
    content: SecretContent,
}

/// What is decoded of a Secret and its account.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecretContent {
    /// The digest of the token in the Secret; `None` if it contains none.
    pub(super) token: Option<SecretDigest>,
    /// Whether the account lists the Secret, as controllers of old versions did for the Secrets that they created. False for accounts above
    /// [`MAX_LISTING`].
    pub(super) is_auto_generated: bool,
}

impl TokenSecrets {
    /// The content of a Secret and its account.
    pub(super) fn content(
        &self,
        secret: &ObjectHead,
        name: &str,
        account: Option<&ObjectHead>,
    ) -> SecretContent {
        let revision = |head: &ObjectHead| head.record().mod_revision;
        let revisions = (revision(secret), account.map(revision));
        let key = secret.record().key.as_str();
        if let Some(known) = self.0.lock().get(key).filter(|known| known.revisions == revisions) {
            return known.content;
        }
        let content = SecretContent::read(secret, name, account);
        let mut all = self.0.lock();
        if all.len() >= MAX_REMEMBERED {
            all.clear();
        }
        all.insert(key.to_owned(), Remembered { revisions, content });
        content
    }
}

impl SecretContent {
    fn read(secret: &ObjectHead, name: &str, account: Option<&ObjectHead>) -> Self {
        let token = secret.nested_member("data", "token").unwrap_or_default();
        let token = STANDARD.decode(token.as_str().unwrap_or_default()).unwrap_or_default();
        let read = account.filter(|account| account.record().value.len() <= MAX_LISTING);
        let listed = read.and_then(|account| account.member("secrets")).unwrap_or_default();
        SecretContent {
            token: (!token.is_empty()).then(|| SecretDigest::of(&token)),
            is_auto_generated: listed.as_array().into_iter().flatten().any(|one| one["name"] == name),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::encode::head::testing::{head, head_at};
    use crate::registry::by_resource;

    fn secret(token: &str, revision: u64) -> ObjectHead {
        let object =
            json!({"metadata": {"namespace": "n", "name": "t"}, "data": {"token": STANDARD.encode(token)}});
        head_at(by_resource("", "v1", "secrets").expect("a kind"), object, revision)
    }

    fn account(secrets: Value) -> ObjectHead {
        head("serviceaccounts", json!({"metadata": {"namespace": "n", "name": "s"}, "secrets": secrets}))
    }

    #[test]
    fn auto_generated_secrets_are_listed_in_the_account() {
        let listing = account(json!([{"name": "a"}]));
        for (account, name, want) in
            [(Some(&listing), "a", true), (Some(&listing), "b", false), (None, "a", false)]
        {
            let content = TokenSecrets::default().content(&secret("x", 1), name, account);
            assert_eq!(content.is_auto_generated, want, "{name}");
        }
    }

    #[test]
    fn long_lists_of_an_account_are_not_read() {
        let names =
            |count: usize| -> Value { (0..count).map(|n| json!({"name": format!("s{n}")})).collect() };
        for (names, want) in [(names(1_000), true), (names(10_000), false)] {
            let account = account(names);
            let content = TokenSecrets::default().content(&secret("x", 1), "s7", Some(&account));
            assert_eq!(content.is_auto_generated, want, "{} bytes", account.record().value.len());
        }
    }

    #[test]
    fn content_is_read_again_after_a_change() {
        let secrets = TokenSecrets::default();
        let is_token = |secret: &ObjectHead, account: Option<&ObjectHead>, token: &str| {
            let stored = secrets.content(secret, "t", account).token;
            stored.is_some_and(|stored| stored.is_same(&SecretDigest::of(token.as_bytes())))
        };
        assert!(is_token(&secret("x", 1), None, "x"));
        assert!(is_token(&secret("y", 1), None, "x"), "remembered for this revision");
        assert!(is_token(&secret("y", 2), None, "y"));
        let account = account(json!([{"name": "t"}]));
        assert!(!secrets.content(&secret("y", 2), "t", None).is_auto_generated);
        assert!(secrets.content(&secret("y", 2), "t", Some(&account)).is_auto_generated);
        assert!(!is_token(&secret("", 3), None, ""), "an empty Secret contains no token");
    }
}
