//! Evaluates the CEL expressions of validation rules. The `cel` crate parses expressions; this module evaluates
//! them, because every step must be counted (a rule must not block the server), values are read directly from
//! JSON and its schema, and Kubernetes adds functions.
//!
//! `check` parses expressions and checks their names, `types` checks their types, `input` are their variables, `value` defines their values and `equality` compares them,
//! `eval` evaluates the steps, `cost` limits their cost, `functions` implements CEL's standard functions, and
//! `extensions` those that Kubernetes and CEL's extensions add: strings and quantities itself, and the others with
//! `addresses`, `formatting`, `lists`, `patterns` and the modules whose names end in `library`. `macros` expands loops.

pub(crate) mod access;
pub(crate) mod access_question;
mod addresses;
pub(crate) mod check;
mod collect;
mod cost;
mod equality;
pub(crate) mod estimate;
mod eval;
mod extensions;
mod format_library;
mod formatting;
mod functions;
mod input;
pub(crate) mod json;
mod list_library;
mod lists;
mod macros;
mod named_format;
mod numbers;
mod pattern_cache;
mod patterns;
mod semver;
mod semver_library;
mod shown;
mod span;
mod template;
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
mod library_tests;
#[cfg(test)]
mod tests;
