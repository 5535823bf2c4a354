//! Bootstrap tokens: short-lived credentials with which a machine joins a cluster, stored as Secrets.
//!
//! Upstream: k8s.io/cluster-bootstrap/token/api, pkg/util and `cmd/kubeadm/app/apis/bootstraptoken/v1`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use rand::Rng as _;

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The namespace of the Secrets.
pub const NAMESPACE: &str = "kube-system";
/// The prefix of their names. The identifier of the token follows.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// The group of every bootstrap token, and the prefix of all others.
pub const GROUP: &str = "system:bootstrappers";
/// The group whose requests for certificates of nodes are approved. kubeadm's default for new tokens.
pub const NODE_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

/// The namespace of [`CLUSTER_INFO`], which clients can read without credentials.
pub const PUBLIC_NAMESPACE: &str = "kube-public";
/// The ConfigMap with a kubeconfig without a user: the address of the server, and its authority.
pub const CLUSTER_INFO: &str = "cluster-info";
/// The key of the kubeconfig in [`CLUSTER_INFO`].
pub const CLUSTER_INFO_KEY: &str = "kubeconfig";
/// The prefix of the keys of the signatures in [`CLUSTER_INFO`]. The identifier of a token follows.
pub const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

const ID: &str = "token-id";
const SECRET: &str = "token-secret";
const EXPIRATION: &str = "expiration";
const DESCRIPTION: &str = "description";
const EXTRA_GROUPS: &str = "auth-extra-groups";
const USAGE_PREFIX: &str = "usage-bootstrap-";

/// A permitted use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// Signing [`CLUSTER_INFO`].
    Signing,
    /// Authenticating to the API server.
    Authentication,
}

impl Usage {
    /// All usages.
    pub const ALL: [Usage; 2] = [Usage::Signing, Usage::Authentication];

    /// The name, as `--usages` has it.
    pub fn name(self) -> &'static str {
        match self {
            Usage::Signing => "signing",
            Usage::Authentication => "authentication",
        }
    }
}

/// Why a text or a Secret is not a token. Never contains the secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not a token.
    #[error(
        "a bootstrap token has 6 lowercase letters and digits, a dot, and 16 lowercase letters and digits"
    )]
    Form,
    /// A token cannot have this group.
    #[error(
        "{0:?} cannot be the group of a bootstrap token: it must begin with system:bootstrappers: and consist of lowercase \
         letters, digits, colons and hyphens"
    )]
    Group(String),
    /// The Secret is not a token.
    #[error("Secret {name}: {why}")]
    Secret {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
}

/// A token. The secret is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    /// The public identifier.
    pub id: String,
    secret: String,
    /// When it expires; `None` for never.
    pub expiration: Option<Timestamp>,
    /// Its permitted uses.
    pub usages: Vec<Usage>,
    /// Groups besides [`GROUP`].
    pub groups: Vec<String>,
    /// A description.
    pub description: String,
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl BootstrapToken {
    /// A token without usages that never expires.
    ///
    /// # Errors
    /// The identifier or the secret is malformed.
    pub fn new(id: &str, secret: &str) -> Result<Self, TokenError> {
        if !is_text(id, ID_LENGTH) || !is_text(secret, SECRET_LENGTH) {
            return Err(TokenError::Form);
        }
        Ok(BootstrapToken {
            id: id.to_owned(),
            secret: secret.to_owned(),
            expiration: None,
            usages: Vec::new(),
            groups: Vec::new(),
            description: String::new(),
        })
    }

    /// A token with a random identifier and secret.
    pub fn generate() -> Self {
        BootstrapToken {
            id: random_text(ID_LENGTH),
            secret: random_text(SECRET_LENGTH),
            expiration: None,
            usages: Vec::new(),
            groups: Vec::new(),
            description: String::new(),
        }
    }

    /// The secret part.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The credential: identifier and secret.
    pub fn credential(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The name of the Secret.
    pub fn secret_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.id)
    }

    /// Whether the token may be used in this way at this time.
    pub fn is_valid_for(&self, usage: Usage, now: Timestamp) -> bool {
        self.usages.contains(&usage) && self.expiration.is_none_or(|end| end > now)
    }

    /// Reads a Secret.
    ///
    /// # Errors
    /// The Secret is not a bootstrap token, or a field is malformed.
    pub fn read(secret: &Secret) -> Result<Self, TokenError> {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let wrong = |why: &str| TokenError::Secret { name: name.clone(), why: why.to_owned() };
        if secret.type_.as_deref() != Some(SECRET_TYPE) {
            return Err(wrong("its type is not bootstrap.kubernetes.io/token"));
        }
        let text = |key: &str| entry(secret, key);
        let id = text(ID).unwrap_or_default();
        let token = Self::new(&id, &text(SECRET).unwrap_or_default());
        let token = token.map_err(|_| wrong("token-id or token-secret is malformed"))?;
        if token.secret_name() != name {
            return Err(wrong("its name is not that of its token-id"));
        }
        let expiration = expiration(secret).map_err(|why| wrong(&why))?;
        let is_true =
            |usage: &Usage| text(&format!("{USAGE_PREFIX}{}", usage.name())).as_deref() == Some("true");
        let groups = text(EXTRA_GROUPS).unwrap_or_default();
        Ok(BootstrapToken {
            expiration,
            usages: Usage::ALL.into_iter().filter(is_true).collect(),
            groups: groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect(),
            description: text(DESCRIPTION).unwrap_or_default(),
            ..token
        })
    }

    /// The Secret that stores the token.
    pub fn to_secret(&self) -> Secret {
        let mut data = BTreeMap::new();
        let mut set = |key: &str, value: &str| {
            if !value.is_empty() {
                data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
            }
        };
        set(ID, &self.id);
        set(SECRET, &self.secret);
        set(DESCRIPTION, &self.description);
        let expiration = self.expiration.map(|end| end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        set(EXPIRATION, &expiration.unwrap_or_default());
        for usage in &self.usages {
            set(&format!("{USAGE_PREFIX}{}", usage.name()), "true");
        }
        set(EXTRA_GROUPS, &self.groups.join(","));
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret_name()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }
}

impl FromStr for BootstrapToken {
    type Err = TokenError;

    /// Reads `ID.SECRET`.
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError::Form)?;
        Self::new(id, secret)
    }
}

/// When the token of a Secret expires; `None` for never.
///
/// # Errors
/// The text is not a time.
pub fn expiration(secret: &Secret) -> Result<Option<Timestamp>, String> {
    match entry(secret, EXPIRATION).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| "expiration is not a time in RFC 3339".to_owned()),
    }
}

/// Whether a text is the identifier of a token.
pub fn is_id(text: &str) -> bool {
    is_text(text, ID_LENGTH)
}

/// Checks the group of a token (upstream: `ValidateBootstrapGroupName`).
///
/// # Errors
/// A token cannot have this group.
pub fn check_group(group: &str) -> Result<(), TokenError> {
    let rest = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b':' | b'-');
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let (first, last) = (rest.bytes().next(), rest.bytes().last());
    // The first character may be one of the separators.
    if first.is_some() && rest.len() <= 256 && rest.bytes().all(good) && ends(last) {
        return Ok(());
    }
    Err(TokenError::Group(group.to_owned()))
}

fn entry(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}

fn is_text(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

fn random_text(length: usize) -> String {
    // The generator of a thread is seeded by the system, and cryptographically secure.
    let mut random = rand::rng();
    (0..length).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn token_is_stored_and_read_again() {
        let mut token = BootstrapToken::generate();
        token.expiration = Some("2026-11-27T12:00:00Z".parse().unwrap());
        token.usages = Usage::ALL.to_vec();
        token.groups = vec![NODE_GROUP.to_owned(), "system:bootstrappers:x".to_owned()];
        token.description = "for n1".to_owned();
        assert_eq!(BootstrapToken::read(&token.to_secret()), Ok(token.clone()));
        assert_eq!(token.credential().parse::<BootstrapToken>().map(|read| read.id), Ok(token.id.clone()));
        assert!(!format!("{token:?}").contains(token.secret()));
        assert_ne!(BootstrapToken::generate().credential(), BootstrapToken::generate().credential());
        assert!(token.is_valid_for(Usage::Signing, "2026-11-27T11:59:59Z".parse().unwrap()));
        assert!(!token.is_valid_for(Usage::Signing, "2026-11-27T12:00:00Z".parse().unwrap()));
    }

    #[test]
    fn other_secrets_are_no_tokens() {
        let good = BootstrapToken::new("abcdef", "0123456789abcdef").unwrap().to_secret();
        type Change = fn(&mut Secret);
        let set = |secret: &mut Secret, key: &str, value: &str| {
            secret.data.get_or_insert_default().insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
        };
        let cases: [(&str, Change); 5] = [
            ("its type is not", |secret| secret.type_ = Some("Opaque".to_owned())),
            ("its name", |secret| secret.metadata.name = Some("bootstrap-token-xxxxxx".to_owned())),
            ("malformed", |secret| drop(secret.data.get_or_insert_default().remove(SECRET))),
            ("malformed", |secret| {
                secret.data.get_or_insert_default().insert(ID.to_owned(), ByteString(b"ABCDEF".to_vec()));
            }),
            ("not a time", |secret| {
                secret
                    .data
                    .get_or_insert_default()
                    .insert(EXPIRATION.to_owned(), ByteString(b"soon".to_vec()));
            }),
        ];
        for (want, change) in cases {
            let mut secret = good.clone();
            change(&mut secret);
            let why = BootstrapToken::read(&secret).unwrap_err().to_string();
            assert!(why.contains(want) && !why.contains("0123456789abcdef"), "{why}");
        }
        let mut unused = good;
        set(&mut unused, "usage-bootstrap-signing", "false");
        assert_eq!(BootstrapToken::read(&unused).unwrap().usages, []);
    }

    #[test]
    fn texts_of_another_form_are_refused() {
        for text in
            ["", "abcdef", "abcdef.", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdefg"]
        {
            assert_eq!(text.parse::<BootstrapToken>(), Err(TokenError::Form), "{text:?}");
        }
        for (group, want) in [
            (NODE_GROUP, true),
            ("system:bootstrappers:a", true),
            ("system:bootstrappers", false),
            ("system:bootstrappers:", false),
            ("system:bootstrappers:a-", false),
            ("system:bootstrappers:A", false),
            ("system:masters", false),
        ] {
            assert_eq!(check_group(group).is_ok(), want, "{group}");
        }
    }
}
