//! `RuntimeClass`: applies the overhead and the scheduling rules of a pod's runtime class
//! (upstream: plugin/pkg/admission/runtimeclass).

use std::collections::HashSet;

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use serde_json::Value;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry;

const OVERHEAD: [&str; 2] = ["spec", "overhead"];
const NODE_SELECTOR: [&str; 2] = ["spec", "nodeSelector"];
const TOLERATIONS: [&str; 2] = ["spec", "tolerations"];

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const NO_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

pub(super) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create || !request.is("", "pods") {
            return Ok(());
        }
        let Some(pod) = request.object.as_deref() else { return Ok(()) };
        let class = class_of(pod, lookup).map_err(|why| request.refuse(&why))?;
        let (Some(class), Some(pod)) = (class, request.object.as_deref_mut()) else { return Ok(()) };
        apply(pod, &class).map_err(|why| request.refuse(&why))
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create || !request.is("", "pods") {
            return Ok(());
        }
        let Some(pod) = request.object.as_deref() else { return Ok(()) };
        let checked = class_of(pod, lookup).and_then(|class| check_overhead(pod, class.as_ref()));
        checked.map_err(|why| request.refuse(&why))
    }
}

/// The class that the pod names.
fn class_of(pod: &Object, lookup: &dyn Lookup) -> Result<Option<Object>, String> {
    let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
    let kind = registry::by_resource("node.k8s.io", "v1", "runtimeclasses");
    let class = kind.and_then(|kind| lookup.get(kind, "", name));
    class.map(Some).ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))
}

/// Sets the fields that the class defines.
fn apply(pod: &mut Object, class: &Object) -> Result<(), String> {
    if let Some(overhead) = overhead_of(class) {
        if pod.at(&OVERHEAD).is_some_and(|given| !given.is_null() && given != overhead) {
            return Err(OTHER_OVERHEAD.to_owned());
        }
        pod.set(&OVERHEAD, overhead.clone());
    }
    let labels = class.at(&["scheduling", "nodeSelector"]).and_then(Value::as_object);
    for (key, wanted) in labels.into_iter().flatten() {
        match pod.at(&[NODE_SELECTOR[0], NODE_SELECTOR[1], key]) {
            Some(given) if given != wanted => {
                let (wanted, given) = (text(wanted), text(given));
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; \
                     pod.spec.nodeSelector[{key}] = {given}"
                ));
            }
            Some(_) => {}
            None => pod.set(&[NODE_SELECTOR[0], NODE_SELECTOR[1], key], wanted.clone()),
        }
    }
    let of_class = list(class, &["scheduling", "tolerations"]);
    if !of_class.is_empty() {
        let replaced: HashSet<[&str; 2]> = of_class.iter().map(taint_of).collect();
        let kept = list(pod, &TOLERATIONS).iter().filter(|own| !replaced.contains(&taint_of(own)));
        let merged: Vec<Value> = of_class.iter().chain(kept).cloned().collect();
        pod.set(&TOLERATIONS, merged);
    }
    Ok(())
}

/// The overhead of a pod must be that of its class, also after webhooks.
fn check_overhead(pod: &Object, class: Option<&Object>) -> Result<(), String> {
    let given = pod.at(&OVERHEAD).filter(|given| !given.is_null());
    match (class.and_then(overhead_of), given) {
        (Some(wanted), given) if given != Some(wanted) => Err(OTHER_OVERHEAD.to_owned()),
        (None, Some(_)) => Err(NO_OVERHEAD.to_owned()),
        (Some(_), _) | (None, None) => Ok(()),
    }
}

fn overhead_of(class: &Object) -> Option<&Value> {
    class.at(&["overhead", "podFixed"]).filter(|fixed| !fixed.is_null())
}

fn list<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The key and the effect of a toleration. A toleration of the class replaces those of the pod with the same key and effect.
fn taint_of(toleration: &Value) -> [&str; 2] {
    ["key", "effect"].map(|field| text(&toleration[field]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn facts() -> Facts {
        let class = json!({
            "metadata": {"name": "vm"}, "handler": "h", "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {
                "nodeSelector": {"vm": "yes"},
                "tolerations": [{"key": "vm", "operator": "Exists", "effect": "NoSchedule"}],
            },
        });
        let plain = json!({"metadata": {"name": "plain"}, "handler": "h"});
        Facts::new(&[("runtimeclasses", class), ("runtimeclasses", plain)])
    }

    fn pod(spec: Value) -> Write {
        Write::create("pods", json!({"metadata": {"name": "p"}, "spec": spec}))
    }

    #[test]
    fn pods_get_overhead_and_scheduling_rules_of_their_class() {
        let own = json!([
            {"key": "vm", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
            {"key": "b", "operator": "Exists"},
        ]);
        let spec = json!({"runtimeClassName": "vm", "nodeSelector": {"a": "b"}, "tolerations": own});
        let got = pod(spec).mutate(&RuntimeClass, &facts()).expect("accepted");
        assert_eq!(
            got["spec"],
            json!({
                "runtimeClassName": "vm", "overhead": {"cpu": "100m"}, "nodeSelector": {"a": "b", "vm": "yes"},
                "tolerations": [
                    {"key": "vm", "operator": "Exists", "effect": "NoSchedule"}, {"key": "b", "operator": "Exists"},
                ],
            })
        );
        for spec in [json!({}), json!({"runtimeClassName": "plain"})] {
            let got = pod(spec.clone()).mutate(&RuntimeClass, &facts()).expect("accepted");
            assert_eq!(got["spec"], spec);
        }
    }

    #[test]
    fn pods_that_contradict_their_class_are_rejected() {
        let conflict =
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no";
        for (spec, want) in [
            (json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found"),
            (json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}), OTHER_OVERHEAD),
            (json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}), conflict),
        ] {
            let error = pod(spec).mutate(&RuntimeClass, &facts()).expect_err("a contradiction");
            assert_eq!((error.code, error.message), (403, format!("pods \"p\" is forbidden: {want}")));
        }
    }

    #[test]
    fn overhead_without_a_class_is_rejected() {
        for (spec, want) in [
            (json!({}), None),
            (json!({"overhead": {"cpu": "1"}}), Some(NO_OVERHEAD)),
            (json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}), Some(NO_OVERHEAD)),
            (json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}), Some(OTHER_OVERHEAD)),
            (json!({"runtimeClassName": "vm", "overhead": {"cpu": "100m"}}), None),
        ] {
            let got = pod(spec.clone()).validate(&RuntimeClass, &facts());
            let want = want.map(|why| format!("pods \"p\" is forbidden: {why}"));
            assert_eq!(got.err().map(|error| error.message), want, "{spec}");
        }
    }
}
