//! Facts about the API types that the published JSON schemas leave out.
