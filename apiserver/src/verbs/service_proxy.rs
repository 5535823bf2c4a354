//! `proxy` of services: selects an endpoint of a service.

use serde_json::Value;

use crate::proxy::{ProxyTarget, Scheme};
use crate::registry;
use crate::verbs::connect_target::{allowed, named, port_number, split};
use crate::verbs::request::Request;
use orlop_api::object::Object;
use orlop_api::status::ApiError;

/// Selects an address of a service (upstream: pkg/registry/core/service/storage).
pub(super) fn target(request: &Request) -> Result<ProxyTarget, ApiError> {
    let id = request.resource.name.as_str();
    let (scheme, name, port) = split(id, "service")?;
    let service = named(request, request.kind_ref(), name)?;
    let port = service_port(&service, port)?;
    let kind = registry::by_resource("", "v1", "endpoints").ok_or_else(ApiError::no_such_resource)?;
    let endpoints = named(request, &kind.into(), name)?;
    let (address, port) = endpoint(&endpoints, id, &port)?;
    let port = port_number(&port.to_string())?;
    Ok(ProxyTarget::Address(allowed(&address)?, Some(port), Scheme::of(scheme)))
}

/// The name of a port of a service. Requests can contain its number instead.
fn service_port(service: &Object, port: &str) -> Result<String, ApiError> {
    let Ok(number) = port.parse::<i64>() else { return Ok(port.to_owned()) };
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array).into_iter().flatten();
    let found = ports.into_iter().find(|one| one["port"] == number);
    let Some(found) = found else {
        let message = format!("no service port {number} found for service {:?}", service.name());
        return Err(ApiError::unreachable(message));
    };
    Ok(found["name"].as_str().unwrap_or_default().to_owned())
}

/// The first address with a port of this name, and the number of the port. `id` is the name of the service in the request.
fn endpoint(endpoints: &Object, id: &str, port: &str) -> Result<(String, i64), ApiError> {
    let list = |of: &Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let none = |what: &str| ApiError::unreachable(format!("no endpoints available for service {what:?}"));
    let subsets = endpoints.at(&["subsets"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if subsets.is_empty() {
        return Err(none(endpoints.name()));
    }
    let found = subsets.iter().find_map(|subset| {
        let ports = list(subset, "ports");
        let found = ports.iter().find(|one| one["name"].as_str().unwrap_or_default() == port)?;
        let address = list(subset, "addresses").first()?["ip"].as_str()?.to_owned();
        Some((address, found["port"].as_i64()?))
    });
    found.ok_or_else(|| none(id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_resolved_to_an_endpoint() {
        let service = Object::from_value(json!({"metadata": {"name": "s"}, "spec": {"ports": [
            {"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}}));
        for (port, want) in [
            ("", Ok("")),
            ("https", Ok("https")),
            ("80", Ok("http")),
            ("81", Err("no service port 81 found for service \"s\"")),
        ] {
            let got = service_port(&service, port).map_err(|error| error.message);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{port}");
        }
        let endpoints = Object::from_value(json!({"subsets": [
            {"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "http", "port": 1}]},
            {"addresses": [{"ip": "10.0.0.2"}], "ports": [{"name": "http", "port": 2}, {"port": 3}]}]}));
        for (port, want) in [
            ("http", Ok(("10.0.0.2".to_owned(), 2))),
            ("", Ok(("10.0.0.2".to_owned(), 3))),
            ("x", Err("no endpoints available for service \"s:x\"".to_owned())),
        ] {
            assert_eq!(
                endpoint(&endpoints, &format!("s:{port}"), port).map_err(|error| error.message),
                want,
                "{port}"
            );
        }
        let none = Object::from_value(json!({"metadata": {"name": "s"}}));
        let error = endpoint(&none, "s:http", "http").map_err(|error| error.message);
        assert_eq!(error, Err("no endpoints available for service \"s\"".to_owned()));
    }
}
