//! The second run of mutating admission, after a policy or a webhook has changed an object.
//!
//! Upstream: apiserver `pkg/admission/reinvocation`, `pkg/admission/plugin/*/reinvocationcontext.go`.

use std::collections::HashSet;

use orlop_api::object::Object;

/// The state of all plugins that may run twice.
#[derive(Default)]
pub(crate) struct Reinvocation {
    /// Whether this is the second run.
    pub(crate) is_second: bool,
    /// Whether a second run is needed.
    pub(crate) is_needed: bool,
    /// The state of the policies.
    pub(crate) policies: Invoked,
    /// The state of the webhooks.
    pub(crate) webhooks: Invoked,
}

/// The webhooks or policies that one plugin has run.
#[derive(Default)]
pub(crate) struct Invoked {
    last_output: Option<Object>,
    before: HashSet<String>,
    again: HashSet<String>,
}

impl Invoked {
    /// Begins a run: if other plugins have changed the object since the last one, all that may run twice run again.
    pub(crate) fn begin(&mut self, is_second: bool, object: Option<&Object>) {
        if is_second && self.last_output.as_ref() != object {
            self.require_all();
        }
    }

    /// Ends a run.
    pub(crate) fn end(&mut self, object: Option<&Object>) {
        self.last_output = object.cloned();
    }

    /// Whether a policy or webhook runs now.
    pub(crate) fn runs(&self, is_second: bool, key: &str) -> bool {
        !is_second || self.again.contains(key)
    }

    /// Runs all webhooks or policies again that have run and may run twice.
    pub(crate) fn require_all(&mut self) {
        self.again.extend(self.before.drain());
    }

    /// Records that a policy or webhook which may run twice has run.
    pub(crate) fn add(&mut self, key: String) {
        self.before.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_earlier_plugins_run_again() {
        let mut invoked = Invoked::default();
        let object = Object::from_value(json!({"a": 1}));
        invoked.begin(false, Some(&object));
        assert!(invoked.runs(false, "first"));
        invoked.add("first".to_owned());
        invoked.require_all();
        invoked.add("second".to_owned());
        invoked.end(Some(&object));
        invoked.begin(true, Some(&object));
        assert!(invoked.runs(true, "first") && !invoked.runs(true, "second"));
        invoked.begin(true, Some(&Object::from_value(json!({"a": 2}))));
        assert!(invoked.runs(true, "second"), "the object has changed since");
    }
}
