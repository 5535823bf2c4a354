//! Formats of values on the command line and in the configuration file.
//!
//! Durations and booleans have the format of upstream's flags, so that command lines of Kubernetes components
//! can be reused. The module only parses and contains no flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use orlop_apimachinery::quantity::Quantity;
use orlop_apimachinery::{duration, names};
use orlop_csi::drivers::Endpoint;
use orlop_csi::socket;
use orlop_volume::host_path_roots::HostPathRoots;

/// Parses a duration in the format of Go: `15s`, `1h30m`, `250ms`, `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|problem| format!("{problem}; a duration is written like 15s, 5m or 1h30m"))
}

/// Parses a boolean in the format of Go's flags.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// Parses a size in bytes, written as a quantity: `10Gi`, `500M`, `4096`.
pub fn bytes(text: &str) -> Result<i64, String> {
    let quantity =
        Quantity::parse(text).map_err(|problem| format!("{problem}; a size is written like 10Gi"))?;
    match quantity.value() {
        bytes if bytes > 0 => Ok(bytes),
        _ => Err("a size must be more than 0".to_owned()),
    }
}

/// Parses a limit in bytes, written as a quantity; 0 means no limit.
pub fn byte_limit(text: &str) -> Result<u64, String> {
    let quantity =
        Quantity::parse(text).map_err(|problem| format!("{problem}; a size is written like 512Mi"))?;
    u64::try_from(quantity.value()).map_err(|_| "a size must not be negative".to_owned())
}

/// Parses an address to listen on: `ADDR:PORT`, `[ADDR]:PORT` or `localhost:PORT`. Port 0 selects a free port.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let port =
        |port: &str| port.parse::<u16>().map_err(|_| format!("`{port}` is not a port number (0 to 65535)"));
    match text.rsplit_once(':') {
        Some(("localhost", rest)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port(rest)?)),
        Some(("", rest)) => {
            let port = port(rest)?;
            Err(format!(
                "`{text}` names no address: use 127.0.0.1:{port} for this machine only, \
                 or 0.0.0.0:{port} for all networks"
            ))
        }
        Some(_) | None => Err(format!("`{text}` is not an ADDR:PORT such as 127.0.0.1:8080 or [::1]:8080")),
    }
}

/// Parses a CSI driver and its socket: `NAME=unix:///path`.
pub fn csi_endpoint(text: &str) -> Result<Endpoint, String> {
    let (name, endpoint) = text.split_once('=').ok_or_else(|| {
        format!("`{text}` is not a NAME=ENDPOINT such as hostpath.csi.orlop.dev=unix:///run/csi/csi.sock")
    })?;
    if let Some(problem) = names::dns_subdomain(name).first() {
        return Err(format!("`{name}` is not a valid name of a CSI driver: {problem}"));
    }
    socket::path_of(endpoint).map_err(|error| error.to_string())?;
    Ok(Endpoint { name: name.to_owned(), endpoint: endpoint.to_owned() })
}

/// Parses a directory in which files may be erased.
pub fn host_path_root(text: &str) -> Result<HostPathRoots, String> {
    HostPathRoots::new([text.into()])
}

/// Parses a label: `key=value`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not a KEY=VALUE"))?;
    let problems = names::qualified_name(key);
    if let Some(problem) = problems.first() {
        return Err(format!("`{key}` is not a valid label key: {problem}"));
    }
    if let Some(problem) = names::label_value(value).first() {
        return Err(format!("`{value}` is not a valid label value: {problem}"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses a taint: `key=value:effect` or `key:effect`.
pub fn taint(text: &str) -> Result<Taint, String> {
    let shape = || format!("`{text}` is not a KEY=VALUE:EFFECT such as dedicated=storage:NoSchedule");
    let (what, effect) = text.rsplit_once(':').ok_or_else(shape)?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(format!("`{effect}` is not an effect: NoSchedule, PreferNoSchedule or NoExecute"));
    }
    let (key, value) = label(&if what.contains('=') { what.to_owned() } else { format!("{what}=") })?;
    Ok(Taint {
        key,
        value: Some(value).filter(|value| !value.is_empty()),
        effect: effect.to_owned(),
        time_added: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_taints_are_parsed() {
        assert_eq!(label("a/b=c"), Ok(("a/b".to_owned(), "c".to_owned())));
        for (text, why) in [
            ("a", "is not a KEY=VALUE"),
            ("-=c", "is not a valid label key"),
            ("a=-", "is not a valid label value"),
        ] {
            let error = label(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let said = |text| taint(text).map(|taint| (taint.key, taint.value, taint.effect));
        let expected = ("k".to_owned(), Some("v".to_owned()), "NoSchedule".to_owned());
        assert_eq!(said("k=v:NoSchedule"), Ok(expected));
        assert_eq!(said("k:NoExecute"), Ok(("k".to_owned(), None, "NoExecute".to_owned())));
        for (text, why) in [("k=v", "is not a KEY=VALUE:EFFECT"), ("k=v:No", "is not an effect")] {
            let error = taint(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn drivers_are_parsed() {
        let endpoint = csi_endpoint("d.example=unix:///run/d.sock").map(|at| (at.name, at.endpoint));
        assert_eq!(endpoint, Ok(("d.example".to_owned(), "unix:///run/d.sock".to_owned())));
        for (text, why) in [
            ("unix:///run/d.sock", "is not a NAME=ENDPOINT"),
            ("D=unix:///run/d.sock", "is not a valid name of a CSI driver"),
            ("d=tcp://127.0.0.1:1", "is no unix socket"),
        ] {
            let error = csi_endpoint(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn durations_have_the_format_of_go() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "15", "-1s", "1d"] {
            let error = duration(wrong).expect_err(wrong);
            assert!(error.contains("like 15s"), "{wrong}: {error}");
        }
    }

    #[test]
    fn sizes_are_parsed_as_quantities() {
        assert_eq!(bytes("10Gi"), Ok(10 << 30));
        assert_eq!(bytes("4096"), Ok(4096));
        for wrong in ["", "0", "-1Gi", "many"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn booleans_have_the_format_of_go() {
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
    fn listen_addresses_are_parsed() {
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
