//! Encodes objects as bytes. Stored bytes are copied ([`envelope`]); an object is decoded first only for
//! output that differs (tables, metadata alone, YAML, protobuf). [`negotiate`] chooses the format of a
//! response.

mod discovery;
pub mod envelope;
pub mod negotiate;
pub mod partial;
pub mod pretty;
pub mod protobuf;
mod rows;
pub mod shape;
pub mod stored;
pub mod table;
mod wire;
