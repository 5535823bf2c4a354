//! Service account tokens: [`key`] signs them, [`claims`] encodes and verifies their content, [`key_ring`] combines one signing key
//! with several verifying ones, and [`key_file`] reads keys.

pub mod claims;
pub mod key;
pub mod key_file;
pub mod key_ring;
