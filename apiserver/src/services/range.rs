//! The ranges for cluster IPs and node ports. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Maximum number of addresses of a range that are used; upstream accepts no larger range either.
const MOST: u128 = 1 << 20;

/// Why a text is not a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Not an IP address and a prefix length.
    #[error("{0:?} is no range of addresses; give one such as 10.0.0.0/24")]
    NoCidr(String),
    /// The range is too small.
    #[error("{0} has no room for services; give a range of at least 8 addresses, such as 10.0.0.0/24")]
    TooSmall(String),
    /// Not two ports.
    #[error("{0:?} is no range of ports; give one such as 30000-32767")]
    NoPorts(String),
}

/// A range of cluster IPs, such as `10.0.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The base address of the range, which is never assigned.
    base: IpAddr,
    bits: u8,
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let wrong = || RangeError::NoCidr(text.to_owned());
        let (ip, bits) = text.split_once('/').ok_or_else(wrong)?;
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let width = width(ip);
        if bits > width {
            return Err(wrong());
        }
        if bits > width - 3 {
            return Err(RangeError::TooSmall(text.to_owned()));
        }
        // One bit for each host bit of the range, of which there are at least three.
        let host = u128::MAX >> (128 - u32::from(width - bits));
        let base = of_number(ip, number(ip) & !host);
        Ok(AddressRange { base, bits })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// Converts a number to an address of the same family as `family`.
fn of_number(family: IpAddr, number: u128) -> IpAddr {
    match family {
        // The number is a 32-bit address plus an offset within its range.
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

impl AddressRange {
    /// Number of assignable addresses: all except the base address and, for IPv4, the broadcast address.
    pub fn size(&self) -> u128 {
        let shift = u32::from(width(self.base) - self.bits);
        let all = if shift >= 20 { MOST } else { 1 << shift };
        all - if self.base.is_ipv4() { 2 } else { 1 }
    }

    /// The address at an index, starting from 0.
    pub fn at(&self, place: u128) -> IpAddr {
        of_number(self.base, number(self.base) + 1 + place)
    }

    /// The first address, which belongs to the Service `kubernetes`.
    pub fn first(&self) -> IpAddr {
        self.at(0)
    }

    /// Whether a service may have this address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        if ip.is_ipv4() != self.base.is_ipv4() {
            return false;
        }
        number(ip).checked_sub(number(self.base)).is_some_and(|place| (1..=self.size()).contains(&place))
    }

    /// Size of the lower band of the range, which is preferred for addresses that clients specify. Automatic
    /// allocation uses the rest of the range first (upstream: the lower band of the range).
    pub fn band(&self) -> u128 {
        let least = 16;
        if self.size() < least { 0 } else { (self.size() / least).clamp(least, 256) }
    }
}

/// Parses a range of node ports.
pub fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, RangeError> {
    let wrong = || RangeError::NoPorts(text.to_owned());
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last): (u16, u16) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first == 0 || last < first {
        return Err(wrong());
    }
    Ok(first..=last)
}

/// Finds a free index: first outside the band, from `start` (a random number) on, then within the band.
pub(super) fn find(size: u128, band: u128, start: u128, is_free: impl Fn(u128) -> bool) -> Option<u128> {
    let upper = size - band;
    let behind = (0..upper).map(|step| band + (start % upper.max(1) + step) % upper.max(1));
    let within = (0..band).map(|step| (start % band.max(1) + step) % band.max(1));
    behind.chain(within).find(|place| is_free(*place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn address_ranges_are_parsed_and_invalid_ones_rejected() {
        for (text, shown, size, first, last) in [
            ("10.0.0.0/24", "10.0.0.0/24", 254, "10.0.0.1", "10.0.0.254"),
            ("10.0.0.77/24", "10.0.0.0/24", 254, "10.0.0.1", "10.0.0.254"),
            ("10.0.0.8/29", "10.0.0.8/29", 6, "10.0.0.9", "10.0.0.14"),
            ("10.96.0.0/12", "10.96.0.0/12", (1 << 20) - 2, "10.96.0.1", "10.111.255.254"),
            ("0.0.0.0/0", "0.0.0.0/0", (1 << 20) - 2, "0.0.0.1", "0.15.255.254"),
            ("fd00::/112", "fd00::/112", 65535, "fd00::1", "fd00::ffff"),
            ("::/0", "::/0", (1 << 20) - 1, "::1", "::f:ffff"),
        ] {
            let range = range(text);
            assert_eq!(range.to_string(), shown);
            assert_eq!(range.size(), size, "{text}");
            assert_eq!(range.first().to_string(), first);
            let end = range.at(range.size() - 1);
            assert_eq!(end.to_string(), last);
            assert!(range.contains(range.first()) && range.contains(end), "{text}");
            assert!(!range.contains(range.base) && !range.contains(range.at(range.size())), "{text}");
        }
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/x", "x/24", "10.0.0.0/30", "::/129", "::/126"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
        let families = (range("10.0.0.0/24"), range("fd00::/112"));
        assert!(!families.0.contains(families.1.first()) && !families.1.contains(families.0.first()));
    }

    #[test]
    fn port_ranges_are_parsed_and_invalid_ones_rejected() {
        assert_eq!(parse_ports("30000-32767"), Ok(30000..=32767));
        assert_eq!(parse_ports("5-5"), Ok(5..=5));
        for text in ["", "5", "6-5", "0-5", "1-65536", "a-b"] {
            assert!(parse_ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lower_band_is_allocated_last() {
        for (text, want) in
            [("10.0.0.0/29", 0), ("10.0.0.0/24", 16), ("10.0.0.0/20", 255), ("10.0.0.0/12", 256)]
        {
            assert_eq!(range(text).band(), want, "{text}");
        }
        for start in [0, 1, 83, u128::from(u64::MAX)] {
            let mut taken = [false; 100];
            for count in 0..100 {
                let place = find(100, 16, start, |place| !taken[usize::try_from(place).unwrap_or(0)]);
                let place = usize::try_from(place.expect("there is one left")).unwrap_or(0);
                assert_eq!(place < 16, count >= 84, "{start}: the {count}th is {place}");
                taken[place] = true;
            }
            assert_eq!(find(100, 16, start, |place| !taken[usize::try_from(place).unwrap_or(0)]), None);
        }
        assert_eq!(find(6, 0, 7, |_| true), Some(1));
        assert_eq!(find(3, 3, 7, |_| true), Some(1), "nothing but the band");
    }
}
