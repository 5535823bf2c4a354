//! The decision about one ServiceCIDR. Pure functions.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use orlop_client::meta::{has_finalizer, is_terminating};
use orlop_client::names::{FINALIZER_SERVICE_CIDR, condition};

use super::prefix::Prefix;

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

/// Decides. `all` are all ServiceCIDRs; `addresses` are all IPAddresses, which are read only if no other range contains
/// this one.
pub(super) fn decide(
    range: &ServiceCIDR,
    all: &[impl AsRef<ServiceCIDR>],
    addresses: impl Iterator<Item = IpAddr>,
    now: Timestamp,
) -> Action {
    let Some(deleted) = range.metadata.deletion_timestamp.as_ref() else {
        return Action::Protect {
            add_finalizer: !has_finalizer(range, FINALIZER_SERVICE_CIDR),
            condition: differing(range, IS_READY),
        };
    };
    if !can_release(range, all, addresses) {
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

/// Whether no address of a Service would remain without a range.
fn can_release(
    range: &ServiceCIDR,
    all: &[impl AsRef<ServiceCIDR>],
    mut addresses: impl Iterator<Item = IpAddr>,
) -> bool {
    let others = || all.iter().map(AsRef::as_ref).filter(|other| can_replace(other, range));
    let own = prefixes(range);
    let has_parent =
        own.iter().all(|own| others().any(|other| prefixes(other).iter().any(|other| other.contains(own))));
    if has_parent {
        return true;
    }
    let other: Vec<Prefix> = others().flat_map(prefixes).collect();
    let is_orphan = |ip: IpAddr| {
        own.iter().any(|own| own.allocates(ip)) && !other.iter().any(|other| other.allocates(ip))
    };
    !addresses.any(is_orphan)
}

/// Whether the addresses of a range can be in this other range after the release. Of several ranges that are being deleted, those
/// that were deleted later can replace those that were deleted earlier: otherwise, each would be released because of the others.
fn can_replace(other: &ServiceCIDR, range: &ServiceCIDR) -> bool {
    let order = |range: &ServiceCIDR| {
        let deleted = range.metadata.deletion_timestamp.as_ref().map(|deleted| deleted.0);
        (deleted, range.metadata.name.clone())
    };
    other.metadata.name != range.metadata.name
        && (!is_terminating(other)
            || has_finalizer(other, FINALIZER_SERVICE_CIDR) && order(other) > order(range))
}

/// The ranges of a ServiceCIDR.
pub(super) fn prefixes(range: &ServiceCIDR) -> Vec<Prefix> {
    let cidrs = range.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    cidrs.filter_map(|cidr| Prefix::parse(cidr)).collect()
}

/// The address of an IPAddress that belongs to a Service.
pub(super) fn service_address(address: &IPAddress) -> Option<IpAddr> {
    let managed_by = address.metadata.labels.as_ref()?.get(MANAGED_BY)?;
    address.metadata.name.as_ref().filter(|_| managed_by == ALLOCATOR)?.parse().ok()
}

/// Whether a deletion of this ServiceCIDR waits.
pub(super) fn is_waiting(range: &ServiceCIDR) -> bool {
    is_terminating(range) && has_finalizer(range, FINALIZER_SERVICE_CIDR)
}
