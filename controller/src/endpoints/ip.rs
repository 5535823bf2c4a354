//! Parses IP addresses like Go's old parser, which accepts leading zeros, and writes them in the canonical form.
//! Upstream: ParseIPSloppy of k8s.io/utils/net.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address; `None` if the text is none. IPv4 addresses in IPv6 form count as IPv4.
pub fn parse(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return parse_v4(text).map(IpAddr::V4);
    }
    // An IPv4 address at the end may have leading zeros too.
    let address = match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => format!("{head}:{}", parse_v4(tail)?).parse(),
        _ => text.parse::<Ipv6Addr>(),
    };
    address.ok().map(|address| IpAddr::V6(address).to_canonical())
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|_| is_number)
    });
    let address = Ipv4Addr::new(parts.next()??, parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(address)
}

/// Whether the text is an IPv6 address.
pub fn is_v6(text: &str) -> bool {
    parse(text).is_some_and(|ip| ip.is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_the_canonical_form() {
        let table = [
            ("1 IPv4", "10.9.0.1", Some("10.9.0.1")),
            ("2 IPv4 with leading zeros", "010.009.000.001", Some("10.9.0.1")),
            ("3 IPv4 in IPv6 form", "::ffff:10.9.0.01", Some("10.9.0.1")),
            ("4 IPv6", "2001:DB8:0:0:0:0:0:1", Some("2001:db8::1")),
            ("5 too large", "10.9.0.256", None),
            ("6 too few", "10.9.0", None),
            ("7 too many", "10.9.0.1.1", None),
            ("8 a sign", "10.9.0.+1", None),
            ("9 a zone", "fe80::1%eth0", None),
            ("10 a name", "localhost", None),
            ("11 nothing", "", None),
        ];
        for (name, text, wanted) in table {
            assert_eq!(parse(text).map(|ip| ip.to_string()).as_deref(), wanted, "{name}");
        }
        assert!(is_v6("fd00::1") && !is_v6("10.9.0.1") && !is_v6("::ffff:10.9.0.1") && !is_v6("x"));
    }
}
