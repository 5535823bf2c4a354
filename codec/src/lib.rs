//! Converts bytes to objects and back with pure functions: decoding, encoding, patches, and managed fields
//! with server-side apply.
//!
//! Reading order: [`decode`] reads request bodies, [`encode`] writes responses and stored bytes, [`patch`]
//! applies patches, [`managed_fields`] tracks the owner of each field.

pub mod decode;
pub mod encode;
pub mod managed_fields;
pub mod patch;
#[cfg(any(test, feature = "fuzzing"))]
pub mod samples;
