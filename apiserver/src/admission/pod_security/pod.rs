//! A pod or a pod template, as the checks see it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A pod.
pub(super) struct Pod<'p>(pub(super) &'p Value);

/// A violation of a check: its reason, and details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

impl<'p> Pod<'p> {
    /// The spec.
    pub(super) fn spec(&self) -> &'p Value {
        &self.0["spec"]
    }

    /// The security context of the pod.
    pub(super) fn context(&self) -> &'p Value {
        &self.spec()["securityContext"]
    }

    /// The annotations.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'p str, &'p str)> {
        let annotations: Option<&'p Map<String, Value>> = self.0["metadata"]["annotations"].as_object();
        annotations.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// All containers: init containers first.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'p Value> {
        let spec = self.spec();
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    /// The names of the containers for which a check is true.
    pub(super) fn bad_containers(&self, mut is_bad: impl FnMut(&'p Value) -> bool) -> Vec<&'p str> {
        self.containers().filter(|container| is_bad(container)).map(name).collect()
    }

    /// Whether the pod runs on Windows.
    pub(super) fn is_windows(&self) -> bool {
        self.spec()["os"]["name"] == "windows"
    }

    /// Whether the pod has its own user namespace, in which root is harmless.
    pub(super) fn has_user_namespace(&self) -> bool {
        self.spec()["hostUsers"] == false
    }
}

/// The name of a container or volume.
pub(super) fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

/// Texts in quotes.
pub(super) fn quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("\"{text}\"")).collect();
    texts.join(", ")
}

/// Sorted texts in quotes.
pub(super) fn sorted(texts: &BTreeSet<String>) -> String {
    quoted(texts.iter().map(String::as_str))
}

/// The singular or the plural.
pub(super) fn plural<'t>(count: usize, one: &'t str, many: &'t str) -> &'t str {
    if count == 1 { one } else { many }
}

/// `container "a"`, or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names.iter().copied()))
}

/// `pod and container "a"`.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

/// A violation.
pub(super) fn violation(reason: &str, detail: String) -> Option<Violation> {
    Some(Violation { reason: reason.to_owned(), detail })
}
