//! Connections to kubelets, pods and services: `log`, `exec`, `attach`, `portforward` and `proxy`.
//!
//! Logs are fetched from the node agent if the Node publishes where the agent serves them ([`LOG_ADDRESS`],
//! [`LOG_KEY`]). All other requests fail: with upstream's error if a check before the connection fails
//! (pkg/registry/core/pod/strategy.go), otherwise because this server does not connect to nodes.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use orlop_store::Record;
use serde_json::Value;

use crate::dispatch;
use crate::encode::stored;
use crate::https;
use crate::projection::Projection;
use crate::registry;
use crate::verbs::connect_admission;
use crate::verbs::connect_target::{NO_WAY, split, unreachable};
use crate::verbs::kubelet::{Agent, is_somewhere_else};
use crate::verbs::request::Request;
use crate::verbs::service_proxy;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};

/// The annotation with the IP address where the node's agent serves logs.
const LOG_ADDRESS: &str = "orlop.dev/log-address";

/// The annotation with the digest of the agent's public key.
const LOG_KEY: &str = "orlop.dev/log-key";

/// The kubelet port of a Node that does not publish one.
const KUBELET_PORT: i64 = 10_250;

/// Address types of a node, in order of preference.
const ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// The objects that [`connect`] decodes: the pod, service or node of the request, the node of a pod, and the endpoints of a
/// service.
pub(crate) fn decoded(request: &Request) -> Vec<Arc<Record<Projection>>> {
    let name = split(&request.resource.name, "").map_or(request.resource.name.as_str(), |(_, name, _)| name);
    let head = request.head();
    let Some(record) = head.get(&request.resource.key(name)) else { return Vec::new() };
    let further = match request.names().plural {
        "services" => registry::by_resource("", "v1", "endpoints")
            .map(|kind| dispatch::key(kind, &request.resource.namespace, name)),
        _ => {
            let on = record.view.field("spec.nodeName").filter(|node| !node.is_empty());
            let node = on.zip(registry::by_resource("", "v1", "nodes"));
            node.map(|(node, kind)| dispatch::key(kind, "", node))
        }
    };
    let further = further.and_then(|key| head.get(&key));
    std::iter::once(record).chain(further).cloned().collect()
}

/// Handles a request for a connection.
pub(crate) async fn connect(request: &Request) -> Result<Response, ApiError> {
    connect_admission::admit(request).await?;
    match (request.names().plural, request.resource.subresource.as_str()) {
        ("nodes", _) => {
            let (_, node, port) = split(&request.resource.name, "node")?;
            kubelet(request, node)?;
            Err(unreachable(node, port))
        }
        ("services", _) => service_proxy::proxy(request),
        (_, "log") => log(request).await,
        (_, "proxy") => pod_proxy(request),
        (_, subresource) => stream(request, subresource),
    }
}

async fn log(request: &Request) -> Result<Response, ApiError> {
    let name = &request.resource.name;
    let problems = log_options(&request.query)?;
    if !problems.is_empty() {
        return Err(ApiError::invalid("PodLogOptions", "", name, &problems));
    }
    let pod = pod(request, name)?;
    let container = container(&pod, request.query.text("container"))?;
    let node = pod.str_at(&["spec", "nodeName"]);
    if node.is_empty() {
        let mut nothing = Response::new(Body::empty());
        *nothing.status_mut() = StatusCode::NO_CONTENT;
        return Ok(nothing);
    }
    let path = format!("/containerLogs/{}/{name}/{container}", pod.namespace());
    let found = self::node(request, node)?;
    let Some(address) = found.annotation(LOG_ADDRESS) else {
        let address = address_of(&found)?;
        return Err(ApiError::plain_internal(format!("Get \"https://{address}{path}\": {NO_WAY}")));
    };
    let agent = Agent::new(address, port_of(&found), found.annotation(LOG_KEY))
        .and_then(|agent| check_address(address, &found, &own_boot_id()).map(|()| agent));
    let agent = agent
        .map_err(|why| ApiError::plain_internal(format!("annotation {LOG_ADDRESS} of node {node}: {why}")))?;
    let token = request.server.kubelet_tokens.issue(node, request.now());
    let path = format!("{path}{}", log_query(&request.query));
    agent.get(&path, &token, request.server.closing.clone()).await
}

/// Whether a node's agent may have this address: one of those in the status of the Node, or a loopback address if the Node states
/// the boot ID of this machine. A client with write access to the Node can state it too. It gains only a handshake with a local
/// service, because [`Agent`] sends nothing to a peer without the key of the Node.
///
/// # Errors
/// The reason.
fn check_address(address: &str, node: &Object, own_boot_id: &str) -> Result<(), String> {
    let addresses = node.at(&["status", "addresses"]).and_then(Value::as_array);
    if addresses.into_iter().flatten().any(|one| one["address"] == address) && is_somewhere_else(address) {
        return Ok(());
    }
    if !address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback()) {
        return Err(format!("{address} is not an address in the status of the Node"));
    }
    match node.str_at(&["status", "nodeInfo", "bootID"]) {
        boot_id if !boot_id.is_empty() && boot_id == own_boot_id => Ok(()),
        _ => Err(format!("{address} is this machine, and the node is another one")),
    }
}

/// The identifier of the current boot of this machine, as agents publish it in `status.nodeInfo.bootID`.
fn own_boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The query of the request to the agent, in upstream's form.
fn log_query(query: &Query) -> String {
    let mut out = form_urlencoded::Serializer::new(String::new());
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag) {
            out.append_pair(flag, "true");
        }
    }
    for name in ["sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream"] {
        let value = query.text(name);
        if !value.is_empty() {
            out.append_pair(name, value);
        }
    }
    match out.finish() {
        text if text.is_empty() => text,
        text => format!("?{text}"),
    }
}

/// Validates the options of a log; a value that is not a number is an error immediately.
fn log_options(query: &Query) -> Result<FieldErrors, ApiError> {
    let mut errors = FieldErrors::new();
    let (tail, limit, since) =
        (query.int("tailLines")?, query.int("limitBytes")?, query.int("sinceSeconds")?);
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        errors.invalid(&Path::new("tailLines"), tail, "must be greater than or equal to 0");
    }
    if let Some(limit) = limit.filter(|limit| *limit < 1) {
        errors.invalid(&Path::new("limitBytes"), limit, "must be greater than 0");
    }
    match since {
        Some(_) if !query.text("sinceTime").is_empty() => {
            let text = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.forbidden(&Path::new("[]"), text);
        }
        Some(since) if since < 1 => {
            errors.invalid(&Path::new("sinceSeconds"), since, "must be greater than 0");
        }
        Some(_) | None => {}
    }
    let stream = query.text("stream");
    if !matches!(stream, "" | "All" | "Stderr" | "Stdout") {
        errors.not_supported(&Path::new("stream"), stream, &["All", "Stderr", "Stdout"]);
    }
    Ok(errors)
}

/// `exec`, `attach` and `portforward`.
fn stream(request: &Request, subresource: &str) -> Result<Response, ApiError> {
    let name = &request.resource.name;
    let pod = pod(request, name)?;
    if subresource != "portforward" {
        container(&pod, request.query.text("container"))?;
    }
    let node = pod.str_at(&["spec", "nodeName"]);
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let address = kubelet(request, node)?;
    if !request.upgrade {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    Err(ApiError::plain_internal(format!("error dialing backend: dial tcp {address}: {NO_WAY}")))
}

fn pod_proxy(request: &Request) -> Result<Response, ApiError> {
    let (_, name, port) = split(&request.resource.name, "pod")?;
    let pod = pod(request, name)?;
    let address = pod.str_at(&["status", "podIP"]);
    if !is_somewhere_else(address) {
        return Err(ApiError::bad_request("address not allowed"));
    }
    let first_port = pod.at(&["spec", "containers"]).and_then(Value::as_array).into_iter().flatten();
    let first_port =
        first_port.filter_map(|one| one.get("ports")?.get(0)?.get("containerPort")?.as_i64()).next();
    let port = if port.is_empty() { first_port.map(|port| port.to_string()) } else { Some(port.to_owned()) };
    Err(unreachable(address, &port.unwrap_or_default()))
}

fn pod(request: &Request, name: &str) -> Result<Object, ApiError> {
    let record = request.found(&request.head(), name)?;
    let record = record.ok_or_else(|| ApiError::not_found(request.names(), name))?;
    stored::decode_as(request.kind(), &record)
}

/// The container with this name, or the only one.
fn container(pod: &Object, wanted: &str) -> Result<String, ApiError> {
    let name = pod.name();
    let names = |list: &str| -> Vec<&str> {
        let containers = pod.at(&["spec", list]).and_then(Value::as_array).into_iter().flatten();
        containers.filter_map(|container| container.get("name")?.as_str()).collect()
    };
    let regular = names("containers");
    let all = [names("initContainers"), regular.clone(), names("ephemeralContainers")].concat();
    match (wanted, regular.as_slice()) {
        ("", [only]) => Ok((*only).to_owned()),
        ("", []) => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        ("", _) => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (wanted, _) if all.contains(&wanted) => Ok(wanted.to_owned()),
        (wanted, _) => Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}"))),
    }
}

/// Returns the address and port of a node's kubelet.
fn kubelet(request: &Request, node: &str) -> Result<String, ApiError> {
    address_of(&self::node(request, node)?)
}

fn node(request: &Request, node: &str) -> Result<Object, ApiError> {
    let kind = registry::by_resource("", "v1", "nodes").ok_or_else(ApiError::no_such_resource)?;
    let record = request.head().get(&dispatch::key(kind, "", node)).cloned();
    let record = record.ok_or_else(|| ApiError::not_found(kind.names(), node))?;
    stored::decode_as(kind, &record)
}

fn port_of(node: &Object) -> i64 {
    let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_i64);
    port.filter(|port| *port > 0).unwrap_or(KUBELET_PORT)
}

fn address_of(node: &Object) -> Result<String, ApiError> {
    let addresses =
        node.at(&["status", "addresses"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_type = |wanted: &&str| addresses.iter().find(|address| address["type"] == **wanted);
    let Some(best) = ADDRESSES.iter().find_map(of_type) else {
        return Err(ApiError::plain_internal("no preferred addresses found; known addresses: []"));
    };
    let host = best.get("address").and_then(Value::as_str).unwrap_or_default();
    Ok(https::host_port(host, port_of(node)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn container_defaults_to_the_only_one() {
        let pod = |spec: Value| Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec}));
        let one = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
        let two =
            json!({"containers": [{"name": "a"}, {"name": "b"}], "ephemeralContainers": [{"name": "e"}]});
        for (spec, wanted, want) in [
            (&one, "", Ok("a")),
            (&one, "i", Ok("i")),
            (&one, "z", Err("container z is not valid for pod p")),
            (&two, "", Err("a container name must be specified for pod p, choose one of: [a b e]")),
            (&two, "e", Ok("e")),
            (&json!({}), "", Err("a container name must be specified for pod p")),
        ] {
            let got = container(&pod(spec.clone()), wanted).map_err(|error| error.message);
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{spec} {wanted:?}");
        }
    }

    #[test]
    fn log_query_contains_only_upstreams_options() {
        for (query, want) in [
            ("", ""),
            ("follow=false&container=c&pretty=true", ""),
            ("follow=true&previous=1&tailLines=0", "?follow=true&previous=true&tailLines=0"),
            (
                "sinceTime=2026-01-01T00:00:00%2B01:00&stream=All",
                "?sinceTime=2026-01-01T00%3A00%3A00%2B01%3A00&stream=All",
            ),
            ("tailLines=1&tailLines=2&limitBytes=3%26x", "?tailLines=1&limitBytes=3%26x"),
        ] {
            assert_eq!(log_query(&Query::parse(Some(query))), want, "{query}");
        }
    }

    #[test]
    fn log_options_are_validated() {
        for (query, want) in [
            ("", ""),
            ("tailLines=0&limitBytes=1&sinceSeconds=1&follow=true&stream=All", ""),
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "sinceSeconds=0&sinceTime=2026-01-01T00:00:00Z",
                "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            (
                "stream=x",
                "stream: Unsupported value: \"x\": supported values: \"All\", \"Stderr\", \"Stdout\"",
            ),
        ] {
            let errors = log_options(&Query::parse(Some(query))).unwrap();
            let shown: Vec<String> =
                errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            assert_eq!(shown.join("; "), want, "{query}");
        }
        assert_eq!(log_options(&Query::parse(Some("tailLines=x"))).unwrap_err().code, 400);
    }

    #[test]
    fn agent_has_an_address_of_its_node() {
        let node = |boot_id: &str| {
            Object::from_value(json!({"metadata": {"name": "n"}, "status": {
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"},
                    {"type": "ExternalIP", "address": "169.254.169.254"},
                    {"type": "InternalIP", "address": "::ffff:169.254.169.254"},
                    {"type": "InternalIP", "address": "::ffff:127.0.0.1"},
                    {"type": "InternalIP", "address": "::ffff:10.0.0.1"}],
                "nodeInfo": {"bootID": boot_id}}}))
        };
        for (address, boot_id, allowed) in [
            ("10.0.0.1", "b", true),
            ("10.0.0.2", "b", false),
            ("169.254.169.254", "b", false),
            ("::ffff:169.254.169.254", "own", false),
            ("::ffff:10.0.0.1", "b", true),
            ("::ffff:10.0.0.2", "b", false),
            ("::ffff:127.0.0.1", "own", true),
            ("::ffff:127.0.0.1", "b", false),
            ("127.0.0.1", "own", true),
            ("::1", "own", true),
            ("127.0.0.1", "b", false),
            ("127.0.0.1", "", false),
            ("n", "own", false),
        ] {
            assert_eq!(check_address(address, &node(boot_id), "own").is_ok(), allowed, "{address} {boot_id}");
        }
        assert!(check_address("127.0.0.1", &node(""), "").is_err(), "unknown");
    }

    #[test]
    fn local_and_multicast_addresses_are_rejected() {
        for (address, want) in [
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("169.254.0.1", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", true),
            ("::ffff:127.0.0.1", false),
            ("::ffff:7f00:1", false),
            ("::ffff:169.254.169.254", false),
            ("::ffff:0.0.0.0", false),
            ("::ffff:224.0.0.1", false),
            ("::ffff:255.255.255.255", false),
            ("", false),
        ] {
            assert_eq!(is_somewhere_else(address), want, "{address}");
        }
    }
}
