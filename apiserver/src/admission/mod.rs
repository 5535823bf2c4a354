//! Admission: changes or rejects a write between defaulting and validation.
//!
//! Reading order: [`request`] is the input of a plugin, [`chain`] the list of plugins in their order, then one file for each
//! plugin. Plugins are pure: they read other objects through [`Lookup`], so each has a table test. The verbs call
//! [`Chain::mutate`] for every create, update and delete once the object has its defaults, and [`Chain::validate`] once it
//! is valid.
//!
//! `policy` and `webhook` are the admission that objects configure: `matching` decides to which requests it applies,
//! `follow` reads its objects from the store, and `reinvocation` is the second run of what changes objects.

mod certificates;
mod chain;
mod claim_resize;
mod collections;
mod default_class;
mod default_ingress_class;
mod default_toleration_seconds;
pub(crate) mod follow;
mod in_use_protection;
mod limit_ranger;
pub(crate) mod matching;
mod namespace_lifecycle;
mod node_restriction;
pub(crate) mod outcome;
mod plugin;
mod pod_security;
pub(crate) mod policy;
mod priority;
pub(crate) mod reinvocation;
mod request;
mod resource_quota;
mod runtime_class;
mod service_account;
mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;
pub(crate) mod webhook;

/// The names of the plugins that objects configure.
pub(crate) mod configured {
    pub(crate) use super::chain::{MUTATING_POLICY, MUTATING_WEBHOOK, VALIDATING_POLICY, VALIDATING_WEBHOOK};
}

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
pub(crate) use service_account::{DEFAULT_ACCOUNT, SERVICE_ACCOUNT};
