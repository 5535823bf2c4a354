//! Service account tokens: a [`key`] signs them, a [`key_set`] is the signing key with the former keys that are still accepted, and
//! [`claims`] encodes and verifies the content of tokens.

pub mod claims;
pub mod key;
pub mod key_set;
