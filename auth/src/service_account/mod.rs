//! Service account tokens: [`key`] signs them, [`claims`] encodes and verifies their content.

pub mod claims;
pub mod key;
