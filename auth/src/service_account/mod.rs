//! Service account tokens: a [`key`] signs them, a [`key_set`] is the signing key with the former keys that are still accepted,
//! [`claims`] encodes and verifies the content of tokens, [`legacy`] that of tokens in Secrets, and [`key_file`] reads the keys of other programs.

pub mod claims;
pub mod key;
pub mod key_file;
pub mod key_set;
pub mod legacy;
