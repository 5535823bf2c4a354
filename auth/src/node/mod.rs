//! The Node authorizer: the rights of a node agent, derived from the pods that run on its node.
//!
//! Upstream: plugin/pkg/auth/authorizer/node, pkg/auth/nodeidentifier.
//!
//! * [`node_name`]: the node that a user represents.
//! * [`NodeGraph`]: the relations between objects and nodes, which follow from the references in pods and volumes.
//! * [`decide`]: whether a node may perform a request.

mod decision;
mod graph;
mod identity;
mod references;
mod related_kind;

pub use decision::{NodeDecision, UNRELATED, decide};
pub use graph::{NodeGraph, RelationSource};
pub use identity::node_name;
pub use references::{MIRROR_POD, config_map_names, secret_names};
pub use related_kind::RelatedKind;
