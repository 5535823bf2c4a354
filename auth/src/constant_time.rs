//! Comparison of secrets, in a time that does not depend on the position of the first difference.

use sha2::{Digest as _, Sha256};

/// The digest of a secret.
pub(crate) fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// The digest of a secret: it recognizes the secret and does not contain it.
#[derive(Clone, Copy)]
pub struct SecretDigest(pub(crate) [u8; 32]);

impl SecretDigest {
    /// The digest of a secret.
    pub fn of(secret: &[u8]) -> Self {
        SecretDigest(digest(secret))
    }

    /// Whether this is the digest of a secret.
    pub fn matches(&self, secret: &[u8]) -> bool {
        is_same_digest(&self.0, &digest(secret))
    }

    /// Whether both are digests of the same secret.
    pub fn is_same(&self, other: &SecretDigest) -> bool {
        is_same_digest(&self.0, &other.0)
    }
}

impl std::fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretDigest")
    }
}

/// Whether two digests are equal.
pub(crate) fn is_same_digest(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0_u8, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(difference) == 0
}
