//! Evaluates the CEL expressions of validation rules. The `cel` crate parses expressions; this module evaluates
//! them, because every step must be counted (a rule must not block the server), values are read directly from
//! JSON and its schema, and Kubernetes adds functions.
//!
//! `check` parses expressions and checks their names, `types` checks their types, `input` are their variables, `value` defines their values and `equality` compares them,
//! `eval` evaluates the steps, `cost` limits their cost, and `functions`, `extensions`, `lists` and `patterns`
//! implement the functions.

pub(crate) mod access;
pub(crate) mod access_question;
pub(crate) mod check;
mod cost;
mod equality;
pub(crate) mod estimate;
mod eval;
mod extensions;
mod functions;
mod input;
pub(crate) mod json;
mod lists;
mod pattern_cache;
mod patterns;
mod shown;
mod span;
mod text;
pub(crate) mod types;
mod value;

pub(crate) use crate::program::Program;
pub(crate) use cost::{Budget, Failure};
pub(crate) use input::{Input, LazyFields, Memo};
pub(crate) use value::Val;

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod tests;
