//! Checks beyond the rights to the claim itself: admin access to devices requires a label of the namespace, and parts of
//! the status require separate rights.
//!
//! Upstream: pkg/registry/resource/utils.go.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::claim_status::device_key;
use super::collection::items;
use crate::kind::{Permission, WriteContext};
use crate::object::Object;
use crate::registry::workload::{given, text};
use crate::validate::{FieldErrors, Path};

/// The label of namespaces whose claims may have access as an administrator.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
const BINDING: &str = "binding";
const DRIVER: &str = "driver";

fn is_admin(of: &Value) -> bool {
    given(of, "adminAccess").is_some_and(|flag| *flag == true)
}

fn require_label(path: &Path, context: &dyn WriteContext, errors: &mut FieldErrors) {
    if context.namespace_label(ADMIN_LABEL).as_deref() != Some("true") {
        let why = format!(
            "admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        );
        errors.forbidden(&path.child("adminAccess"), &why);
    }
}

/// Checks the first request of a new claim for access as an administrator. As in upstream, its path omits `exactly`.
pub(super) fn admin_requests(spec: &Value, context: &dyn WriteContext, errors: &mut FieldErrors) {
    let requests = spec.get("devices").map_or(&[][..], |devices| items(devices, "requests"));
    let asks = |request: &Value| request.get("exactly").is_some_and(is_admin);
    if let Some(at) = requests.iter().position(asks) {
        require_label(&Path::new("spec.devices.requests").index(at), context, errors);
    }
}

/// Checks a change of the status.
pub(super) fn status(claim: &Object, old: &Object, context: &dyn WriteContext, errors: &mut FieldErrors) {
    let (new, old) = (claim.at(&["status"]), old.at(&["status"]));
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    let results = |status| results_of(status).iter().position(is_admin);
    if let (Some(at), None) = (results(new), results(old)) {
        require_label(&Path::new("status.allocation.devices.results").index(at), context, errors);
    }
    binding(new, old, context, errors);
    devices(new, old, claim.namespace(), context, errors);
}

fn results_of(status: &Value) -> &[Value] {
    status.pointer("/allocation/devices").map_or(&[], |devices| items(devices, "results"))
}

/// Checks the right to allocate a claim and to reserve it for pods, which schedulers have.
fn binding(new: &Value, old: &Value, context: &dyn WriteContext, errors: &mut FieldErrors) {
    let is_same = |field: &str| given(new, field) == given(old, field);
    if is_same("allocation") && items(new, "reservedFor") == items(old, "reservedFor") {
        return;
    }
    let verb = context.verb();
    let permission = Permission { verb, subresource: BINDING, namespace: "", name: "" };
    if let Err(why) = context.check(permission) {
        let why = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {why}"
        );
        errors.forbidden(&Path::new("status"), &why);
    }
}

/// Checks the right to report the status of devices: drivers have it for the devices of their node, or of all nodes.
fn devices(new: &Value, old: &Value, namespace: &str, context: &dyn WriteContext, errors: &mut FieldErrors) {
    let drivers = changed_drivers(new, old);
    if drivers.is_empty() {
        return;
    }
    let verb = context.verb();
    let node = allocated_node(new);
    let is_local = node.is_some() && node == context.service_account_node().as_deref();
    let mut verbs = vec![format!("arbitrary-node:{verb}")];
    if is_local {
        verbs.insert(0, format!("associated-node:{verb}"));
    }
    for driver in drivers {
        let check = |verb: &String| {
            context.check(Permission { verb, subresource: DRIVER, namespace, name: driver }).err()
        };
        let refusals: Option<Vec<String>> = verbs.iter().map(check).collect();
        if let Some(why) = refusals.and_then(|refusals| refusals.into_iter().next()) {
            let why = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                verbs.join(" ")
            );
            errors.forbidden(&Path::new("status.devices"), &why);
        }
    }
}

/// The drivers of the devices whose reports differ.
fn changed_drivers<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let mut before: HashMap<[&str; 4], &Value> =
        items(old, "devices").iter().map(|device| (device_key(device), device)).collect();
    let mut drivers = BTreeSet::new();
    for device in items(new, "devices") {
        if before.remove(&device_key(device)) != Some(device) {
            drivers.insert(text(device, "driver"));
        }
    }
    drivers.extend(before.into_keys().map(|[driver, ..]| driver));
    drivers
}

/// The node that an allocation is limited to.
fn allocated_node(status: &Value) -> Option<&str> {
    let selector = status.pointer("/allocation/nodeSelector")?;
    let [term] = items(selector, "nodeSelectorTerms") else { return None };
    let ([], [field]) = (items(term, "matchExpressions"), items(term, "matchFields")) else { return None };
    let [node] = items(field, "values") else { return None };
    let is_name = text(field, "key") == "metadata.name" && text(field, "operator") == "In";
    node.as_str().filter(|_| is_name)
}
