//! The kinds of `admissionregistration.k8s.io`: admission policies, their bindings, and webhook configurations.
//!
//! Kinds with CEL expressions contain the compiler that validates them ([`super::expressions`]).
//!
//! Upstream: pkg/apis/admissionregistration, pkg/registry/admissionregistration.

mod expression_limits;
mod fields;
mod match_resources;
mod mutating_policy;
mod policy_binding;
mod policy_parts;
mod policy_spec;
mod validating_policy;
mod webhook_client;
mod webhook_configuration;

pub use expression_limits::{
    MOST_EXPRESSION_BYTES, MOST_EXPRESSIONS, TooManyExpressions, check_policy, check_webhooks,
};
pub use fields::GROUP;
pub use mutating_policy::MutatingAdmissionPolicy;
pub use policy_binding::{MUTATING_POLICY_BINDING, PolicyBinding, VALIDATING_POLICY_BINDING};
pub use validating_policy::ValidatingAdmissionPolicy;
pub use webhook_configuration::WebhookConfiguration;

use crate::kind::Names;

/// The names of all kinds of the group, which are not among the kinds that need no compiler.
pub static NAMES: [&Names; 6] = [
    &mutating_policy::NAMES,
    MUTATING_POLICY_BINDING.names,
    &webhook_configuration::MUTATING,
    &validating_policy::NAMES,
    VALIDATING_POLICY_BINDING.names,
    &webhook_configuration::VALIDATING,
];

#[cfg(test)]
mod tests;
