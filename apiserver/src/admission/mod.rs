//! Admission: what may change or refuse a write between defaulting and validation.
//!
//! Reading order: [`request`] is what a plugin sees, [`chain`] which plugins run and in what order,
//! then one file per plugin. Plugins are pure: facts about other objects come through [`Lookup`],
//! so each is tested with a table. The verbs call [`Chain::mutate`] for every create, update and
//! delete once the object has its defaults, and [`Chain::validate`] once it is valid.

mod chain;
mod claim_resize;
mod default_class;
mod default_toleration_seconds;
mod in_use_protection;
mod limit_ranger;
mod namespace_lifecycle;
mod plugin;
mod priority;
mod request;
mod resource_quota;
mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;

/// What writes do to quotas, for the verb that commits both.
pub(crate) mod quota {
    pub(crate) use super::resource_quota::{Charge, Counted, QUOTA_PLUGIN, charges, may_count, with_used};
}

pub use chain::{Chain, UnknownPlugin};
pub use request::{Lookup, Operation, Request};
