//! The elements of a scenario: steps with a sentence, writes, and expected levels. Data only; `play` runs them.
//!
//! `{word}` in paths and bodies is a placeholder for a value that an earlier level stored under this word.

use serde_json::Value;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The description in the list of scenarios.
    pub(crate) about: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// A step.
pub(crate) struct Step {
    /// One sentence: the event and its reason.
    pub(crate) say: &'static str,
    pub(crate) does: Vec<Write>,
    pub(crate) until: Vec<Level>,
    /// Commands that show the current state; `play` adds the server.
    pub(crate) look: Vec<&'static str>,
}

/// A write, and the status code with which it must be refused, if any.
pub(crate) struct Write {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) refused: Option<u16>,
}

/// The type of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Create in the collection at the path.
    Create,
    /// Apply a merge patch.
    Patch,
    Delete,
}

/// A state that must be reached.
pub(crate) struct Level {
    /// The description of the state.
    pub(crate) words: &'static str,
    pub(crate) what: What,
    /// A value for later steps: the placeholder's word, and a JSON pointer into the object.
    pub(crate) keep: Option<(&'static str, &'static str)>,
}

/// The checks of a level.
pub(crate) enum What {
    /// An object or a list.
    Object { path: String, holds: fn(&Value) -> bool },
    /// The object does not exist.
    Gone { path: String },
    /// The driver and the API have the same volumes, or the volumes are being provisioned.
    Audit,
}

/// A step with a sentence only.
pub(crate) fn step(say: &'static str) -> Step {
    Step { say, does: Vec::new(), until: Vec::new(), look: Vec::new() }
}

impl Step {
    fn write(mut self, verb: Verb, path: String, body: Value) -> Self {
        self.does.push(Write { verb, path, body, refused: None });
        self
    }

    pub(crate) fn create(self, collection: &str, object: Value) -> Self {
        self.write(Verb::Create, collection.to_owned(), object)
    }

    pub(crate) fn patch(self, path: impl Into<String>, body: Value) -> Self {
        self.write(Verb::Patch, path.into(), body)
    }

    pub(crate) fn delete(self, path: impl Into<String>) -> Self {
        self.write(Verb::Delete, path.into(), Value::Null)
    }

    /// Expects the last write to be refused with this code.
    pub(crate) fn refused(mut self, code: u16) -> Self {
        if let Some(write) = self.does.last_mut() {
            write.refused = Some(code);
        }
        self
    }

    pub(crate) fn until(mut self, level: Level) -> Self {
        self.until.push(level);
        self
    }

    /// Adds a command of kubectl or orlop that shows the state, without the server.
    pub(crate) fn look(mut self, command: &'static str) -> Self {
        self.look.push(command);
        self
    }
}

/// Waits until an object or a list satisfies the predicate.
pub(crate) fn see(path: impl Into<String>, words: &'static str, holds: fn(&Value) -> bool) -> Level {
    let what = What::Object { path: path.into(), holds };
    Level { words, what, keep: None }
}

/// Waits until an object is deleted.
pub(crate) fn gone(path: impl Into<String>, words: &'static str) -> Level {
    Level { words, what: What::Gone { path: path.into() }, keep: None }
}

/// Waits until the driver and the API have the same volumes.
pub(crate) fn audit(words: &'static str) -> Level {
    Level { words, what: What::Audit, keep: None }
}

/// Waits for an event of an object with this name and this reason.
pub(crate) fn event(name: &str, reason: &str, words: &'static str) -> Level {
    let path = format!("{EVENTS}?fieldSelector=involvedObject.name={name},reason={reason}");
    see(path, words, has_items)
}

impl Level {
    /// Stores the value at a JSON pointer under a word.
    pub(crate) fn keeping(mut self, word: &'static str, pointer: &'static str) -> Self {
        self.keep = Some((word, pointer));
        self
    }
}

/// Whether a list is not empty.
pub(crate) fn has_items(list: &Value) -> bool {
    list["items"].as_array().is_some_and(|items| !items.is_empty())
}

/// The status of a condition; empty if there is none.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let all = object["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == type_));
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// Whether a node has a taint with this key.
pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

/// Whether a pod is running and ready.
pub(crate) fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "True"
}

/// Whether a claim is bound.
pub(crate) fn bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn predicates_of_levels() {
        let pod = |phase: &str, ready: &str| json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        for (pod, want) in [
            (pod("Running", "True"), true),
            (pod("Running", "False"), false),
            (pod("Pending", "True"), false),
        ] {
            assert_eq!(runs(&pod), want, "{pod}");
        }
        assert!(!runs(&json!({})));
        assert!(!has_items(&json!({"items": []})) && has_items(&json!({"items": [1]})));
        let node = json!({"spec": {"taints": [{"key": "a"}]}});
        assert!(has_taint(&node, "a") && !has_taint(&node, "b") && !has_taint(&json!({}), "a"));
    }
}
