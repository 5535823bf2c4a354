//! Validation: pure rules that collect every error, in upstream's order and words.

pub mod label_selector;
pub mod meta;
pub mod node_selector;

pub use crate::field_errors::{Cause, FieldErrors, Path};
