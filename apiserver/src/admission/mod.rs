//! Admission: changes or rejects a write between defaulting and validation.
//!
//! Reading order: [`request`] is the input of a plugin, [`chain`] the list of plugins in their order, then one file for each
//! plugin. Plugins are pure: they read other objects through [`Lookup`], so each has a table test. The verbs call
//! [`Chain::mutate`] for every create, update and delete once the object has its defaults, and [`Chain::validate`] once it
//! is valid.

mod chain;
mod claim_resize;
mod collections;
mod default_class;
mod default_toleration_seconds;
mod in_use_protection;
mod limit_ranger;
mod namespace_lifecycle;
mod node_restriction;
mod plugin;
mod priority;
mod request;
mod resource_quota;
mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;

/// The effects of writes on quotas, for the verb that commits both.
pub(crate) mod quota {
    pub(crate) use super::resource_quota::{Charge, Counted, QUOTA_PLUGIN, charges, may_count, with_used};
}

/// The collections that admission reads for a write to a kind.
pub(crate) fn read_by(
    kind: &dyn crate::registry::Kind,
) -> impl Iterator<Item = &'static dyn crate::registry::Kind> {
    collections::read_by(kind.names().group, kind.names().plural)
}

pub use chain::{Chain, PluginError};
pub(crate) use node_restriction::NODE_RESTRICTION;
pub use request::{Lookup, Operation, Request};
