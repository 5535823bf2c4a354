//! `PodSecurity`: the Pod Security Standards, as the labels of a namespace request them.
//!
//! `policy` reads the labels, `pod` is a pod as the checks see it, `baseline` and `restricted` are the checks, `evaluate` runs
//! them.
//!
//! Upstream: k8s.io/pod-security-admission.

mod baseline;
mod evaluate;
mod pod;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use orlop_api::object::Object;
use orlop_api::status::ApiError;
use serde_json::Value;

use self::evaluate::{details, evaluate, reasons};
use self::policy::{Level, LevelVersion, NamespacePolicy};
use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry;

/// Subresources of pods that do not change their spec.
const IGNORED: [&str; 8] = ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// The most pods that a change of a namespace's labels checks.
const MOST_PODS: usize = 3000;
/// The most bytes of pods that it decodes, which takes about a second (upstream: a timeout of one second).
const MOST_BYTES: usize = 24 << 20;

pub(super) struct PodSecurity;

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        let names = request.names();
        let Some(object) = request.object.as_deref() else { return Ok(()) };
        match (names.group, names.plural) {
            ("", "namespaces") if request.subresource.is_empty() => namespace(request, object, lookup),
            ("", "pods") => pod(request, object, lookup),
            _ if !request.subresource.is_empty() => Ok(()),
            (group, plural) => {
                let Some(path) = template_path(group, plural) else { return Ok(()) };
                let template = object.at(path).filter(|template| !template.is_null());
                let Some(policy) = policy_of(request.namespace, lookup) else { return Ok(()) };
                if let Some(template) = template.filter(|_| policy.warns_or_audits()) {
                    judge(request, &policy, template, false)?;
                }
                Ok(())
            }
        }
    }
}

/// The place of the pod template in a workload.
fn template_path(group: &str, plural: &str) -> Option<&'static [&'static str]> {
    match (group, plural) {
        ("", "podtemplates") => Some(&["template"]),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => Some(&["spec", "template"]),
        ("batch", "cronjobs") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

fn policy_of(namespace: &str, lookup: &dyn Lookup) -> Option<NamespacePolicy> {
    let kind = registry::by_resource("", "v1", "namespaces")?;
    let namespace = lookup.head(kind, "", namespace)?;
    Some(NamespacePolicy::of_labels(|key| namespace.label(key)))
}

fn pod(request: &Request<'_>, object: &Object, lookup: &dyn Lookup) -> Result<(), ApiError> {
    if IGNORED.contains(&request.subresource) {
        return Ok(());
    }
    let Some(policy) = policy_of(request.namespace, lookup) else { return Ok(()) };
    if policy.is_privileged() {
        return Ok(());
    }
    if request.operation == Operation::Update && request.old.is_some_and(|old| !is_significant(object, old)) {
        return Ok(());
    }
    judge(request, &policy, &Value::Object(object.0.clone()), true)
}

/// Evaluates a pod or a template, and warns. Rejects it if `enforce` is set.
fn judge(
    request: &Request<'_>,
    policy: &NamespacePolicy,
    pod: &Value,
    enforce: bool,
) -> Result<(), ApiError> {
    if enforce {
        request.annotate("pod-security.kubernetes.io/enforce-policy", policy.enforce.shown());
    }
    if !policy.errors.is_empty() {
        let errors: Vec<String> = policy.errors.causes().iter().map(|cause| cause.message.clone()).collect();
        request.annotate(
            "pod-security.kubernetes.io/error",
            format!("Failed to parse policy: {}", errors.join(", ")),
        );
    }
    let audited = evaluate(policy.audit, pod);
    if !audited.is_empty() {
        let violations =
            format!("would violate PodSecurity {:?}: {}", policy.audit.shown(), details(&audited));
        request.annotate("pod-security.kubernetes.io/audit-violations", violations);
    }
    let violations = if enforce { evaluate(policy.enforce, pod) } else { Vec::new() };
    if !violations.is_empty() {
        let why = format!("violates PodSecurity {:?}: {}", policy.enforce.shown(), details(&violations));
        return Err(request.refuse(&why));
    }
    let warned = evaluate(policy.warn, pod);
    if !warned.is_empty() {
        request.warn(format!("would violate PodSecurity {:?}: {}", policy.warn.shown(), details(&warned)));
    }
    Ok(())
}

/// Whether an update changes images or containers: the other mutable fields of pods are of no concern.
fn is_significant(pod: &Object, old: &Object) -> bool {
    let images = |pod: &Object, list: &str| -> Vec<(String, String)> {
        let containers = pod.at(&["spec", list]).and_then(Value::as_array).into_iter().flatten();
        let text = |container: &Value, name: &str| container[name].as_str().unwrap_or_default().to_owned();
        containers.map(|container| (text(container, "name"), text(container, "image"))).collect()
    };
    let without_names =
        |list: Vec<(String, String)>| list.into_iter().map(|(_, image)| image).collect::<Vec<_>>();
    if ["containers", "initContainers"]
        .into_iter()
        .any(|list| without_names(images(pod, list)) != without_names(images(old, list)))
    {
        return true;
    }
    let before = images(old, "ephemeralContainers");
    images(pod, "ephemeralContainers").iter().any(|container| !before.contains(container))
}

fn namespace(request: &Request<'_>, object: &Object, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let policy = NamespacePolicy::of(object);
    let names = request.names();
    let invalid = || ApiError::invalid(names.kind, names.group, object.name(), &policy.errors);
    let Some(old) = request.old else {
        return if policy.errors.is_empty() { Ok(()) } else { Err(invalid()) };
    };
    let before = NamespacePolicy::of(old);
    if !policy.errors.is_empty() && policy.errors.causes() != before.errors.causes() {
        return Err(invalid());
    }
    let (new, old) = (policy.enforce, before.enforce);
    let is_relaxed = new.version == old.version && new.level <= old.level;
    if new != old && new.level != Level::Privileged && !is_relaxed {
        warn_about_pods(request, object.name(), new, lookup);
    }
    Ok(())
}

/// The pods that a change of a namespace's labels has checked.
#[derive(Default)]
struct Checked {
    count: usize,
    /// By violations: the first pod by name, and the number of pods.
    found: BTreeMap<String, (String, usize)>,
}

impl Checked {
    /// Adds a pod and its violations.
    fn add(&mut self, name: String, violations: Option<String>) {
        if self.count >= MOST_PODS {
            return;
        }
        self.count += 1;
        let Some(violations) = violations else { return };
        let (first, count) = self.found.entry(violations).or_insert_with(|| (name.clone(), 0));
        *first = name.min(std::mem::take(first));
        *count += 1;
    }
}

/// Warns about the pods that a new level would have rejected. Tenants determine the number and the size of the pods, so a bounded number
/// of them is decoded, one at a time.
fn warn_about_pods(request: &Request<'_>, namespace: &str, enforce: LevelVersion, lookup: &dyn Lookup) {
    let Some(kind) = registry::by_resource("", "v1", "pods") else { return };
    let (mut total, mut left) = (0, MOST_BYTES);
    let mut checked = Checked::default();
    let mut controllers = HashSet::new();
    // One pod of each controller comes first. Of the others, only the results are in memory.
    let mut later = Vec::new();
    lookup.visit(kind, Some(namespace), &mut |pod| {
        total += 1;
        let Some(rest) = left.checked_sub(pod.bytes()).filter(|_| checked.count < MOST_PODS) else {
            return ControlFlow::Continue(());
        };
        left = rest;
        let Some(pod) = pod.decode() else { return ControlFlow::Continue(()) };
        let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let uid = controller.and_then(|owner| owner["uid"].as_str()).map(str::to_owned);
        let is_later = uid.is_some_and(|uid| !controllers.insert(uid));
        if is_later && later.len() >= MOST_PODS {
            return ControlFlow::Continue(());
        }
        let name = pod.name().to_owned();
        let violations = evaluate(enforce, &pod.into_value());
        let violations = (!violations.is_empty()).then(|| reasons(&violations));
        match is_later {
            false => checked.add(name, violations),
            true => later.push((name, violations)),
        }
        ControlFlow::Continue(())
    });
    later.into_iter().for_each(|(name, violations)| checked.add(name, violations));
    let Checked { count: checked, found } = checked;
    if checked < total {
        request.warn(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        let level = enforce.shown();
        request.warn(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {level:?}"
        ));
    }
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            count => format!("{pod} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    lines.into_iter().for_each(|line| request.warn(line));
}
