//! Which servers are reached without the proxy of the environment.
//!
//! Upstream: golang.org/x/net `http/httpproxy`.

use std::ffi::OsString;
use std::net::IpAddr;

/// The servers that are reached directly, as the environment names them: the first of the two variables that is not empty.
pub(super) fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> String {
    let mut values = ["NO_PROXY", "no_proxy"].into_iter().filter_map(variable);
    let first = values.find(|value| !value.is_empty());
    first.unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a server is reached directly although `HTTPS_PROXY` names a proxy: it is this machine, or `NO_PROXY` contains its host.
pub(super) fn is_direct(host: &str, port: u16, no_proxy: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let (name, wanted_port) = split_port(&entry);
        wanted_port.is_none_or(|wanted| wanted == port) && matches(name, &host, address)
    })
}

/// An entry without its port, and the port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if entry.parse::<IpAddr>().is_ok() {
        return (entry, None);
    }
    match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        Some(_) | None => (entry, None),
    }
}

fn matches(name: &str, host: &str, address: Option<IpAddr>) -> bool {
    if name == "*" {
        return true;
    }
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    if let Some(address) = address {
        return match literal.split_once('/') {
            Some((network, bits)) => is_within(address, network, bits),
            None => literal.parse::<IpAddr>().is_ok_and(|entry| entry == address),
        };
    }
    match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        // Only names below this one.
        Some(domain) => is_below(host, domain),
        None => host == name || is_below(host, name),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Whether an address is in a network.
fn is_within(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let common = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) if bits <= 32 => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) if bits <= 128 => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => return false,
    };
    common >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_variable_that_is_not_empty_counts() {
        for (upper, lower, want) in [
            (None, None, ""),
            (Some("a"), None, "a"),
            (None, Some("b"), "b"),
            (Some("a"), Some("b"), "a"),
            (Some(""), Some("b"), "b"),
            (Some(""), Some(""), ""),
        ] {
            let variable = |name: &str| if name == "NO_PROXY" { upper } else { lower }.map(OsString::from);
            assert_eq!(of_environment(variable), want, "{upper:?} {lower:?}");
        }
    }

    #[test]
    fn entries_match_hosts_as_in_go() {
        for (host, no_proxy, want) in [
            ("127.0.0.1", "", true),
            ("localhost", "", true),
            ("[::1]", "", true),
            ("a.example", "", false),
            ("a.example", "*", true),
            ("a.example", "b.example, a.example", true),
            ("b.a.example", "a.example", true),
            ("ba.example", "a.example", false),
            ("a.example", ".a.example", false),
            ("b.a.example", ".a.example", true),
            ("b.a.example", "*.a.example", true),
            ("A.Example", "a.EXAMPLE", true),
            ("a.example", "a.example:6443", true),
            ("a.example", "a.example:443", false),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3:6443", true),
            ("10.1.2.3", "0.0.0.0/0", true),
            ("10.1.2.3", "10.0.0.0/33", false),
            ("[fd00::1]", "fd00::/8", true),
            ("[fd00::1]", "[fd00::1]:6443", true),
            ("[fd00::1]", "fd00::1", true),
            ("[fd00::1]", "10.0.0.0/8", false),
        ] {
            assert_eq!(is_direct(host, 6443, no_proxy), want, "{host} {no_proxy}");
        }
    }
}
