//! CEL, as rules of schemas use it. The `cel` crate reads expressions; they are run here, because every
//! step has to be counted (a rule may not hold up the server), values come straight from JSON and its
//! schema, and Kubernetes has functions of its own.
//!
//! `check` parses expressions and checks their names, `value` is what they work on, `eval` the steps, `cost` their
//! price,
//! `functions` and `extensions` what can be called.

mod check;
mod cost;
mod eval;
mod extensions;
mod functions;
mod value;

pub(crate) use crate::program::Program;
pub(crate) use cost::{Budget, Failure};
pub(crate) use eval::Input;
pub(crate) use value::Val;

#[cfg(test)]
mod tests;
