//! A compiled CEL expression. `cel` compiles and runs it.

use std::borrow::Cow;
use std::sync::Arc;

use cel::common::ast::IdedExpr;

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) expr: Arc<IdedExpr>,
    /// Whether the expression uses `oldSelf`.
    pub(crate) uses_old: bool,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("uses_old", &self.uses_old).finish_non_exhaustive()
    }
}

/// The reserved words.
const WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the property name for an escaped name in an expression (upstream: the escaping of property names).
pub(crate) fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("__") {
        return Cow::Borrowed(name);
    }
    if let Some(word) = WORDS.iter().find(|word| name == format!("__{word}__")) {
        return Cow::Borrowed(word);
    }
    let text = name
        .replace("__underscores__", "\u{0}")
        .replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace('\u{0}', "__");
    Cow::Owned(text)
}

/// Returns the name by which expressions call a property.
pub(crate) fn escape(name: &str) -> Cow<'_, str> {
    if WORDS.contains(&name) {
        return Cow::Owned(format!("__{name}__"));
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return Cow::Borrowed(name);
    }
    let text = name.replace("__", "__underscores__");
    Cow::Owned(text.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}
