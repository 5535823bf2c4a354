//! The decision about one ServiceCIDR. Pure functions.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use orlop_client::meta::has_finalizer;
use orlop_client::names::{FINALIZER_SERVICE_CIDR, condition};

use super::table::{RangeTable, prefixes};

/// The label of an IPAddress with the component that manages it.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] for addresses of Services.
const ALLOCATOR: &str = "ipallocator.k8s.io";
/// How long the finalizer stays after a deletion, so that no API server allocates an address from the range. Upstream:
/// deletionGracePeriod.
const GRACE: Duration = Duration::from_secs(10);

const READY: &str = "Kubernetes Service CIDR is ready";
const IN_USE: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// The value of the condition `Ready`.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) struct Ready {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}

const IS_READY: Ready = Ready { status: "True", reason: "", message: READY };
const IS_BLOCKED: Ready = Ready { status: "False", reason: condition::TERMINATING, message: IN_USE };

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Add the finalizer if it is missing, and write the condition if it differs.
    Protect {
        /// Whether the finalizer is missing.
        add_finalizer: bool,
        /// The condition to write.
        condition: Option<Ready>,
    },
    /// The deletion must wait for other ranges or addresses: write the condition if it differs.
    Block(Option<Ready>),
    /// Remove the finalizer after this time.
    Wait(Duration),
    /// Remove the finalizer.
    Release,
    /// Nothing to do.
    Nothing,
}

/// Decides. `table` has all ServiceCIDRs and all addresses of Services.
pub(super) fn decide(range: &ServiceCIDR, table: &RangeTable, now: Timestamp) -> Action {
    let Some(deleted) = range.metadata.deletion_timestamp.as_ref() else {
        return Action::Protect {
            add_finalizer: !has_finalizer(range, FINALIZER_SERVICE_CIDR),
            condition: differing(range, IS_READY),
        };
    };
    let name = range.metadata.name.as_deref().unwrap_or_default();
    if !table.can_release(&prefixes(range), &(deleted.0, name.into())) {
        return Action::Block(differing(range, IS_BLOCKED));
    }
    if !has_finalizer(range, FINALIZER_SERVICE_CIDR) {
        return Action::Nothing;
    }
    let age = Duration::try_from(now.duration_since(deleted.0)).unwrap_or_default();
    let left = GRACE.saturating_sub(age);
    if left.is_zero() { Action::Release } else { Action::Wait(left) }
}

/// The condition, if the range does not have it.
fn differing(range: &ServiceCIDR, wanted: Ready) -> Option<Ready> {
    let conditions = range.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let current = conditions.into_iter().find(|one| one.type_ == condition::READY);
    let is_same = current.is_some_and(|current| {
        (current.status.as_str(), current.reason.as_str(), current.message.as_str())
            == (wanted.status, wanted.reason, wanted.message)
    });
    (!is_same).then_some(wanted)
}

/// The address of an IPAddress that belongs to a Service.
pub(super) fn service_address(address: &IPAddress) -> Option<IpAddr> {
    let managed_by = address.metadata.labels.as_ref()?.get(MANAGED_BY)?;
    address.metadata.name.as_ref().filter(|_| managed_by == ALLOCATOR)?.parse().ok()
}
