//! `service-cidr-controller`: protects a ServiceCIDR from deletion while it is the only range of an address of a
//! Service, and calculates its condition `Ready`.
//!
//! [`prefix`] compares ranges and addresses, [`table`] finds the ServiceCIDRs of a range or an address, and [`decide`] is the decision
//! about one ServiceCIDR. Upstream:
//! pkg/controller/servicecidrs.

mod control;
mod decide;
mod prefix;
mod table;
#[cfg(test)]
mod tests;

pub use control::run;
