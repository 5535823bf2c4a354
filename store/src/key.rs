//! The keys of records.

use std::fmt;
use std::sync::Arc;

/// A key such as `/registry/pods/default/web-0`: text that starts with a slash, ordered by bytes.
///
/// The part up to and including the third slash (`/registry/pods/`) is its **topic**, or up to the fourth if a group comes
/// first (`/registry/example.com/widgets/`): watches and event rings are organized by topic, and a watched prefix never spans
/// several of them.
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

/// The topic of a key or prefix: the text up to and including its third slash, or its fourth after a group, or all of it if
/// it has fewer.
pub fn topic_of(text: &str) -> &str {
    match topic_end(text) {
        Some(at) => &text[..=at],
        None => text,
    }
}

/// Whether a text is a complete topic, not a shorter prefix.
pub(crate) fn is_topic(text: &str) -> bool {
    topic_end(text).is_some_and(|at| at + 1 == text.len())
}

fn topic_end(text: &str) -> Option<usize> {
    let mut slashes = text.match_indices('/').map(|(at, _)| at).skip(1);
    let (start, end) = (slashes.next()?, slashes.next()?);
    // Groups have a dot; kinds do not. The kinds of a group have topics of their own, so that none delays another.
    if text[start..end].contains('.') { slashes.next() } else { Some(end) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_ends_with_the_kind() {
        for (text, topic, is_whole) in [
            ("/registry/pods/a/b", "/registry/pods/", false),
            ("/registry/pods/", "/registry/pods/", true),
            ("/registry/pods", "/registry/pods", false),
            ("/registry/example.com/widgets/a/b", "/registry/example.com/widgets/", false),
            ("/registry/example.com/widgets/", "/registry/example.com/widgets/", true),
            ("/registry/example.com/", "/registry/example.com/", false),
            ("/registry/pods/a.b/c", "/registry/pods/", false),
            ("/registry/", "/registry/", false),
            ("/", "/", false),
            ("", "", false),
        ] {
            assert_eq!((topic_of(text), is_topic(text)), (topic, is_whole), "{text}");
        }
    }
}
