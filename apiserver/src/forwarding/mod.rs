//! What the forwarding of requests to aggregated API servers and to servers behind `proxy` has in common.

pub(crate) mod body;
pub(crate) mod exchange;
pub(crate) mod headers;
