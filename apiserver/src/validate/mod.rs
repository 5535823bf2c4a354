//! Validation: pure rules that collect every error, in upstream's order and words.

pub mod field_errors;
pub mod meta;

pub use field_errors::{Cause, FieldErrors, Path};
