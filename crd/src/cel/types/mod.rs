//! Checks the types of expressions, as cel-go's checker does.
//!
//! `ty` are the types, `unify` assigns them to each other, `functions` are the overloads of functions, `declared` the types
//! with fields, `check` is the checker, and `compile` parses and checks a text.

mod check;
mod compile;
mod declared;
mod functions;
mod literals;
mod ty;
mod unify;

pub(crate) use check::{Declarations, OwnType};
pub(crate) use compile::compile;
pub(crate) use declared::{JSON_PATCH, OBJECT};
pub(crate) use ty::Ty;

#[cfg(test)]
mod tests;
