//! The kinds of `networking.k8s.io`: Ingress, IngressClass, NetworkPolicy, ServiceCIDR and IPAddress. They are stored and
//! validated.
//!
//! Upstream: pkg/apis/networking, pkg/registry/networking.

mod ingress;
pub mod ingress_class;
mod ingress_rules;
pub mod ip_address;
mod network_policy;
pub mod service_cidr;

pub(super) use ingress::Ingress;
pub(super) use ingress_class::IngressClass;
pub(super) use ip_address::IpAddress;
pub(super) use network_policy::NetworkPolicy;
pub(super) use service_cidr::ServiceCidr;

/// The API group.
const GROUP: &str = "networking.k8s.io";

/// The items of a list; empty if absent.
fn items<'a>(of: &'a serde_json::Value, field: &str) -> &'a [serde_json::Value] {
    of.get(field).and_then(serde_json::Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod address_tests;
#[cfg(test)]
mod tests;
