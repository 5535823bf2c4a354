//! The kinds of `resource.k8s.io`, for the dynamic allocation of devices: drivers publish devices in ResourceSlices,
//! ResourceClaims request devices of a DeviceClass, and a scheduler allocates them.
//!
//! [`claim_spec`] validates requests, [`claim_status`] allocations, and [`slice_spec`], [`device`], [`nodes`] and [`counters`]
//! published devices. Kinds with CEL expressions contain the compiler that validates them ([`super::expressions`]).
//!
//! Upstream: pkg/apis/resource, pkg/registry/resource. As with upstream's default feature gates, fields of alpha features are
//! removed from new objects.

mod authorization;
mod capacity;
mod claim;
mod claim_spec;
mod claim_status;
mod claim_template;
mod collection;
mod counters;
mod device;
mod device_class;
mod names;
mod nodes;
mod selector;
mod shown;
mod slice;
mod slice_spec;
mod taint;

pub use claim::ResourceClaim;
pub use claim_template::ResourceClaimTemplate;
pub use device_class::DeviceClass;
pub use slice::ResourceSlice;

use crate::kind::Names;

/// The API group.
pub(super) const GROUP: &str = "resource.k8s.io";

/// The names of the kinds that need a compiler of CEL expressions.
pub static NAMES: [&Names; 3] = [&device_class::NAMES, &claim::NAMES, &claim_template::NAMES];

#[cfg(test)]
mod tests;
