//! Defaults of a pod spec, its containers, probes and ports.

use serde_json::{Map, Value, json};

use crate::registry::field_refs::default_api_version;
use crate::registry::json_defaults::{list, number, object, objects, text, value};
use crate::registry::pod_owner::Owner;
use crate::registry::pod_volume;
use crate::registry::pull_policy::pull_policy;

/// Defaults the fields that a pod spec omits.
pub(in crate::registry) fn pod_spec(spec: &mut Map<String, Value>, owner: Owner<'_>) {
    mirror_service_account(spec);
    text(spec, "restartPolicy", "Always");
    text(spec, "dnsPolicy", "ClusterFirst");
    text(spec, "schedulerName", "default-scheduler");
    value(spec, "terminationGracePeriodSeconds", 30);
    value(spec, "securityContext", json!({}));
    pod_volume::defaults(list(spec, "volumes"));
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for one in objects(list(spec, containers)) {
            container(one);
        }
    }
    resource_list(spec.get_mut("overhead"));
    if let Some(resources) = object(spec, "resources") {
        resource_list(resources.get_mut("limits"));
        resource_list(resources.get_mut("requests"));
    }
    match owner {
        Owner::Pod(_) => pod_only(spec),
        Owner::Template => {}
    }
}

/// Defaults that apply only to pods, so that a change of these defaults changes no template.
fn pod_only(spec: &mut Map<String, Value>) {
    value(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    for containers in ["initContainers", "containers"] {
        for one in objects(list(spec, containers)) {
            requests_from_limits(one);
            if host_network {
                for port in objects(list(one, "ports")) {
                    host_port(port);
                }
            }
        }
    }
}

/// The account's name is in two fields; the newer one takes precedence.
fn mirror_service_account(spec: &mut Map<String, Value>) {
    let name = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
    let account = match name("serviceAccountName") {
        "" => name("serviceAccount"),
        account => account,
    };
    if !account.is_empty() {
        let account = account.to_owned();
        spec.insert("serviceAccountName".into(), account.clone().into());
        spec.insert("serviceAccount".into(), account.into());
    }
}

fn container(container: &mut Map<String, Value>) {
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = pull_policy(image);
    text(container, "imagePullPolicy", policy);
    value(container, "resources", json!({}));
    if let Some(resources) = object(container, "resources") {
        resource_list(resources.get_mut("limits"));
        resource_list(resources.get_mut("requests"));
    }
    for port in objects(list(container, "ports")) {
        text(port, "protocol", "TCP");
    }
    for variable in objects(list(container, "env")) {
        if let Some(from) = object(variable, "valueFrom") {
            default_api_version(from);
            if let Some(file) = object(from, "fileKeyRef") {
                value(file, "optional", false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(one) = object(container, name) {
            probe(one);
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = object(lifecycle, hook) {
                http_get(hook);
            }
        }
    }
}

fn probe(probe: &mut Map<String, Value>) {
    for (field, default) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        number(probe, field, default);
    }
    http_get(probe);
    if let Some(grpc) = object(probe, "grpc") {
        value(grpc, "service", "");
    }
}

fn http_get(handler: &mut Map<String, Value>) {
    if let Some(get) = object(handler, "httpGet") {
        text(get, "path", "/");
        text(get, "scheme", "HTTP");
    }
}

fn requests_from_limits(container: &mut Map<String, Value>) {
    let Some(resources) = object(container, "resources") else {
        return;
    };
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    value(resources, "requests", json!({}));
    if let Some(requests) = object(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// With host networking, the host port defaults to the container port.
fn host_port(port: &mut Map<String, Value>) {
    if let Some(own) = port.get("containerPort").and_then(Value::as_i64) {
        number(port, "hostPort", own);
    }
}

/// Quantities with more than milli precision are rounded up to thousandths.
pub(in crate::registry) fn resource_list(list: Option<&mut Value>) {
    for quantity in list.and_then(Value::as_object_mut).into_iter().flatten().map(|(_, quantity)| quantity) {
        if let Some(rounded) = quantity.as_str().and_then(rounded_to_milli) {
            *quantity = rounded.into();
        }
    }
}

/// Only the suffixes `u` and `n` give a canonical quantity more than milli precision.
fn rounded_to_milli(quantity: &str) -> Option<String> {
    let (digits, per_milli) = match quantity.strip_suffix('u') {
        Some(digits) => (digits, 1_000),
        None => (quantity.strip_suffix('n')?, 1_000_000),
    };
    let fine: i128 = digits.parse().ok()?;
    let milli = fine / per_milli + (fine % per_milli).signum();
    Some(if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") })
}

#[cfg(test)]
mod tests;
