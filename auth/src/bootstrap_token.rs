//! Bootstrap tokens: `ID.SECRET`, stored in Secrets of the type `bootstrap.kubernetes.io/token` in `kube-system`.
//!
//! Upstream: `plugin/pkg/auth/authenticator/token/bootstrap`, cluster-bootstrap `token/util`, `util/secrets`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use orlop_api::object::Object;

use crate::UserInfo;
use crate::constant_time::SecretDigest;

/// The namespace of the Secrets.
pub const NAMESPACE: &str = "kube-system";
/// The type of the Secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const SECRET_PREFIX: &str = "bootstrap-token-";
const USER_PREFIX: &str = "system:bootstrap:";
const DEFAULT_GROUP: &str = "system:bootstrappers";
const GROUP_PREFIX: &str = "system:bootstrappers:";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
/// Maximum length of a group after its prefix.
const MAX_GROUP: usize = 256;

/// The parts of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BootstrapToken<'t> {
    id: &'t str,
    secret: &'t str,
}

impl std::fmt::Debug for BootstrapToken<'_> {
    /// Without the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<'t> BootstrapToken<'t> {
    /// Splits a token; `None` for tokens of another form.
    pub fn parse(token: &'t str) -> Option<Self> {
        let (id, secret) = token.split_once('.')?;
        let is_word = |text: &str, length| {
            text.len() == length
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        (is_word(id, ID_LENGTH) && is_word(secret, SECRET_LENGTH)).then_some(BootstrapToken { id, secret })
    }

    /// The token without its secret part.
    pub fn fingerprint(&self) -> BootstrapFingerprint {
        BootstrapFingerprint { id: self.id.to_owned(), secret: SecretDigest::of(self.secret.as_bytes()) }
    }
}

/// Recognizes a token, and does not contain its secret part.
#[derive(Clone, Debug)]
pub struct BootstrapFingerprint {
    id: String,
    secret: SecretDigest,
}

impl BootstrapFingerprint {
    /// The name of the token's Secret.
    pub fn secret_name(&self) -> String {
        format!("{SECRET_PREFIX}{}", self.id)
    }

    /// The user of the token according to its Secret; `None` if the token is not valid at this time.
    pub fn user(&self, secret: &Object, now: Timestamp) -> Option<UserInfo> {
        let is_deleted = !secret.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        if is_deleted || secret.str_at(&["type"]) != SECRET_TYPE {
            return None;
        }
        let data = |name: &str| {
            let bytes = STANDARD.decode(secret.str_at(&["data", name])).ok()?;
            String::from_utf8(bytes).ok()
        };
        let expected = data("token-secret").filter(|expected| !expected.is_empty())?;
        if !self.secret.matches(expected.as_bytes())
            || data("token-id").as_deref() != Some(&self.id)
            || data("usage-bootstrap-authentication").as_deref() != Some("true")
            || has_expired(&data("expiration").unwrap_or_default(), now)
        {
            return None;
        }
        let groups = groups(&data("auth-extra-groups").unwrap_or_default())?;
        Some(UserInfo::new(format!("{USER_PREFIX}{}", self.id), groups))
    }
}

/// Whether a token with this expiration has ended. An expiration that cannot be read has passed, as upstream.
fn has_expired(expiration: &str, now: Timestamp) -> bool {
    if expiration.is_empty() {
        return false;
    }
    expiration.parse::<Timestamp>().map_or(true, |end| end <= now)
}

/// The default group and the extra groups, sorted; `None` if one of them has a wrong name.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = vec![DEFAULT_GROUP.to_owned()];
    if !extra.is_empty() {
        for group in extra.split(',') {
            if !is_group(group) {
                return None;
            }
            groups.push(group.to_owned());
        }
    }
    groups.sort();
    groups.dedup();
    Some(groups)
}

/// Whether a bootstrap token may have this group.
fn is_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix(GROUP_PREFIX) else { return false };
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= MAX_GROUP
        && name.bytes().all(|byte| is_letter(byte) || byte == b':' || byte == b'-')
        && name.bytes().last().is_some_and(is_letter)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    #[test]
    fn only_the_form_of_bootstrap_tokens_is_accepted() {
        for (token, want) in [
            (TOKEN, true),
            ("abcdef.0123456789abcde", false),
            ("abcdef.0123456789abcdef0", false),
            ("abcde.0123456789abcdef", false),
            ("abcdeF.0123456789abcdef", false),
            ("abcdef.0123456789abcde\u{fc}", false),
            ("abcdef0123456789abcdef", false),
            ("abcdef.0123456789.abcdef", false),
            ("../../.0123456789abcdef", false),
            ("", false),
        ] {
            assert_eq!(BootstrapToken::parse(token).is_some(), want, "{token}");
        }
        let token = BootstrapToken::parse(TOKEN).map(|token| format!("{token:?}"));
        assert_eq!(token.as_deref(), Some("BootstrapToken { id: \"abcdef\", .. }"));
    }

    /// A Secret whose data differ from those of a valid token.
    fn secret(changes: &[(&str, &str)]) -> Object {
        let mut data = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        });
        for (name, value) in changes {
            data[*name] = json!(value);
        }
        let data: Value = data
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), STANDARD.encode(value.as_str().unwrap_or_default()).into()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        Object::from_value(json!({"metadata": {}, "type": SECRET_TYPE, "data": data}))
    }

    #[test]
    fn secret_determines_the_user_of_its_token() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().expect("a time");
        let token = BootstrapToken::parse(TOKEN).expect("a token").fingerprint();
        let default = "system:bootstrappers system:authenticated";
        for (case, changes, want) in [
            ("1 valid", &[][..], Some(default)),
            ("2 another secret", &[("token-secret", "0123456789abcdeg")], None),
            ("3 no secret", &[("token-secret", "")], None),
            ("4 another id", &[("token-id", "abcdeg")], None),
            ("5 another usage", &[("usage-bootstrap-authentication", "false")], None),
            ("6 expires later", &[("expiration", "2026-11-26T12:00:01Z")], Some(default)),
            ("7 expired", &[("expiration", "2026-11-26T12:00:00Z")], None),
            ("8 no time", &[("expiration", "soon")], None),
            ("9 offset", &[("expiration", "2026-11-26T13:00:01+01:00")], Some(default)),
            (
                "10 groups",
                &[("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a:1")],
                Some(
                    "system:bootstrappers system:bootstrappers:a:1 system:bootstrappers:b system:authenticated",
                ),
            ),
            ("11 another prefix", &[("auth-extra-groups", "system:masters")], None),
            ("12 one of two is wrong", &[("auth-extra-groups", "system:bootstrappers:a,system:nodes")], None),
            ("13 wrong end", &[("auth-extra-groups", "system:bootstrappers:a-")], None),
            ("14 blank", &[("auth-extra-groups", "system:bootstrappers:a, system:bootstrappers:b")], None),
        ] {
            let user = token.user(&secret(changes), now);
            assert_eq!(user.as_ref().map(|user| user.groups.join(" ")).as_deref(), want, "{case}");
            assert!(user.is_none_or(|user| user.username == "system:bootstrap:abcdef"), "{case}");
        }
        let mut opaque = secret(&[]);
        opaque.set(&["type"], "Opaque");
        assert_eq!(token.user(&opaque, now), None, "another type");
        let mut deleted = secret(&[]);
        deleted.set(&["metadata", "deletionTimestamp"], "2026-11-26T11:59:59Z");
        assert_eq!(token.user(&deleted, now), None, "terminating");
    }
}
