//! The CEL expressions of admission and authorization: of policies and of the match conditions of webhooks.
//!
//! A [`Compiler`] compiles the expressions of one policy. [`Values`] are the parts of a request on which they are evaluated.
//!
//! Upstream: apiserver `pkg/admission/plugin/cel`.

mod check;
mod compile;
mod evaluate;

pub use crate::cel::access_question::{AccessAnswer, AccessQuestion, AccessTarget, DecidesAccess};
pub use check::CelCompiler;
pub use compile::{Compiler, Expression, Variables};
pub use evaluate::{CostBudget, OutOfBudget, Outcome, Values, weight};

#[cfg(test)]
mod tests;
