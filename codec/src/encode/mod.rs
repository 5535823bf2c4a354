//! From objects to bytes. Stored bytes are copied ([`envelope`]); only what has to look different (tables, metadata
//! alone, YAML, protobuf) is decoded first. [`negotiate`] chooses the form of an answer.

pub mod envelope;
pub mod negotiate;
pub mod pretty;
pub mod protobuf;
mod rows;
pub mod shape;
pub mod stored;
pub mod table;
