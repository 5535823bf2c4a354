//! The kinds of `networking.k8s.io`: Ingress, IngressClass and NetworkPolicy. They are stored and validated.
//!
//! Upstream: pkg/apis/networking, pkg/registry/networking.

mod ingress;
pub mod ingress_class;
mod ingress_rules;
mod network_policy;

pub(super) use ingress::Ingress;
pub(super) use ingress_class::IngressClass;
pub(super) use network_policy::NetworkPolicy;

/// The API group.
const GROUP: &str = "networking.k8s.io";

/// The items of a list; empty if absent.
fn items<'a>(of: &'a serde_json::Value, field: &str) -> &'a [serde_json::Value] {
    of.get(field).and_then(serde_json::Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
