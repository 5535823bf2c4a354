//! The address of a server behind a Service, for connections of this server. Pure.
//!
//! Upstream: apiserver `pkg/util/proxy` (ResolveEndpoint).

use std::net::IpAddr;

use orlop_api::object::Object;
use orlop_apimachinery::labels::Selector;
use serde_json::Value;

use crate::encode::undecoded::Undecoded;

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The most slices of a Service that a lookup decodes.
const MAX_SLICES: usize = 100;
/// The most bytes of them: 30 slices of 1,000 endpoints each.
const MAX_BYTES: usize = 4 << 20;

/// Why a Service has no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoBackend {
    /// The Service has no such port.
    Port,
    /// The Service has no EndpointSlice.
    Slices,
    /// No endpoint is ready and has the port of this name.
    Address { port_name: String },
}

/// Host and port of a server behind a port of a Service: the external name, or the first endpoint that is ready. `slices` are the
/// EndpointSlices of the namespace. Users may create any number of them, so only those of the Service are decoded, and of those a
/// bounded number.
///
/// # Errors
/// Why there is none.
pub(crate) fn backend(
    service: &Object,
    port: u16,
    slices: impl Iterator<Item = impl Undecoded>,
) -> Result<(String, u16), NoBackend> {
    if service.str_at(&["spec", "type"]) == "ExternalName" {
        return Ok((service.str_at(&["spec", "externalName"]).to_owned(), port));
    }
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let chosen = ports.into_iter().flatten().find(|one| one["port"] == port).ok_or(NoBackend::Port)?;
    let port_name = chosen["name"].as_str().unwrap_or_default();
    // The name of every Service is a valid value of a label.
    let own =
        Selector::parse(&format!("{SERVICE_NAME}={}", service.name())).map_err(|_| NoBackend::Slices)?;
    let (mut has_slices, mut left) = (false, MAX_BYTES);
    for slice in slices.filter(|slice| slice.may_match(&own)).take(MAX_SLICES) {
        let Some(rest) = left.checked_sub(slice.bytes()) else {
            has_slices = true;
            break;
        };
        left = rest;
        let Some(slice) = slice.decode() else { continue };
        has_slices = true;
        if let Some(address) = ready_address(&slice, port_name) {
            return Ok(address);
        }
    }
    match has_slices {
        true => Err(NoBackend::Address { port_name: port_name.to_owned() }),
        false => Err(NoBackend::Slices),
    }
}

/// A ready endpoint of a slice, and its port with this name.
fn ready_address(slice: &Object, port_name: &str) -> Option<(String, u16)> {
    let list = |name: &str| slice.at(&[name]).and_then(Value::as_array).into_iter().flatten();
    let port = list("ports").find(|one| one["name"].as_str().unwrap_or_default() == port_name)?;
    let port = u16::try_from(port["port"].as_u64()?).ok()?;
    let endpoint = list("endpoints").find(|one| one["conditions"]["ready"] != false)?;
    let address: IpAddr = endpoint["addresses"].get(0)?.as_str()?.parse().ok()?;
    is_of_type(address, slice.str_at(&["addressType"])).then(|| (address.to_string(), port))
}

/// Whether a slice with this `addressType` may contain an address. Validation bans loopback and link-local addresses only in slices of
/// the types IPv4 and IPv6. An address of the type FQDN may be the text of any address.
fn is_of_type(address: IpAddr, address_type: &str) -> bool {
    match (address, address_type) {
        (IpAddr::V4(_), "IPv4") => true,
        // An IPv4 address in the form of an IPv6 address.
        (IpAddr::V6(address), "IPv6") => address.to_ipv4_mapped().is_none(),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::encode::undecoded::testing::{Counted, DecodeCounter};

    fn service(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "s"}, "spec": spec}))
    }

    fn slice(service: &str, port_name: &str, endpoints: Value) -> Object {
        let addresses = endpoints.to_string();
        Object::from_value(json!({
            "metadata": {"labels": {SERVICE_NAME: service}},
            "addressType": if addresses.contains("::") { "IPv6" } else { "IPv4" },
            "ports": [{"name": port_name, "port": 8443}], "endpoints": endpoints,
        }))
    }

    #[test]
    fn first_ready_endpoint_with_the_port_is_chosen() {
        let own = json!({"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]});
        let ready =
            json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.2"]}]);
        let missing = || Err(NoBackend::Address { port_name: "https".to_owned() });
        for (case, spec, port, slices, want) in [
            ("1 ready", own.clone(), 443, vec![slice("s", "https", ready.clone())], Ok(("10.0.0.2", 8443))),
            (
                "2 another port",
                own.clone(),
                80,
                vec![slice("s", "https", ready.clone())],
                Err(NoBackend::Port),
            ),
            ("3 no slices", own.clone(), 443, vec![], Err(NoBackend::Slices)),
            (
                "4 slices of another Service",
                own.clone(),
                443,
                vec![slice("t", "https", ready.clone())],
                Err(NoBackend::Slices),
            ),
            ("5 another port name", own.clone(), 443, vec![slice("s", "http", ready.clone())], missing()),
            (
                "6 none is ready",
                own.clone(),
                443,
                vec![slice(
                    "s",
                    "https",
                    json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]),
                )],
                missing(),
            ),
            (
                "7 the second slice",
                own.clone(),
                443,
                vec![
                    slice("s", "https", json!([])),
                    slice("s", "https", json!([{"addresses": ["fd00::1"]}])),
                ],
                Ok(("fd00::1", 8443)),
            ),
            (
                "8 no address",
                own,
                443,
                vec![slice("s", "https", json!([{"addresses": ["a.example"]}]))],
                missing(),
            ),
            (
                "9 an external name",
                json!({"type": "ExternalName", "externalName": "a.example"}),
                443,
                vec![],
                Ok(("a.example", 443)),
            ),
        ] {
            let want = want.map(|(host, port): (&str, u16)| (host.to_owned(), port));
            assert_eq!(found(&service(spec), port, slices).0, want, "{case}");
        }
    }

    /// The result with these slices, and the number and the bytes of the slices that are decoded.
    fn found(
        service: &Object,
        port: u16,
        slices: Vec<Object>,
    ) -> (Result<(String, u16), NoBackend>, usize, usize) {
        let counter = DecodeCounter::default();
        let slices = slices.into_iter().map(|object| Counted { object, counter: &counter });
        let result = backend(service, port, slices);
        (result, counter.objects.get(), counter.bytes.get())
    }

    #[test]
    fn only_slices_of_the_service_are_decoded() {
        let own = service(json!({"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]}));
        let of = |name: &str, address: &str| slice(name, "https", json!([{"addresses": [address]}]));
        let mut slices = vec![of("t", "10.0.0.9"); 500];
        slices.extend([of("s", "10.0.0.1"), of("s", "10.0.0.2")]);
        slices.extend(vec![of("t", "10.0.0.9"); 500]);
        let (result, decoded, _) = found(&own, 443, slices);
        assert_eq!(result, Ok(("10.0.0.1".to_owned(), 8443)));
        assert_eq!(decoded, 1, "the slice with the first ready endpoint");
    }

    #[test]
    fn slices_of_the_service_are_bounded() {
        let own = service(json!({"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]}));
        let unready = |size: usize| {
            let mut slice = slice("s", "https", json!([]));
            slice.set(&["metadata", "annotations"], json!({"a": "x".repeat(size)}));
            slice
        };
        let missing = Err(NoBackend::Address { port_name: "https".to_owned() });
        for (case, slices, objects) in [
            ("1 many", vec![unready(10); 1_000], 100),
            ("2 large", vec![unready(1 << 20); 10], 3),
            ("3 too large", vec![unready(5 << 20)], 0),
        ] {
            let (result, decoded, bytes) = found(&own, 443, slices);
            assert_eq!((result, decoded), (missing.clone(), objects), "{case}");
            assert!(bytes <= 4 << 20, "{case}: {bytes} bytes");
        }
    }

    #[test]
    fn addresses_have_the_type_of_their_slice() {
        let own = service(json!({"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]}));
        for (address_type, address, is_used) in [
            ("IPv4", "10.0.0.1", true),
            ("IPv6", "fd00::1", true),
            ("FQDN", "127.0.0.1", false),
            ("FQDN", "169.254.169.254", false),
            ("FQDN", "::1", false),
            ("FQDN", "a.example", false),
            ("IPv4", "fd00::1", false),
            ("IPv6", "10.0.0.1", false),
            ("IPv6", "::ffff:127.0.0.1", false),
            ("IPv4", "a.example", false),
            ("", "10.0.0.1", false),
        ] {
            let mut slice = slice("s", "https", json!([{"addresses": [address]}]));
            slice.set(&["addressType"], address_type);
            let (result, ..) = found(&own, 443, vec![slice]);
            assert_eq!(result.is_ok(), is_used, "{address_type} {address}");
        }
    }
}
