//! Connections to kubelets, pods and services: `log`, `exec`, `attach`, `portforward` and `proxy`.
//!
//! Logs and streams come from the kubelet of the node. orlop's own node agent serves only logs; its Node publishes the address and the
//! key ([`LOG_ADDRESS`], [`LOG_KEY`]). This module selects the target of a proxy, and [`crate::proxy`] forwards the request.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{StatusCode, header};
use http_body_util::Empty;
use orlop_store::Record;
use serde_json::Value;

use crate::dispatch;
use crate::encode::stored;
use crate::kubelet_client::address::{KubeletAddress, Refusal, is_somewhere_else, own_boot_id};
use crate::kubelet_client::relay::{StreamLife, relay};
use crate::limits::compute::leave_place;
use crate::projection::Projection;
use crate::proxy::{self, ProxyTarget, Scheme};
use crate::registry;
use crate::verbs::connect_admission;
use crate::verbs::connect_target::{allowed, port_number, split};
use crate::verbs::kubelet::{Agent, log_of, refused};
use crate::verbs::request::Request;
use crate::verbs::service_proxy;
use crate::verbs::watch::account;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_api::validate::{FieldErrors, Path};

/// The annotation with the IP address where the node's agent serves logs.
const LOG_ADDRESS: &str = "orlop.dev/log-address";

/// The annotation with the digest of the agent's public key.
const LOG_KEY: &str = "orlop.dev/log-key";

/// The port of a node agent whose Node names none.
const AGENT_PORT: i64 = 10_250;

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
        ("nodes", _) => node_proxy(request).await,
        ("services", _) => proxy::forward(request, &service_proxy::target(request)?).await,
        (_, "log") => log(request).await,
        (_, "proxy") => proxy::forward(request, &pod_target(request)?).await,
        (_, subresource) => stream(request, subresource).await,
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
        return kubelet_log(request, &found, &format!("{path}{}", log_query(&request.query))).await;
    };
    let agent = Agent::new(address, port_of(&found), found.annotation(LOG_KEY))
        .and_then(|agent| check_address(address, &found, &own_boot_id()).map(|()| agent));
    leave_place();
    let agent = agent
        .map_err(|why| ApiError::plain_internal(format!("annotation {LOG_ADDRESS} of node {node}: {why}")))?;
    let token = request.server.kubelet_tokens.issue(node, request.now());
    let path = format!("{path}{}", log_query(&request.query));
    agent.get(&path, &token, request.server.closing.clone()).await
}

/// A log from a kubelet.
async fn kubelet_log(request: &Request, node: &Object, path: &str) -> Result<Response, ApiError> {
    let address = kubelet(request, node)?;
    let url = format!("https://{address}{path}");
    let failed = |why: String| ApiError::plain_internal(format!("Get \"{url}\": {why}"));
    let sent = http::Request::get(path).header(header::USER_AGENT, "orlop").body(Empty::new());
    let sent = sent.map_err(|error| failed(error.to_string()))?;
    leave_place();
    let answer = request.server.kubelets.send(&address, sent).await.map_err(failed)?;
    log_of(answer, &url, request.server.closing.clone()).await
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

/// The path and the query of a stream in the API of kubelets (upstream: `streamLocation` and `streamParams`).
fn stream_path(subresource: &str, pod: &Object, container: &str, query: &Query) -> String {
    let mut out = form_urlencoded::Serializer::new(String::new());
    let (namespace, name) = (pod.namespace(), pod.name());
    if subresource == "portforward" {
        for port in query.all("ports").flat_map(|ports| ports.split(',')).filter(|port| !port.is_empty()) {
            out.append_pair("port", port);
        }
        return format!("/portForward/{namespace}/{name}?{}", out.finish());
    }
    for (flag, of_kubelet) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")]
    {
        if query.flag(flag) {
            out.append_pair(of_kubelet, "1");
        }
    }
    if subresource == "exec" {
        for argument in query.all("command") {
            out.append_pair("command", argument);
        }
    }
    format!("/{subresource}/{namespace}/{name}/{container}?{}", out.finish())
}

/// `exec`, `attach` and `portforward`.
async fn stream(request: &Request, subresource: &str) -> Result<Response, ApiError> {
    let name = &request.resource.name;
    let pod = pod(request, name)?;
    let container = match subresource {
        "portforward" => String::new(),
        _ => container(&pod, request.query.text("container"))?,
    };
    let node = pod.str_at(&["spec", "nodeName"]);
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let found = self::node(request, node)?;
    let address = kubelet(request, &found)?;
    let Some(client) = &request.upgrade else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    let failed = |why: &str| ApiError::plain_internal(format!("error dialing backend: {why}"));
    if found.annotation(LOG_ADDRESS).is_some() {
        return Err(failed("the node agent of orlop does not support it"));
    }
    let kubelets = &request.server.kubelets;
    let place = kubelets.place().ok_or_else(|| {
        ApiError::too_many_requests("there are too many streams to pods: close others, or try again later", 1)
    })?;
    leave_place();
    let stream = kubelets.connect(&address).await.map_err(|why| failed(&why))?;
    // Before the request: the kubelet would run a command whose stream cannot begin.
    let switch = client
        .take_switch()
        .ok_or_else(|| ApiError::bad_request("this connection cannot switch its protocol: use HTTP/1.1"))?;
    let path = stream_path(subresource, &pod, &container, &request.query);
    let mut sent = http::Request::new(Empty::new());
    *sent.uri_mut() = path.parse().map_err(|_| ApiError::bad_request("the parameters are too long"))?;
    *sent.method_mut() = client.method.clone();
    *sent.headers_mut() = client.headers();
    let answer = kubelets.send_over(stream, &address, sent).await.map_err(|why| failed(&why))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(answer, &format!("https://{address}{path}")).await);
    }
    let life = StreamLife {
        held: (place, request.connection.as_ref().map(|connection| connection.begin(http::Version::HTTP_11))),
        end: request.server.closing.clone().cancelled_owned(),
        is_alive: account::is_alive(&request.server, &request.user, request.credential.clone()),
    };
    Ok(relay(switch, answer, life))
}

/// The proxy of a node: its kubelet, or another server of its machine if the request has another port.
async fn node_proxy(request: &Request) -> Result<Response, ApiError> {
    let (scheme, name, port) = split(&request.resource.name, "node")?;
    let node = node(request, name)?;
    let address = kubelet(request, &node)?;
    let target = match port {
        "" => ProxyTarget::Kubelet(address),
        port => match port_number(port)? {
            port if port == address.port() => ProxyTarget::Kubelet(address),
            port => ProxyTarget::Node(address.with_port(port), Scheme::of(scheme)),
        },
    };
    if matches!(target, ProxyTarget::Kubelet(_)) && node.annotation(LOG_ADDRESS).is_some() {
        return Err(ApiError::unreachable(
            "error trying to reach service: the node agent of orlop does not support it",
        ));
    }
    proxy::forward(request, &target).await
}

/// Where the proxy of a pod leads: by default, to the first port of its containers (upstream: pkg/registry/core/pod/strategy.go).
fn pod_target(request: &Request) -> Result<ProxyTarget, ApiError> {
    let (scheme, name, port) = split(&request.resource.name, "pod")?;
    let pod = pod(request, name)?;
    let address = allowed(pod.str_at(&["status", "podIP"]))?;
    let first_port = pod.at(&["spec", "containers"]).and_then(Value::as_array).into_iter().flatten();
    let first_port =
        first_port.filter_map(|one| one.get("ports")?.get(0)?.get("containerPort")?.as_i64()).next();
    let port = match port {
        "" => first_port.and_then(|port| u16::try_from(port).ok()),
        port => Some(port_number(port)?),
    };
    Ok(ProxyTarget::Address(address, port, Scheme::of(scheme)))
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

/// The address of a node's kubelet.
fn kubelet(request: &Request, node: &Object) -> Result<KubeletAddress, ApiError> {
    request.server.kubelets.address(node).map_err(|Refusal(why)| ApiError::plain_internal(why))
}

fn node(request: &Request, node: &str) -> Result<Object, ApiError> {
    let kind = registry::by_resource("", "v1", "nodes").ok_or_else(ApiError::no_such_resource)?;
    let record = request.head().get(&dispatch::key(kind, "", node)).cloned();
    let record = record.ok_or_else(|| ApiError::not_found(kind.names(), node))?;
    stored::decode_as(kind, &record)
}

fn port_of(node: &Object) -> i64 {
    let port = node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_i64);
    port.filter(|port| *port > 0).unwrap_or(AGENT_PORT)
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
