//! Ranges of IP addresses. Pure functions.

use std::net::IpAddr;

/// A range: all addresses whose first bits are those of `base`.
///
/// A range precedes the ranges that it contains, and these precede all later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    base: IpAddr,
    length: u8,
}

impl Prefix {
    /// Parses `ADDRESS/LENGTH`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (base, length) = text.split_once('/')?;
        let (base, length) = (base.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?);
        let width = if base.is_ipv4() { 32 } else { 128 };
        (length <= width).then(|| Prefix { base: masked(base, length), length })
    }

    /// The range of this length around an address.
    pub(super) fn around(ip: IpAddr, length: u8) -> Self {
        Self { base: masked(ip, length), length }
    }

    /// Its first address.
    pub(super) fn first(&self) -> IpAddr {
        self.base
    }

    /// The number of the bits that its addresses have in common.
    pub(super) fn length(&self) -> u8 {
        self.length
    }

    /// Whether it is an IPv4 range, and its length.
    pub(super) fn kind(&self) -> (bool, u8) {
        (self.base.is_ipv4(), self.length)
    }

    /// Whether the range contains the whole other range.
    pub(super) fn contains(&self, other: &Prefix) -> bool {
        self.length <= other.length && self.includes(other.base)
    }

    /// Whether an address can be allocated from this range: neither its first address nor, for IPv4, its last.
    pub(super) fn allocates(&self, ip: IpAddr) -> bool {
        let is_broadcast = match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let host = u32::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
                ip.to_bits() == (base.to_bits() | host)
            }
            _ => false,
        };
        ip != self.base && !is_broadcast && self.includes(ip)
    }

    /// Whether the address is in the range.
    pub(super) fn includes(&self, ip: IpAddr) -> bool {
        self.base.is_ipv4() == ip.is_ipv4() && masked(ip, self.length) == self.base
    }
}

/// The address with only its first bits.
fn masked(ip: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}
