//! Validation: pure rules that collect every error, with upstream's order and messages.

pub mod label_selector;
pub mod meta;
pub mod node_selector;

pub use crate::field_errors::{Cause, FieldErrors, Path};
