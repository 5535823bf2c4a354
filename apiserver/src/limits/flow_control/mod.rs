//! Priority and fairness: FlowSchemas assign requests to priority levels, which share the permits of the server.
//!
//! [`matching`] decides whether a schema matches a request, and [`levels`] divides the permits among the levels; both are pure.
//! [`classifier`] finds the schema of a request, [`follow`] reads the objects of the store, [`flow`] is the result for a request.
//! [`dump`] writes the debug pages, [`metrics`] has the metrics.
//!
//! Upstream: apiserver `pkg/util/flowcontrol`.

pub(super) mod classifier;
pub(super) mod dump;
pub(super) mod flow;
pub(super) mod follow;
mod levels;
mod matching;
mod metrics;

#[cfg(test)]
mod tests;
