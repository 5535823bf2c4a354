//! Validation of addresses and ports, shared by services and their endpoints, with upstream's messages.

use std::net::{IpAddr, Ipv6Addr};

use orlop_apimachinery::names;
use serde_json::Value;

use super::checks;
use crate::validate::{FieldErrors, Path};

const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
/// The message about the number of a port.
pub(super) const NO_PORT: &str = "must be between 1 and 65535, inclusive";
/// Transport protocols.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Validates an IP address, and returns it if it is valid.
pub(super) fn ip(value: &str, path: &Path, errors: &mut FieldErrors) -> Option<IpAddr> {
    let parsed = value.parse().ok();
    if parsed.is_none() {
        errors.invalid(path, value, NO_IP);
    }
    parsed
}

/// Rejects addresses with a special meaning, such as loopback and link-local ones.
pub(super) fn not_special(value: &str, path: &Path, errors: &mut FieldErrors) {
    let Ok(ip) = value.parse::<IpAddr>() else {
        return errors.invalid(path, value, "must be a valid IP address");
    };
    let ip = ip.to_canonical();
    let mut refuse = |why: &str| errors.invalid(path, value, why);
    if ip.is_unspecified() {
        refuse("may not be unspecified (0.0.0.0 or ::)");
    }
    if ip.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), matches!(ip.octets(), [224, 0, 0, _])),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), is_link_local_multicast(ip)),
    };
    if link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn is_link_local_multicast(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 0xff && second & 0x0f == 0x02
}

/// A range of addresses such as `10.0.0.0/24`.
pub(super) fn cidr(value: &str, path: &Path, errors: &mut FieldErrors) {
    let fits = value.split_once('/').is_some_and(|(ip, bits)| {
        let most = match ip.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    });
    if !fits {
        errors.invalid(path, value, NO_CIDR);
    }
}

/// The number of a port.
pub(super) fn port(value: i64, path: &Path, errors: &mut FieldErrors) {
    if !(1..=65535).contains(&value) {
        errors.invalid(path, value, NO_PORT);
    }
}

/// The number or the name of a port.
pub(super) fn port_or_name(value: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    match value.and_then(Value::as_str) {
        Some(name) => checks::each(errors, path, name, names::port_name(name)),
        None => port(value.and_then(Value::as_i64).unwrap_or_default(), path, errors),
    }
}

/// A transport protocol; required.
pub(super) fn protocol(value: &str, path: &Path, errors: &mut FieldErrors) {
    if checks::required(errors, path, value) {
        checks::one_of(errors, path, Some(value), &PROTOCOLS);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::causes;
    use super::*;

    fn says(rule: impl FnOnce(&Path, &mut FieldErrors)) -> Vec<String> {
        let mut errors = FieldErrors::new();
        rule(&Path::new("f"), &mut errors);
        errors.causes().iter().map(|cause| cause.message.clone()).collect()
    }

    #[test]
    fn special_addresses_are_rejected() {
        for (ip, want) in [
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("x", Some("must be a valid IP address")),
            ("0.0.0.0", Some("may not be unspecified (0.0.0.0 or ::)")),
            ("::", Some("may not be unspecified (0.0.0.0 or ::)")),
            ("127.1.2.3", Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")),
            ("::1", Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")),
            ("169.254.1.1", Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")),
            ("fe80::1", Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")),
            ("224.0.0.9", Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")),
            ("ff02::1", Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")),
            ("224.0.1.9", None),
            ("::ffff:127.0.0.1", Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")),
            ("::ffff:169.254.1.1", Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")),
        ] {
            let want: Vec<String> =
                want.iter().map(|why| format!("Invalid value: \"{ip}\": {why}")).collect();
            assert_eq!(says(|path, errors| not_special(ip, path, errors)), want, "{ip}");
        }
    }

    #[test]
    fn cidr_ranges_and_ip_addresses_are_validated() {
        for (text, want) in [
            ("10.0.0.0/24", true),
            ("::/0", true),
            ("10.0.0.0/33", false),
            ("10.0.0.0", false),
            ("10.0.0.0/+8", false),
            ("10.0.0/8", false),
            ("::/129", false),
        ] {
            assert_eq!(says(|path, errors| cidr(text, path, errors)).is_empty(), want, "{text}");
        }
        let text = "Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        let found = causes(|errors| {
            ip("1.2.3", &Path::new("f"), errors);
        });
        assert_eq!(found, [("FieldValueInvalid", "f", text)]);
    }

    #[test]
    fn ports_and_protocols_are_validated() {
        for (value, want) in [
            (Value::from(1), 0),
            (Value::from(65535), 0),
            (Value::from(0), 1),
            (Value::from(65536), 1),
            (Value::from("http"), 0),
            (Value::from("-"), 2),
        ] {
            let found = says(|path, errors| port_or_name(Some(&value), path, errors));
            assert!((want == 0) == found.is_empty(), "{value}: {found:?}");
        }
        assert_eq!(says(|path, errors| protocol("", path, errors)), ["Required value"]);
        let text = "Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"";
        assert_eq!(says(|path, errors| protocol("tcp", path, errors)), [text]);
    }
}
