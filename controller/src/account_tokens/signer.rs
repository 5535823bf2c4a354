//! Signs tokens. The keys are those of the API server, so the process that starts the controllers provides the signer.

use std::fmt;
use std::sync::Arc;

/// The content of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSubject {
    /// The namespace of the account and the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the account.
    pub account: String,
    /// The UID of the account.
    pub uid: String,
}

type Sign = dyn Fn(&TokenSubject) -> Option<String> + Send + Sync;

/// Signs tokens. Clones share it.
#[derive(Clone)]
pub struct TokenSigner(Arc<Sign>);

impl TokenSigner {
    /// A signer that calls this function. The function returns `None` if the system returns no random numbers.
    pub fn new(sign: impl Fn(&TokenSubject) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }

    /// Signs a token.
    pub fn sign(&self, subject: &TokenSubject) -> Option<String> {
        (self.0)(subject)
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner").finish_non_exhaustive()
    }
}

impl PartialEq for TokenSigner {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
