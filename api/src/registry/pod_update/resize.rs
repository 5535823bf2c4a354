//! `/resize`: changes the CPU and memory of a pod's containers.
//!
//! Upstream: pkg/registry/core/pod/strategy.go (copied fields), pkg/apis/core/validation,
//! `ValidatePodResize` (permitted changes).

use serde_json::{Map, Value, json};

use super::{MIRROR, WHOLE_POD, put_back};
use crate::object::Object;
use crate::registry::pod_spec::qos;
use crate::validate::{FieldErrors, Path};

/// The resources that may change.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const LISTS: [&str; 2] = ["containers", "initContainers"];
const ONLY: &str = "only cpu and memory resources are mutable";

/// Copies the resources of the pod and its containers. If containers are added, removed or
/// reordered, copies all of them, so that the validation can report it.
pub(in crate::registry) fn take(given: &Object, pod: &mut Object) {
    let count = |object: &Object, list: &str| list_of(object, list).len();
    if LISTS.iter().any(|list| count(given, list) != count(pod, list)) {
        pod.copy_member(given, "spec");
        return;
    }
    for list in LISTS {
        let taken = with_resources(list_of(given, list), list_of(pod, list));
        if !taken.is_empty() {
            pod.set(&["spec", list], taken);
        }
    }
    let whole = ["spec", "resources"];
    match given.at(&whole) {
        Some(resources) => pod.set(&whole, resources.clone()),
        None => drop(pod.remove(&whole)),
    }
}

fn with_resources(given: &[Value], present: &[Value]) -> Vec<Value> {
    let name = |container: &Value| container.get("name").cloned();
    if given.iter().zip(present).any(|(new, old)| name(new) != name(old)) {
        return given.to_vec();
    }
    let resized = |(new, old): (&Value, &Value)| {
        let mut container = old.clone();
        for field in ["resources", "resizePolicy"] {
            put_back(&mut container, new, field);
        }
        container
    };
    given.iter().zip(present).map(resized).collect()
}

/// Validates a resize.
pub(in crate::registry) fn validate(pod: &Object, old: &Object, errors: &mut FieldErrors) {
    let refused = if old.annotation(MIRROR).is_some() {
        Some("static pods cannot be resized")
    } else if old.str_at(&["spec", "os", "name"]) == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(text) = refused {
        *errors = FieldErrors::new();
        errors.forbidden(&Path::new(WHOLE_POD), text);
        return;
    }
    let path = Path::new("spec");
    let class = match old.str_at(&["status", "qosClass"]) {
        "" => qos::class(old),
        class => class,
    };
    if class != qos::class(pod) {
        let shown = pod.str_at(&["status", "qosClass"]);
        errors.invalid(&path, shown, "Pod QOS Class may not change as a result of resizing");
    }
    if !node_can(old) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }
    whole_pod(pod, old, &path, errors);
    let claims = old.at(&["status", "nodeAllocatableResourceClaimStatuses"]).and_then(Value::as_array);
    if claims.is_some_and(|claims| !claims.is_empty()) {
        errors.forbidden(&path, "pods with node allocatable resource claims cannot be resized");
    }
    if !same_containers(pod, old, &path, errors) {
        return;
    }
    nothing_removed(pod, old, &path, errors);
    for (new, old) in list_of(pod, "containers").iter().zip(list_of(old, "containers")) {
        if differs_besides(new, old) {
            errors.forbidden(&path, ONLY);
        }
    }
    for (i, (new, old)) in
        list_of(pod, "initContainers").iter().zip(list_of(old, "initContainers")).enumerate()
    {
        if !is_sidecar(old) && new != old {
            errors.forbidden(&path, "resources for non-sidecar init containers are immutable");
        } else if is_sidecar(old) && differs_besides(new, old) {
            let text = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&path.child("initContainers").index(i), text);
        }
    }
    let rest = |object: &Object| {
        let mut rest = object.at(&["spec"]).and_then(Value::as_object).cloned().unwrap_or_default();
        rest.retain(|field, _| !LISTS.contains(&field.as_str()) && field != "resources");
        rest
    };
    if errors.is_empty() && rest(pod) != rest(old) {
        errors.forbidden(&path, ONLY);
    }
}

/// Whether the node of a running pod has reported the resources of its containers; an old kubelet does not.
fn node_can(pod: &Object) -> bool {
    let statuses = pod.at(&["status", "containerStatuses"]).and_then(Value::as_array);
    let running = |status: &&Value| status.pointer("/state/running").is_some_and(|state| !state.is_null());
    let first = statuses.into_iter().flatten().find(running);
    first.is_none_or(|status| status.get("resources").is_some_and(|resources| !resources.is_null()))
}

/// Validates the pod-level resources.
fn whole_pod(pod: &Object, old: &Object, path: &Path, errors: &mut FieldErrors) {
    let own = |object: &Object| object.at(&["spec", "resources"]).filter(|value| !value.is_null()).cloned();
    let (new, old) = (own(pod), own(old));
    let at = path.child("resources");
    if let Some(old) = &old {
        let Some(new) = &new else {
            errors.forbidden(&at, "pod-level resources cannot be removed");
            return;
        };
        for list in ["requests", "limits"] {
            if is_removed(new, old, list) {
                let text = format!("pod-level resource {list} cannot be removed");
                errors.forbidden(&at.child(list), &text);
            }
        }
    }
    let old = old.unwrap_or_else(|| json!({}));
    let new = new.unwrap_or_else(|| json!({}));
    let rest = |value: &Value| {
        let mut rest = value.as_object().cloned().unwrap_or_default();
        rest.retain(|field, _| field != "requests" && field != "limits");
        rest
    };
    if masked(&new, &old) != masked(&old, &old) || rest(&new) != rest(&old) {
        errors.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Containers cannot change in kind or order.
fn same_containers(pod: &Object, old: &Object, path: &Path, errors: &mut FieldErrors) -> bool {
    let mut same = true;
    for list in LISTS {
        let (new, old) = (list_of(pod, list), list_of(old, list));
        let path = path.child(list);
        if new.len() != old.len() {
            errors.forbidden(&path, &format!("{list} may not be added or removed on resize"));
            same = false;
            continue;
        }
        for (i, _) in
            new.iter().zip(old).enumerate().filter(|(_, (new, old))| new.get("name") != old.get("name"))
        {
            let text = format!("{list} may not be renamed or reordered on resize");
            errors.forbidden(&path.index(i).child("name"), &text);
            same = false;
        }
    }
    same
}

/// Requests and limits may be changed, but not removed.
fn nothing_removed(pod: &Object, old: &Object, path: &Path, errors: &mut FieldErrors) {
    let none = Value::Null;
    for list in ["initContainers", "containers"] {
        for (i, (new, old)) in list_of(pod, list).iter().zip(list_of(old, list)).enumerate() {
            if list == "initContainers" && !is_sidecar(old) {
                continue;
            }
            let (new, old) = (new.get("resources").unwrap_or(&none), old.get("resources").unwrap_or(&none));
            for amounts in ["requests", "limits"] {
                if is_removed(new, old, amounts) {
                    let at = path.child(list).index(i).child("resources").child(amounts);
                    errors.forbidden(&at, &format!("resource {amounts} cannot be removed"));
                }
            }
        }
    }
}

fn list_of<'a>(object: &'a Object, list: &str) -> &'a [Value] {
    object.at(&["spec", list]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_sidecar(container: &Value) -> bool {
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}

fn is_removed(new: &Value, old: &Value, list: &str) -> bool {
    let amounts = |value: &Value| value.get(list).and_then(Value::as_object).cloned().unwrap_or_default();
    let (new, old) = (amounts(new), amounts(old));
    old.keys().any(|name| !new.contains_key(name))
}

/// Whether a container differs in fields that must not change.
fn differs_besides(new: &Value, old: &Value) -> bool {
    let none = json!({});
    let resources = |container: &Value| container.get("resources").cloned().unwrap_or_else(|| json!({}));
    let rest = |container: &Value| {
        let mut rest = container.as_object().cloned().unwrap_or_default();
        rest.remove("resources");
        rest
    };
    let (given, present) = (resources(new), resources(old));
    let claims = |resources: &Value| resources.get("claims").unwrap_or(&none).clone();
    rest(new) != rest(old)
        || masked(&given, &present) != masked(&present, &present)
        || claims(&given) != claims(&present)
}

/// Limits and requests with the resizable resources reset to `before`; empty lists become absent.
fn masked(resources: &Value, before: &Value) -> Value {
    let mut masked = Map::new();
    for list in ["limits", "requests"] {
        let amounts = |value: &Value| value.get(list).and_then(Value::as_object).cloned().unwrap_or_default();
        let (mut amounts, before) = (amounts(resources), amounts(before));
        for name in RESIZABLE {
            match before.get(name) {
                Some(amount) => drop(amounts.insert(name.to_owned(), amount.clone())),
                None => drop(amounts.remove(name)),
            }
        }
        if !amounts.is_empty() {
            masked.insert(list.to_owned(), amounts.into());
        }
    }
    Value::Object(masked)
}
