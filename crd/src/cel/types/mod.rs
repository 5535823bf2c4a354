//! Checks the types of expressions, as cel-go's checker does.
//!
//! `ty` are the types, `unify` assigns them to each other, `functions` are the overloads of functions, `declared` the types
//! with fields, `variables` the variables, `check` is the checker, `literals` checks literals, and `compile` parses and checks a text.

mod check;
mod compile;
mod declared;
mod functions;
mod literals;
mod ty;
mod unify;
mod variables;

pub(crate) use compile::compile;
pub(crate) use declared::{JSON_PATCH, OBJECT};
pub(crate) use ty::Ty;
pub(crate) use variables::{Declarations, OwnType};

#[cfg(test)]
mod tests;
