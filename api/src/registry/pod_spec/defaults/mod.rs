//! Defaults of a pod spec, its containers, probes and ports.

use serde_json::{Map, Value, json};

use super::Owner;
use crate::registry::pod_volume;

/// Fills in what a pod spec leaves out.
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

/// Defaults that templates do without, so that a change of them shows in no template.
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

/// The account's name stands in two fields; the newer one wins.
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
            field_ref(from);
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

/// The API version of a `fieldRef` in an environment variable or a file of the downward API.
pub(in crate::registry) fn field_ref(holder: &mut Map<String, Value>) {
    if let Some(reference) = object(holder, "fieldRef") {
        text(reference, "apiVersion", "v1");
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

/// On the host's network a container's port is the host's port.
fn host_port(port: &mut Map<String, Value>) {
    if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
        self::number(port, "hostPort", number);
    }
}

/// When to pull: always for images without a tag or digest and for `latest`.
pub(in crate::registry) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let rest = match name.split_once('/') {
        // A first part with a dot, a port or capitals is a registry, as is localhost.
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first =>
        {
            rest
        }
        Some(_) | None => name,
    };
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        Some(_) | None => (rest, ""),
    };
    // What is no image name has no tag either; validation speaks about it.
    let is_name = !path.is_empty() && !path.contains(|c: char| c.is_uppercase() || c.is_whitespace());
    let latest = tag == "latest" || (tag.is_empty() && !digest);
    if is_name && latest { "Always" } else { "IfNotPresent" }
}

/// Resources finer than a thousandth are rounded up to thousandths.
pub(in crate::registry) fn resource_list(list: Option<&mut Value>) {
    for quantity in list.and_then(Value::as_object_mut).into_iter().flatten().map(|(_, quantity)| quantity) {
        if let Some(rounded) = quantity.as_str().and_then(rounded_to_milli) {
            *quantity = rounded.into();
        }
    }
}

/// A quantity in canonical form is finer than a thousandth only with the suffixes `u` and `n`.
fn rounded_to_milli(quantity: &str) -> Option<String> {
    let (digits, per_milli) = match quantity.strip_suffix('u') {
        Some(digits) => (digits, 1_000),
        None => (quantity.strip_suffix('n')?, 1_000_000),
    };
    let fine: i128 = digits.parse().ok()?;
    let milli = fine / per_milli + (fine % per_milli).signum();
    Some(if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") })
}

// === small steps on JSON ===

/// Sets a text unless there is a non-empty one.
pub(in crate::registry) fn text(map: &mut Map<String, Value>, field: &str, default: &str) {
    if map.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
        map.insert(field.to_owned(), default.into());
    }
}

/// Sets a number unless there is one that is not zero.
fn number(map: &mut Map<String, Value>, field: &str, default: i64) {
    if map.get(field).and_then(Value::as_i64).unwrap_or_default() == 0 {
        map.insert(field.to_owned(), default.into());
    }
}

/// Sets a value unless there is one, whatever it is.
pub(in crate::registry) fn value(map: &mut Map<String, Value>, field: &str, default: impl Into<Value>) {
    let entry = map.entry(field.to_owned()).or_insert(Value::Null);
    if entry.is_null() {
        *entry = default.into();
    }
}

/// A member that is an object.
pub(in crate::registry) fn object<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(field).and_then(Value::as_object_mut)
}

/// A member that is a list; nothing when it is not there.
pub(in crate::registry) fn list<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut [Value] {
    map.get_mut(field).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The objects of a list.
pub(in crate::registry) fn objects(list: &mut [Value]) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.iter_mut().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests;
