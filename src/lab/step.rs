//! What a story is made of: steps with a sentence, writes, and levels that must come. Data only; `play` does it.
//!
//! `{word}` in paths and bodies stands for what an earlier level has kept under this word.

use serde_json::Value;

pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(super) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(super) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A story.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// One line of the list.
    pub(super) about: &'static str,
    pub(super) steps: Vec<Step>,
}

/// One step.
pub(super) struct Step {
    /// One sentence: what happens and why.
    pub(super) say: &'static str,
    pub(super) does: Vec<Write>,
    pub(super) until: Vec<Level>,
    /// Commands that show what there is now; the player says where the laboratory is.
    pub(super) look: Vec<&'static str>,
}

/// What is written, and with which code it must be refused, if it must.
pub(super) struct Write {
    pub(super) verb: Verb,
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) refused: Option<u16>,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Into the collection of the path.
    Create,
    /// A merge patch.
    Patch,
    Delete,
}

/// What must be so in the end.
pub(super) struct Level {
    /// In words.
    pub(super) words: &'static str,
    pub(super) what: What,
    /// What later steps need: its word, and where it is in the object (a JSON pointer).
    pub(super) keep: Option<(&'static str, &'static str)>,
}

/// Of what.
pub(super) enum What {
    /// An object, or a list.
    Object { path: String, holds: fn(&Value) -> bool },
    /// There is no such object.
    Gone { path: String },
    /// The driver's volumes and those of the API are the same, or are being made.
    Audit,
}

/// A step that only says something, so far.
pub(super) fn step(say: &'static str) -> Step {
    Step { say, does: Vec::new(), until: Vec::new(), look: Vec::new() }
}

impl Step {
    fn write(mut self, verb: Verb, path: String, body: Value) -> Self {
        self.does.push(Write { verb, path, body, refused: None });
        self
    }

    pub(super) fn create(self, collection: &str, object: Value) -> Self {
        self.write(Verb::Create, collection.to_owned(), object)
    }

    pub(super) fn patch(self, path: impl Into<String>, body: Value) -> Self {
        self.write(Verb::Patch, path.into(), body)
    }

    pub(super) fn delete(self, path: impl Into<String>) -> Self {
        self.write(Verb::Delete, path.into(), Value::Null)
    }

    /// The last write must be refused with this code.
    pub(super) fn refused(mut self, code: u16) -> Self {
        if let Some(write) = self.does.last_mut() {
            write.refused = Some(code);
        }
        self
    }

    pub(super) fn until(mut self, level: Level) -> Self {
        self.until.push(level);
        self
    }

    /// Where a person may look now: a line of kubectl or of orlop, without the server.
    pub(super) fn look(mut self, command: &'static str) -> Self {
        self.look.push(command);
        self
    }
}

/// An object, or a list, comes to be so.
pub(super) fn see(path: impl Into<String>, words: &'static str, holds: fn(&Value) -> bool) -> Level {
    let what = What::Object { path: path.into(), holds };
    Level { words, what, keep: None }
}

/// An object goes.
pub(super) fn gone(path: impl Into<String>, words: &'static str) -> Level {
    Level { words, what: What::Gone { path: path.into() }, keep: None }
}

/// Nothing is lost between the driver and the API.
pub(super) fn audit(words: &'static str) -> Level {
    Level { words, what: What::Audit, keep: None }
}

/// There is an event about an object of this name, with this reason.
pub(super) fn event(name: &str, reason: &str, words: &'static str) -> Level {
    let path = format!("{EVENTS}?fieldSelector=involvedObject.name={name},reason={reason}");
    see(path, words, has_items)
}

impl Level {
    /// Keeps what is at a JSON pointer under a word.
    pub(super) fn keeping(mut self, word: &'static str, pointer: &'static str) -> Self {
        self.keep = Some((word, pointer));
        self
    }
}

/// A list that is not empty.
pub(super) fn has_items(list: &Value) -> bool {
    list["items"].as_array().is_some_and(|items| !items.is_empty())
}

/// The status of a condition; empty when there is none.
pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let all = object["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == type_));
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// A taint of this key.
pub(super) fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

/// A pod that runs and is ready.
pub(super) fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "True"
}

/// A claim that is bound.
pub(super) fn bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_of_objects() {
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
