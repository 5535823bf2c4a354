//! The discovery and OpenAPI documents of one set of custom kinds. `routes` builds them.

use std::sync::OnceLock;

use bytes::Bytes;
use orlop_openapi::document::{Document, Documents as OpenApi, ResourceDoc};

/// An aggregated discovery document and its entity tag.
pub(crate) struct Discovery {
    pub(crate) bytes: Bytes,
    pub(crate) tag: String,
}

/// The documents about custom kinds.
pub(crate) struct CustomOpenApi {
    /// One document per group and version that has no built-in kinds.
    pub(crate) own: OpenApi,
    pub(crate) index: OnceLock<Document>,
    /// Whether the index lists the group of orlop's own endpoints.
    pub(crate) lists_own: bool,
    /// Built-in and custom kinds: the old format has one document for all.
    pub(crate) all: OnceLock<OpenApi>,
    pub(crate) resources: Vec<ResourceDoc>,
}
