//! Validation: pure rules that collect every error, in upstream's order and words.

pub mod field_errors;
pub mod label_selector;
pub mod meta;
pub mod node_selector;

pub use field_errors::{Cause, FieldErrors, Path};
