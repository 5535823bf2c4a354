//! What a story is made of: steps with a sentence, writes, and levels that must come. Data only; `play` does it.
//!
//! `{word}` in paths and bodies stands for what an earlier level has kept under this word.

use serde_json::Value;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A story.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// One line of the list.
    pub(crate) about: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// One step.
pub(crate) struct Step {
    /// One sentence: what happens and why.
    pub(crate) say: &'static str,
    pub(crate) does: Vec<Write>,
    pub(crate) until: Vec<Level>,
    /// Commands that show what there is now; the player says where the laboratory is.
    pub(crate) look: Vec<&'static str>,
}

/// What is written, and with which code it must be refused, if it must.
pub(crate) struct Write {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) refused: Option<u16>,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Into the collection of the path.
    Create,
    /// A merge patch.
    Patch,
    Delete,
}

/// What must be so in the end.
pub(crate) struct Level {
    /// In words.
    pub(crate) words: &'static str,
    pub(crate) what: What,
    /// What later steps need: its word, and where it is in the object (a JSON pointer).
    pub(crate) keep: Option<(&'static str, &'static str)>,
}

/// Of what.
pub(crate) enum What {
    /// An object, or a list.
    Object { path: String, holds: fn(&Value) -> bool },
    /// There is no such object.
    Gone { path: String },
    /// The driver's volumes and those of the API are the same, or are being made.
    Audit,
}

/// A step that only says something, so far.
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

    /// The last write must be refused with this code.
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

    /// Where a person may look now: a line of kubectl or of orlop, without the server.
    pub(crate) fn look(mut self, command: &'static str) -> Self {
        self.look.push(command);
        self
    }
}

/// An object, or a list, comes to be so.
pub(crate) fn see(path: impl Into<String>, words: &'static str, holds: fn(&Value) -> bool) -> Level {
    let what = What::Object { path: path.into(), holds };
    Level { words, what, keep: None }
}

/// An object goes.
pub(crate) fn gone(path: impl Into<String>, words: &'static str) -> Level {
    Level { words, what: What::Gone { path: path.into() }, keep: None }
}

/// Nothing is lost between the driver and the API.
pub(crate) fn audit(words: &'static str) -> Level {
    Level { words, what: What::Audit, keep: None }
}

/// There is an event about an object of this name, with this reason.
pub(crate) fn event(name: &str, reason: &str, words: &'static str) -> Level {
    let path = format!("{EVENTS}?fieldSelector=involvedObject.name={name},reason={reason}");
    see(path, words, has_items)
}

impl Level {
    /// Keeps what is at a JSON pointer under a word.
    pub(crate) fn keeping(mut self, word: &'static str, pointer: &'static str) -> Self {
        self.keep = Some((word, pointer));
        self
    }
}

/// A list that is not empty.
pub(crate) fn has_items(list: &Value) -> bool {
    list["items"].as_array().is_some_and(|items| !items.is_empty())
}

/// The status of a condition; empty when there is none.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let all = object["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == type_));
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// A taint of this key.
pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

/// A pod that runs and is ready.
pub(crate) fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running" && condition(pod, "Ready") == "True"
}

/// A claim that is bound.
pub(crate) fn bound(claim: &Value) -> bool {
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
