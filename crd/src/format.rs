//! The string formats that schemas may name. An unknown format accepts every string.
//!
//! Upstream: kube-openapi `pkg/validation/strfmt`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::Date;
use regex::Regex;

/// Upstream's message about names of kinds and versions.
pub(crate) const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/// Whether a string matches a format.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "email" => matches(&EMAIL, text),
        "hostname" => text.len() < 254 && matches(&HOSTNAME, text),
        "uri" => http::Uri::try_from(text).is_ok() && (text.contains(':') || text.starts_with('/')),
        "mac" => matches(&MAC, text),
        "duration" => is_duration(text),
        "hexcolor" => matches(&HEX_COLOR, text),
        "k8s-short-name" => text.len() <= 63 && matches(&LABEL, text),
        "k8s-long-name" => text.len() <= 253 && matches(&SUBDOMAIN, text),
        _ => true,
    }
}

/// Whether upstream knows a format for values of a type.
pub(crate) fn is_recognized(ty: &str, format: &str) -> bool {
    const OF_TEXTS: [&str; 26] = [
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "k8sshortname",
        "k8slongname",
    ];
    match ty {
        "" | "string" => OF_TEXTS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
    };
}

pattern!(EMAIL, r"^[^@\s<>]+@[^@\s<>]+$");
pattern!(
    HOSTNAME,
    r"^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*\.?$"
);
pattern!(MAC, r"^([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2}[:-]?){1,3}$");
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(LABEL, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
pattern!(SUBDOMAIN, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
pattern!(
    UUID,
    r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?([0-9a-fA-F])[0-9a-fA-F]{3}-?([0-9a-fA-F])[0-9a-fA-F]{3}-?[0-9a-fA-F]{12}$"
);

fn matches(pattern: &Option<Regex>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
}

fn is_uuid(format: &str, text: &str) -> bool {
    let Some(pattern) = &*UUID else { return true };
    let Some(found) = pattern.captures(text) else { return false };
    match format.strip_prefix("uuid") {
        Some("") | None => true,
        Some("3") => &found[1] == "3",
        Some(version) => {
            &found[1] == version && matches!(found[2].to_ascii_lowercase().as_str(), "8" | "9" | "a" | "b")
        }
    }
}

/// Whether a text is a DNS label as in RFC 1035.
pub(crate) fn is_label_1035(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|last| last.is_ascii_lowercase() || last.is_ascii_digit())
        && bytes.iter().all(|c| inner(*c))
}

/// Parses an absolute URL or an absolute path.
pub(crate) fn parse_url(text: &str) -> Option<http::Uri> {
    let uri: http::Uri = text.parse().ok()?;
    (uri.scheme().is_some() || text.starts_with('/')).then_some(uri)
}

/// `10.0.0.0/8`
pub(crate) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// Whether the text is a Go duration, or a number and a unit.
fn is_duration(text: &str) -> bool {
    if orlop_apimachinery::duration::parse(text.strip_prefix('-').unwrap_or(text)).is_ok() {
        return true;
    }
    let Some((number, word)) = text.trim().split_once(' ') else { return false };
    let word = word.trim().trim_end_matches('s');
    let known = ["ns", "us", "ms", "second", "sec", "minute", "min", "hour", "hr", "day", "week", "wk"];
    number.parse::<u64>().is_ok() && known.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_valid_and_reject_invalid_strings() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02"),
            ("date", "2026-01-02", "2026-13-02"),
            ("byte", "YQ==", "?"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
            ("email", "a@b.c", "a b"),
            ("hostname", "a.b-c", "-a"),
            ("uri", "https://a/b", "no uri"),
            ("mac", "00:11:22:33:44:55", "00:11"),
            ("duration", "1h30m", "soon"),
            ("hexcolor", "#a0b1c2", "#zz"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("whatever", "x"));
        for (ty, format, want) in [
            ("string", "date-time", true),
            ("string", "k8s-short-name", true),
            ("", "uuid", true),
            ("string", "int32", false),
            ("integer", "int64", true),
            ("object", "date", false),
            ("string", "odd", false),
        ] {
            assert_eq!(is_recognized(ty, format), want, "{ty} {format}");
        }
    }
}
