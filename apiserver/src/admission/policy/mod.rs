//! Admission policies.
//!
//! `budget` limits their cost, `cluster` is what policies read, `compiled` are the policies and bindings with their expressions, `index` finds them,
//! `stored` follows the store, `conditions` decides about match conditions, `params` finds parameters, `validate` enforces
//! `ValidatingAdmissionPolicy`, and `mutate` applies `MutatingAdmissionPolicy`. All but `stored` are pure.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy`.

mod budget;
mod cluster;
mod compiled;
pub(crate) mod conditions;
mod index;
pub(crate) mod mutate;
mod params;
mod stored;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use budget::{PhaseBudget, size};
pub(crate) use cluster::{Access, ClusterState, request_resource};
pub(crate) use index::PolicyIndex;
pub(crate) use mutate::mutate;
pub(crate) use stored::StoredPolicies;
pub(crate) use validate::validate;
