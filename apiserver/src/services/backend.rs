//! The address of a server behind a Service, for connections of this server. Pure.
//!
//! Upstream: apiserver `pkg/util/proxy` (ResolveEndpoint).

use std::net::IpAddr;

use orlop_api::object::Object;
use serde_json::Value;

/// The label of an EndpointSlice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

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
/// EndpointSlices of the namespace.
///
/// # Errors
/// Why there is none.
pub(crate) fn backend(
    service: &Object,
    port: u16,
    slices: impl Iterator<Item = Object>,
) -> Result<(String, u16), NoBackend> {
    if service.str_at(&["spec", "type"]) == "ExternalName" {
        return Ok((service.str_at(&["spec", "externalName"]).to_owned(), port));
    }
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let chosen = ports.into_iter().flatten().find(|one| one["port"] == port).ok_or(NoBackend::Port)?;
    let port_name = chosen["name"].as_str().unwrap_or_default();
    let of_service = |slice: &Object| {
        let label = slice.labels().and_then(|labels| labels.get(SERVICE_NAME));
        label.and_then(Value::as_str) == Some(service.name())
    };
    let mut has_slices = false;
    for slice in slices.filter(of_service) {
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
    let address = endpoint["addresses"].get(0)?.as_str()?;
    address.parse::<IpAddr>().ok().map(|address| (address.to_string(), port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "s"}, "spec": spec}))
    }

    fn slice(service: &str, port_name: &str, endpoints: Value) -> Object {
        Object::from_value(json!({
            "metadata": {"labels": {SERVICE_NAME: service}},
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
            assert_eq!(backend(&service(spec), port, slices.into_iter()), want, "{case}");
        }
    }
}
