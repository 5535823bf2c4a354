//! CEL, as rules of schemas use it. The `cel` crate reads expressions; they are run here, because every
//! step has to be counted (a rule may not hold up the server), values come straight from JSON and its
//! schema, and Kubernetes has functions of its own.
//!
//! `program` is an expression that was read and checked, `value` what it works on, `eval` the steps,
//! `functions` and `extensions` what can be called.

mod eval;
mod extensions;
mod functions;
mod program;
mod value;

pub(super) use eval::{Budget, Failure, Input};
pub(super) use program::Program;
pub(super) use value::Val;

#[cfg(test)]
mod tests;
