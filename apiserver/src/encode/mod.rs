//! From objects to answers. What is stored is copied ([`envelope`]); only what has to look
//! different (tables, metadata alone, YAML, protobuf) is decoded first.

pub(crate) mod answer;
pub(crate) mod envelope;
pub(crate) mod list;
pub(crate) mod negotiate;
pub(crate) mod pretty;
pub(crate) mod protobuf;
mod rows;
pub(crate) mod shape;
pub(crate) mod stored;
pub(crate) mod table;
