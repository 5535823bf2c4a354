//! How single values are written on the command line and in the configuration file.
//!
//! Durations and booleans are written as upstream's flags take them, so that a line that starts a
//! Kubernetes process can be used here. Parsing only: no flag is known here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Units of a duration, longest spelling first, in nanoseconds.
const UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60.0 * 1e9), ("h", 3600.0 * 1e9)];

/// A duration as Go writes it: `15s`, `1h30m`, `250ms`, `1.5h`, `0`. Negative ones are refused.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration; write it like 15s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative; a duration here is zero or more"));
    }
    let mut rest = text;
    let mut nanos = 0.0_f64;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..end]).ok_or_else(wrong)?;
        nanos += number * unit;
        rest = &rest[end..];
    }
    // Go counts nanoseconds in 63 bits: 292 years.
    if nanos > i64::MAX as f64 {
        return Err(format!("`{text}` is longer than 292 years"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// A boolean as Go's flags take it.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// Where to listen: `ADDR:PORT`, `[ADDR]:PORT` or `localhost:PORT`. Port 0 lets the system choose.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let port =
        |port: &str| port.parse::<u16>().map_err(|_| format!("`{port}` is no port number (0 to 65535)"));
    match text.rsplit_once(':') {
        Some(("localhost", rest)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port(rest)?)),
        Some(("", rest)) => {
            let port = port(rest)?;
            Err(format!(
                "`{text}` does not say on which address: give 127.0.0.1:{port} for this machine alone, \
                 or 0.0.0.0:{port} for all networks"
            ))
        }
        Some(_) | None => Err(format!("`{text}` is no ADDR:PORT such as 127.0.0.1:8080 or [::1]:8080")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        let cases = [
            ("0", Some(Duration::ZERO)),
            ("15s", Some(Duration::from_secs(15))),
            ("1h30m", Some(Duration::from_secs(5400))),
            ("250ms", Some(Duration::from_millis(250))),
            ("1.5h", Some(Duration::from_secs(5400))),
            (".5s", Some(Duration::from_millis(500))),
            ("3µs", Some(Duration::from_micros(3))),
            ("3us", Some(Duration::from_micros(3))),
            ("7ns", Some(Duration::from_nanos(7))),
            ("24h", Some(Duration::from_secs(86_400))),
            ("", None),
            ("15", None),
            ("s", None),
            ("1d", None),
            ("1..5s", None),
            ("-1s", None),
            ("15 s", None),
            ("9999999h", None),
        ];
        for (text, want) in cases {
            assert_eq!(duration(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn booleans_as_go_takes_them() {
        for text in ["1", "t", "true", "TRUE", "True", "T"] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "false", "FALSE", "False", "F"] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        assert!(boolean("yes").is_err());
        assert!(boolean("").is_err());
    }

    #[test]
    fn listen_addresses() {
        let cases = [
            ("127.0.0.1:8080", Ok("127.0.0.1:8080")),
            ("[::1]:0", Ok("[::1]:0")),
            ("localhost:80", Ok("127.0.0.1:80")),
            (":8080", Err("0.0.0.0:8080")),
            ("8080", Err("ADDR:PORT")),
            ("localhost:x", Err("port number")),
            ("example.org:1", Err("ADDR:PORT")),
        ];
        for (text, want) in cases {
            match (listen_address(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.to_string(), want, "{text}"),
                (Err(got), Err(part)) => assert!(got.contains(part), "{text}: {got}"),
                (got, want) => panic!("{text}: got {got:?}, want {want:?}"),
            }
        }
    }
}
