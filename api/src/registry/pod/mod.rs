//! The `Pod` kind. Its spec is in [`super::pod_spec`] (shared with templates), its status in
//! [`super::pod_status`], the validation of updates in [`super::pod_update`], its table in
//! [`super::pod_table`].

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::{Map, Value, json};

use super::pod_owner::Owner;
use super::pod_spec::{self, defaults, warnings};
use super::pod_update::{ephemeral, resize};
use super::{pod_status, pod_table, pod_update};
use crate::kind::{
    Column, DeleteAnswer, Generation, Kind, Names, Policy, Scope, StatusSubresource, Subresource,
    UnknownField,
};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Pod` kind.
pub(super) struct Pod;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short: &["po"],
    categories: &["all"],
    schema: "io.k8s.api.core.v1.Pod",
};

const SUBRESOURCES: &[Subresource] = &[
    stream("attach", "PodAttachOptions", STREAM_VERBS),
    Subresource {
        name: "binding",
        group: "",
        version: "v1",
        kind: "Binding",
        schema: "io.k8s.api.core.v1.Binding",
        verbs: &["create"],
    },
    part("ephemeralcontainers"),
    Subresource {
        name: "eviction",
        group: "policy",
        version: "v1",
        kind: "Eviction",
        schema: "io.k8s.api.policy.v1.Eviction",
        verbs: &["create"],
    },
    stream("exec", "PodExecOptions", STREAM_VERBS),
    stream("log", "Pod", &["get"]),
    stream("portforward", "PodPortForwardOptions", STREAM_VERBS),
    stream("proxy", "PodProxyOptions", PROXY_VERBS),
    part("resize"),
];

const STREAM_VERBS: &[&str] = &["create", "get"];

/// The verbs of subresources that proxy to another server.
pub(super) const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

/// A subresource without a stored object; `kind` is the kind of its options.
pub(super) const fn stream(
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource { name, group: "", version: "v1", kind, schema: "", verbs }
}

/// A subresource that changes a part of a pod's spec.
const fn part(name: &'static str) -> Subresource {
    Subresource {
        name,
        group: "",
        version: "v1",
        kind: "Pod",
        schema: "io.k8s.api.core.v1.Pod",
        verbs: &["get", "patch", "update"],
    }
}

/// The default grace period of a pod, in seconds.
const DEFAULT_GRACE: i64 = 30;

impl Kind for Pod {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/pods/"
    }

    fn policy(&self) -> Policy {
        Policy {
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::WithMetadata,
            generation: Generation::Spec,
            ..Policy::DEFAULT
        }
    }

    fn subresources(&self) -> &'static [Subresource] {
        SUBRESOURCES
    }

    fn defaults(&self, object: &mut Object) {
        defaults::pod_spec(object.object_at(&["spec"]), Owner::Pod(""));
        pod_status::mirror_addresses(object);
    }

    fn prepare_create(&self, object: &mut Object, now: Timestamp) {
        positive_grace(object);
        pod_status::start(object, now);
        merge_label_keys(object);
    }

    fn prepare_update(&self, object: &mut Object, _old: &Object, _now: Timestamp) {
        positive_grace(object);
    }

    fn prepare_status(&self, object: &mut Object, old: &Object, _now: Timestamp) {
        pod_status::keep(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        pod_update::validate_annotations(object, errors);
        let spec = object.at(&["spec"]).cloned().unwrap_or_else(|| json!({}));
        pod_spec::validate(&spec, Owner::Pod(object.name()), &path, errors);
        if let Some(spec) = pod_spec::typed(&spec) {
            pod_spec::only_in_pods(&spec, &path, errors);
        }
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let ephemeral = object.at(&["spec", "ephemeralContainers"]).and_then(Value::as_array);
        if ephemeral.is_some_and(|list| !list.is_empty()) {
            errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
        }
        if pod_status::is_gated(object) && !object.str_at(&["spec", "nodeName"]).is_empty() {
            let text = "cannot be set until all schedulingGates have been cleared";
            errors.forbidden(&path.child("nodeName"), text);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        pod_update::validate(object, old, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        pod_update::validate_status(object, old, errors);
    }

    fn take_part(&self, subresource: &str, given: &Object, object: &mut Object) {
        match subresource {
            "ephemeralcontainers" => ephemeral::take(given, object),
            "resize" => resize::take(given, object),
            _ => {}
        }
    }

    fn validate_part(&self, subresource: &str, object: &Object, old: &Object, errors: &mut FieldErrors) {
        match subresource {
            "ephemeralcontainers" => ephemeral::validate(object, old, errors),
            "resize" => resize::validate(object, old, errors),
            _ => {}
        }
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        // Updates come from controllers, which ignore warnings.
        if old.is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let problems = names::dns_label(object.name());
        if !problems.is_empty() {
            found.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising \
                 behavior; a DNS label is recommended: [{}]",
                problems.join(" ")
            ));
        }
        if let Some(spec) = object.at(&["spec"]) {
            found.extend(warnings::pod_spec(spec, &Path::new("spec")));
        }
        found
    }

    fn grace_period(&self, object: &Object, requested: Option<i64>) -> Option<i64> {
        // Pods that never ran or have finished need no grace period.
        let ended = matches!(object.str_at(&["status", "phase"]), "Succeeded" | "Failed");
        if ended || object.str_at(&["spec", "nodeName"]).is_empty() {
            return Some(0);
        }
        let own = object.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
        let grace = requested.or(own).unwrap_or(DEFAULT_GRACE);
        Some(if grace < 0 { 1 } else { grace })
    }

    fn selectable(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "spec.host",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn field(&self, object: &Object, name: &str) -> String {
        match name {
            // The field's name before v1.
            "spec.host" => object.str_at(&["spec", "nodeName"]).to_owned(),
            "spec.hostNetwork" => {
                object.at(&["spec", "hostNetwork"]).and_then(Value::as_bool).unwrap_or_default().to_string()
            }
            // Upstream accepts the field and gives it no value (pkg/registry/core/pod/strategy.go, ToSelectableFields).
            "status.podIPs" => String::new(),
            _ => object.str_at(&name.split('.').collect::<Vec<_>>()).to_owned(),
        }
    }

    fn unknown_field(&self) -> UnknownField {
        UnknownField::NotSupported
    }

    fn columns(&self) -> &'static [Column] {
        pod_table::COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        pod_table::cells(object, now)
    }

    fn row_conditions(&self, object: &Object) -> Option<Value> {
        pod_table::row_conditions(object)
    }
}

/// Stores a negative grace period as 1 second.
fn positive_grace(object: &mut Object) {
    let path = ["spec", "terminationGracePeriodSeconds"];
    if object.at(&path).and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        object.set(&path, 1);
    }
}

/// Converts `matchLabelKeys` and `mismatchLabelKeys` to requirements of the label selector in the same term,
/// with the values of the pod's own labels.
fn merge_label_keys(object: &mut Object) {
    let labels = object.labels().cloned().unwrap_or_default();
    let Some(spec) = object.0.get_mut("spec") else {
        return;
    };
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let pointer =
            |list: &str| format!("/affinity/{affinity}/{list}DuringSchedulingIgnoredDuringExecution");
        if let Some(Value::Array(terms)) = spec.pointer_mut(&pointer("required")) {
            terms.iter_mut().for_each(|term| merge_into_selector(term, &labels));
        }
        if let Some(Value::Array(terms)) = spec.pointer_mut(&pointer("preferred")) {
            for term in terms.iter_mut().filter_map(|term| term.get_mut("podAffinityTerm")) {
                merge_into_selector(term, &labels);
            }
        }
    }
    if let Some(Value::Array(constraints)) = spec.get_mut("topologySpreadConstraints") {
        constraints.iter_mut().for_each(|constraint| merge_into_selector(constraint, &labels));
    }
}

fn merge_into_selector(term: &mut Value, labels: &Map<String, Value>) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else {
        return;
    };
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Value::Array(expressions) = expressions {
        expressions.extend(added);
    }
}

#[cfg(test)]
mod tests;
