//! Encodes the documents in protobuf, as gnostic's `Document` of OpenAPI v2 and v3.

mod message;
pub(crate) mod v2;
pub(crate) mod v3;
