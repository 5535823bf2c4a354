//! All ServiceCIDRs by their ranges, and the addresses of Services. A change and a decision cost a few lookups, not one look at every
//! other ServiceCIDR.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use orlop_client::meta::has_finalizer;
use orlop_client::names::FINALIZER_SERVICE_CIDR;

use super::prefix::Prefix;

/// The position of a ServiceCIDR among those that are being deleted: its deletion time and its name.
pub(super) type DeletionOrder = (Timestamp, Arc<str>);

/// ServiceCIDRs and addresses.
#[derive(Debug, Default)]
pub(super) struct RangeTable {
    ranges: HashMap<Arc<str>, Range>,
    by_prefix: BTreeMap<Prefix, Owners>,
    /// The number of different prefixes of each family and length.
    lengths: BTreeMap<(bool, u8), usize>,
    /// The addresses of Services.
    addresses: BTreeSet<IpAddr>,
}

#[derive(Debug, PartialEq)]
struct Range {
    prefixes: Vec<Prefix>,
    state: RangeState,
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum RangeState {
    Live,
    /// The deletion waits.
    Waiting(Timestamp),
    /// The finalizer was removed.
    Released,
}

/// The ServiceCIDRs with one prefix.
#[derive(Debug, Default)]
struct Owners {
    live: BTreeSet<Arc<str>>,
    waiting: BTreeSet<DeletionOrder>,
}

impl Owners {
    /// Whether one of them can replace another ServiceCIDR. Of several that are being deleted, those that were deleted later can replace
    /// those that were deleted earlier: otherwise, each would be released because of the others.
    fn can_replace(&self, other: &DeletionOrder) -> bool {
        self.live.iter().take(2).any(|name| *name != other.1)
            || self.waiting.last().is_some_and(|last| last > other)
    }

    fn is_empty(&self) -> bool {
        self.live.is_empty() && self.waiting.is_empty()
    }
}

impl RangeTable {
    /// Records the ServiceCIDR with this name, `None` if it no longer exists. Returns the prefixes that it has or had, if its state or
    /// its prefixes have changed.
    pub(super) fn put(&mut self, name: &Arc<str>, range: Option<&ServiceCIDR>) -> Vec<Prefix> {
        let new = range.map(|range| Range { prefixes: prefixes(range), state: state_of(range) });
        if self.ranges.get(name) == new.as_ref() {
            return Vec::new();
        }
        let mut affected = Vec::new();
        if let Some(old) = self.ranges.remove(name) {
            old.prefixes.iter().for_each(|prefix| self.leave(prefix, name, old.state));
            affected.extend(old.prefixes);
        }
        if let Some(new) = new {
            new.prefixes.iter().for_each(|prefix| self.enter(*prefix, name, new.state));
            affected.extend(&new.prefixes);
            self.ranges.insert(Arc::clone(name), new);
        }
        affected
    }

    /// Records whether the address belongs to a Service. Returns whether this has changed.
    pub(super) fn put_address(&mut self, ip: IpAddr, is_used: bool) -> bool {
        if is_used { self.addresses.insert(ip) } else { self.addresses.remove(&ip) }
    }

    fn enter(&mut self, prefix: Prefix, name: &Arc<str>, state: RangeState) {
        let lengths = &mut self.lengths;
        let owners = self.by_prefix.entry(prefix).or_insert_with(|| {
            *lengths.entry(prefix.kind()).or_default() += 1;
            Owners::default()
        });
        match state {
            RangeState::Live => owners.live.insert(Arc::clone(name)),
            RangeState::Waiting(deleted) => owners.waiting.insert((deleted, Arc::clone(name))),
            RangeState::Released => true,
        };
        self.drop_if_empty(&prefix);
    }

    fn leave(&mut self, prefix: &Prefix, name: &Arc<str>, state: RangeState) {
        let Some(owners) = self.by_prefix.get_mut(prefix) else { return };
        match state {
            RangeState::Live => owners.live.remove(name),
            RangeState::Waiting(deleted) => owners.waiting.remove(&(deleted, Arc::clone(name))),
            RangeState::Released => true,
        };
        self.drop_if_empty(prefix);
    }

    fn drop_if_empty(&mut self, prefix: &Prefix) {
        if !self.by_prefix.get(prefix).is_some_and(Owners::is_empty) {
            return;
        }
        self.by_prefix.remove(prefix);
        if let Some(count) = self.lengths.get_mut(&prefix.kind()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.kind());
            }
        }
    }

    /// The ServiceCIDRs with a prefix of at most this length that contains the address.
    fn around(&self, ip: IpAddr, longest: u8) -> impl Iterator<Item = (&Prefix, &Owners)> {
        let lengths = self.lengths.range((ip.is_ipv4(), 0)..=(ip.is_ipv4(), longest));
        lengths.filter_map(move |((_, length), _)| self.by_prefix.get_key_value(&Prefix::around(ip, *length)))
    }

    /// The names of the ServiceCIDRs whose deletion waits and that have an address in common with this prefix.
    pub(super) fn waiting_near(&self, prefix: &Prefix) -> impl Iterator<Item = &Arc<str>> {
        let around = self.around(prefix.first(), prefix.length()).filter(move |(found, _)| *found != prefix);
        let inside = self.by_prefix.range(*prefix..).take_while(move |(found, _)| prefix.contains(found));
        around.chain(inside).flat_map(|(_, owners)| owners.waiting.iter().map(|(_, name)| name))
    }

    /// The names of the ServiceCIDRs whose deletion waits and from which the address can be allocated.
    pub(super) fn waiting_for(&self, ip: IpAddr) -> impl Iterator<Item = &Arc<str>> {
        let around = self.around(ip, u8::MAX).filter(move |(prefix, _)| prefix.allocates(ip));
        around.flat_map(|(_, owners)| owners.waiting.iter().map(|(_, name)| name))
    }

    /// Whether no address of a Service would remain without a range if the ServiceCIDR with these prefixes were released.
    pub(super) fn can_release(&self, own: &[Prefix], order: &DeletionOrder) -> bool {
        let has_parent = |prefix: &Prefix| {
            self.around(prefix.first(), prefix.length()).any(|(_, owners)| owners.can_replace(order))
        };
        if own.iter().all(has_parent) {
            return true;
        }
        let is_orphan = |ip: IpAddr| {
            let mut others = self.around(ip, u8::MAX);
            !others.any(|(prefix, owners)| prefix.allocates(ip) && owners.can_replace(order))
        };
        let mut used = own.iter().flat_map(|prefix| {
            let inside = self.addresses.range(prefix.first()..).take_while(|ip| prefix.includes(**ip));
            inside.copied().filter(|ip| prefix.allocates(*ip))
        });
        !used.any(is_orphan)
    }
}

/// The ranges of a ServiceCIDR.
pub(super) fn prefixes(range: &ServiceCIDR) -> Vec<Prefix> {
    let cidrs = range.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    cidrs.filter_map(|cidr| Prefix::parse(cidr)).collect()
}

fn state_of(range: &ServiceCIDR) -> RangeState {
    match range.metadata.deletion_timestamp.as_ref() {
        None => RangeState::Live,
        Some(deleted) if has_finalizer(range, FINALIZER_SERVICE_CIDR) => RangeState::Waiting(deleted.0),
        Some(_) => RangeState::Released,
    }
}
