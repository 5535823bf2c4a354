//! Functions of IP addresses and networks.
//!
//! Upstream: apiserver `pkg/cel/library/ip.go` and `cidr.go`; Go's `net/netip` defines the texts of the errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use orlop_apimachinery::quoted;

use super::Val;
use super::cost::{Result, fail};

const KNOWN: [&str; 15] = [
    "ip",
    "isIP",
    "ip.isCanonical",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "cidr",
    "isCIDR",
    "containsIP",
    "containsCIDR",
    "prefixLength",
    "masked",
];

/// Whether this module implements a function of that name.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

type Parsed<T> = std::result::Result<T, String>;

/// Parses an address. The error is that of the functions that read texts.
fn parse_ip(text: &str) -> Parsed<IpAddr> {
    if let Ok(address) = text.parse() {
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)));
        }
        return Ok(address);
    }
    let conversion =
        |why| format!("IP Address {} parse error during conversion from string: {why}", quoted(text));
    match parse_zoned(text) {
        Some(_) => Err(format!("IP address {} with zone value is not allowed", quoted(text))),
        None => Err(conversion(address_error(text))),
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Parses an IPv6 address with a zone: `fe80::1%eth0`.
fn parse_zoned(text: &str) -> Option<Ipv6Addr> {
    let (address, zone) = text.split_once('%')?;
    if zone.is_empty() { None } else { address.parse().ok() }
}

/// Parses a network: `10.0.0.0/8`. The error is that of the functions that read texts.
fn parse_cidr(text: &str) -> Parsed<(IpAddr, u8)> {
    let conversion = |why| format!("network address parse error during conversion from string: {why}");
    let prefix = |why| conversion(format!("netip.ParsePrefix({}): {why}", quoted(text)));
    let Some((address, bits)) = text.rsplit_once('/') else { return Err(prefix("no '/'".to_owned())) };
    let parsed: IpAddr = match (address.parse(), parse_zoned(address)) {
        (Ok(parsed), _) => parsed,
        (Err(_), Some(_)) => return Err(prefix("IPv6 zones cannot be present in a prefix".to_owned())),
        (Err(_), None) => return Err(prefix(address_error(address))),
    };
    let is_number = !bits.is_empty() && bits.bytes().all(|c| c.is_ascii_digit());
    if !is_number || bits.len() > 1 && bits.starts_with('0') {
        return Err(prefix(format!("bad bits after slash: {}", quoted(bits))));
    }
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u8>() {
        Ok(length) if length <= most => {
            if is_mapped(parsed) {
                let why = format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text));
                return Err(conversion(why));
            }
            Ok((parsed, length))
        }
        Ok(_) | Err(_) => Err(prefix("prefix length out of range".to_owned())),
    }
}

/// Why Go's `ParseAddr` rejects a text.
fn address_error(text: &str) -> String {
    let (why, at) = match text.find(['.', ':', '%']).map(|at| &text[at..=at]) {
        Some(".") => ipv4_error(text),
        Some(":") => ipv6_error(text),
        Some(_) => ("missing IPv6 address".to_owned(), ""),
        None => ("unable to parse IP".to_owned(), ""),
    };
    let at = if at.is_empty() { String::new() } else { format!(" (at {})", quoted(at)) };
    format!("ParseAddr({}): {why}{at}", quoted(text))
}

/// The reason, and the rest of the text at the mistake.
fn ipv4_error(text: &str) -> (String, &str) {
    let only = |why: &str| (why.to_owned(), "");
    let (mut value, mut digits, mut dots) = (0_u32, 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '0'..='9' if digits == 1 && value == 0 => {
                return only("IPv4 field has octet with leading zero");
            }
            '0'..='9' => {
                value = value * 10 + c.to_digit(10).unwrap_or_default();
                digits += 1;
                if value > 255 {
                    return only("IPv4 field has value >255");
                }
            }
            '.' if at == 0 || at + 1 == text.len() || text.as_bytes()[at - 1] == b'.' => {
                return ("IPv4 field must have at least one digit".to_owned(), &text[at..]);
            }
            '.' if dots == 3 => return only("IPv4 address too long"),
            '.' => {
                dots += 1;
                (value, digits) = (0, 0);
            }
            _ => return ("unexpected character".to_owned(), &text[at..]),
        }
    }
    only("IPv4 address too short")
}

/// The reason, and the rest of the text at the mistake.
fn ipv6_error(text: &str) -> (String, &str) {
    let only = |why: &str| (why.to_owned(), "");
    let mut rest = match text.split_once('%') {
        Some((_, "")) => return only("zone must be a non-empty string"),
        Some((address, _)) => address,
        None => text,
    };
    let mut has_ellipsis = false;
    if let Some(after) = rest.strip_prefix("::") {
        has_ellipsis = true;
        rest = after;
    }
    let mut bytes = 0;
    while bytes < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return ("each group must have 4 or less digits".to_owned(), rest);
        }
        if digits == 0 {
            return ("each colon-separated field must have at least one digit".to_owned(), rest);
        }
        let after = &rest[digits..];
        if after.starts_with('.') {
            if !has_ellipsis && bytes != 12 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return (why.to_owned(), rest);
            }
            if bytes > 12 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return (why.to_owned(), rest);
            }
            if rest.parse::<Ipv4Addr>().is_err() {
                return (address_error(rest), rest);
            }
            bytes += 4;
            rest = "";
            break;
        }
        bytes += 2;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(next) = rest.strip_prefix(':') else {
            return ("unexpected character, want colon".to_owned(), rest);
        };
        if next.is_empty() {
            return ("colon must be followed by more characters".to_owned(), rest);
        }
        rest = next;
        if let Some(next) = rest.strip_prefix(':') {
            if has_ellipsis {
                return ("multiple :: in address".to_owned(), rest);
            }
            has_ellipsis = true;
            rest = next;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return ("trailing garbage after address".to_owned(), rest);
    }
    if bytes < 16 {
        return only("address string too short");
    }
    only("the :: must expand to at least one field of zeros")
}

/// Returns the bits of an address, left-aligned, and their number.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    match address {
        IpAddr::V4(_) => {
            let bits = (bits(address).0 & mask) >> 96;
            IpAddr::V4(u32::try_from(bits).unwrap_or_default().into())
        }
        IpAddr::V6(_) => IpAddr::V6((bits(address).0 & mask).into()),
    }
}

fn covers(network: IpAddr, length: u8, address: IpAddr) -> bool {
    bits(network).1 == bits(address).1 && masked(network, length) == masked(address, length)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Calls a function; `None` if this module does not implement it. The receiver of a method is its first argument.
pub(super) fn call<'v>(name: &str, args: &[Val<'v>]) -> Option<Result<Val<'v>>> {
    let flag = |value: bool| Ok(Val::Bool(value));
    Some(match (name, args) {
        ("isIP", [Val::Text(text)]) => flag(parse_ip(text).is_ok()),
        ("ip", [Val::Text(text)]) => parse_ip(text).map_or_else(fail, |address| Ok(Val::Ip(address))),
        ("ip.isCanonical", [Val::Text(text)]) => {
            parse_ip(text).map_or_else(fail, |address| flag(address.to_string() == **text))
        }
        ("family", [Val::Ip(address)]) => Ok(Val::Int(if address.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Val::Ip(address)]) => flag(address.is_unspecified()),
        ("isLoopback", [Val::Ip(address)]) => flag(address.is_loopback()),
        ("isLinkLocalUnicast", [Val::Ip(address)]) => flag(is_link_local(*address)),
        ("isLinkLocalMulticast", [Val::Ip(address)]) => flag(match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }),
        ("isGlobalUnicast", [Val::Ip(address)]) => {
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            flag(!special && !is_broadcast && !is_link_local(*address))
        }
        ("isCIDR", [Val::Text(text)]) => flag(parse_cidr(text).is_ok()),
        ("cidr", [Val::Text(text)]) => network(text).map(|(address, length)| Val::Cidr(address, length)),
        ("ip", [Val::Cidr(address, _)]) => Ok(Val::Ip(*address)),
        ("prefixLength", [Val::Cidr(_, length)]) => Ok(Val::Int(i64::from(*length))),
        ("masked", [Val::Cidr(address, length)]) => Ok(Val::Cidr(masked(*address, *length), *length)),
        ("containsIP", [Val::Cidr(network, length), Val::Ip(address)]) => {
            flag(covers(*network, *length, *address))
        }
        ("containsIP", [Val::Cidr(network, length), Val::Text(text)]) => {
            parse_ip(text).map_or_else(fail, |address| flag(covers(*network, *length, address)))
        }
        ("containsCIDR", [Val::Cidr(network, length), Val::Cidr(other, inner)]) => {
            flag(inner >= length && covers(*network, *length, *other))
        }
        ("containsCIDR", [Val::Cidr(outer, length), Val::Text(text)]) => {
            network(text).map(|(other, inner)| Val::Bool(inner >= *length && covers(*outer, *length, other)))
        }
        _ => return None,
    })
}

/// Parses a network. Upstream adds the same words to the error twice.
fn network(text: &str) -> Result<(IpAddr, u8)> {
    let twice = |why| fail(format!("network address parse error during conversion from string: {why}"));
    parse_cidr(text).or_else(twice)
}
