//! A compiled validation rule of a schema. `rules` compiles and evaluates it.

use crate::program::Program;

/// A rule of `x-kubernetes-validations`.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) text: String,
    pub(crate) program: Program,
    pub(crate) message: String,
    pub(crate) message_program: Option<Program>,
    pub(crate) reason: String,
    pub(crate) field_path: Option<Vec<String>>,
    /// Whether the rule is evaluated even without an old value.
    pub(crate) old_is_optional: bool,
}
