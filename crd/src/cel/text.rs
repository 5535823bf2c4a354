//! Texts of values.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// A text. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Text<'v> {
    /// A text of the document or of the expression.
    Borrowed(&'v str),
    /// A computed text.
    Computed(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Computed(text) => text,
        }
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
