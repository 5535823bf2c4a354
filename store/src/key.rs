//! The keys of records.

use std::fmt;
use std::sync::Arc;

/// A key such as `/registry/pods/default/web-0`: text that starts with a slash, ordered by bytes.
///
/// The part up to and including the third slash (`/registry/pods/`) is its **topic**: watches and event rings
/// are organized by topic, and a watched prefix never spans several of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates a key from text. Cloning a key is cheap.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Key(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The topic of the key.
    pub fn topic(&self) -> &str {
        topic_of(&self.0)
    }
}

/// The topic of a key or prefix: the text up to and including its third slash, or all of it if it has fewer.
pub fn topic_of(text: &str) -> &str {
    match text.match_indices('/').nth(2) {
        Some((at, _)) => &text[..=at],
        None => text,
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key(text.into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Key(text.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
