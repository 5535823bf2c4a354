//! Pure words and arithmetic that the API server and the controllers share. No I/O, no clock.

pub mod duration;
pub mod fields;
pub mod labels;
pub mod names;
pub mod quantity;
