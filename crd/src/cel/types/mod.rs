//! Checks the types of expressions, as cel-go's checker does.
//!
//! `ty` are the types, `unify` assigns them to each other, `functions` are the overloads of functions, `declared` the types
//! with fields, and `check` is the checker.

mod check;
mod declared;
mod functions;
mod ty;
mod unify;

pub(crate) use check::{Declarations, check};
pub(crate) use declared::{JSON_PATCH, OBJECT};
pub(crate) use ty::Ty;

#[cfg(test)]
mod tests;
