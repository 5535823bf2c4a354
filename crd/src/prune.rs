//! Prunes members that a schema does not declare, and reports their paths.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/pruning`.

use serde_json::Value;

use crate::schema::{Schema, Type};

/// Maximum number of reported paths.
pub(crate) const MAX_LISTED: usize = 100;
/// Maximum length of the reported paths together, bytes. A path contains names of the client's choice.
pub(crate) const MAX_LISTED_TEXT: usize = 1 << 20;

/// Removes the members that the schema does not declare, and appends their sorted paths to `dropped`.
/// The root and embedded objects retain `apiVersion`, `kind` and `metadata`.
pub(crate) fn prune(schema: &Schema, value: &mut Value, is_object_root: bool, dropped: &mut Vec<String>) {
    let known = dropped.len();
    Pruning { path: String::new(), dropped: Some(&mut *dropped), text: 0 }.value(
        schema,
        value,
        is_object_root,
    );
    dropped[known..].sort_unstable();
}

/// Like [`prune`], for an object of the store, without the paths.
pub(crate) fn prune_stored(schema: &Schema, value: &mut Value) {
    Pruning { path: String::new(), dropped: None, text: 0 }.value(schema, value, true);
}

struct Pruning<'a> {
    /// Empty if no paths are reported.
    path: String,
    dropped: Option<&'a mut Vec<String>>,
    /// The length of the reported paths, bytes.
    text: usize,
}

impl Pruning<'_> {
    fn below(&mut self, step: &str, prune: impl FnOnce(&mut Self)) {
        if self.dropped.is_none() {
            return prune(self);
        }
        let length = self.path.len();
        if !step.starts_with('[') && length > 0 {
            self.path.push('.');
        }
        self.path.push_str(step);
        prune(self);
        self.path.truncate(length);
    }

    fn value(&mut self, schema: &Schema, value: &mut Value, is_object: bool) {
        match value {
            Value::Object(map) => {
                let is_object = is_object || schema.embedded;
                map.retain(|name, value| {
                    let (property, additional) = (schema.properties.get(name), schema.additional.as_deref());
                    if is_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                        return true;
                    }
                    let Some(schema) = property.or(additional) else {
                        if !schema.preserve {
                            self.below(name, |pruning| pruning.note());
                        }
                        return schema.preserve;
                    };
                    // `additionalProperties: true` accepts any value.
                    let anything = property.is_none() && is_bare(schema);
                    if !anything {
                        self.below(name, |pruning| pruning.value(schema, value, false));
                    }
                    true
                });
            }
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                for (at, item) in list.iter_mut().enumerate() {
                    self.below(&format!("[{at}]"), |pruning| pruning.value(items, item, false));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn note(&mut self) {
        let Some(dropped) = &mut self.dropped else { return };
        if dropped.len() < MAX_LISTED && self.text <= MAX_LISTED_TEXT {
            self.text += self.path.len();
            dropped.push(self.path.clone());
        }
    }
}

/// Whether a schema is empty.
pub(crate) fn is_bare(schema: &Schema) -> bool {
    let says = schema.ty != Type::Any || schema.int_or_string || schema.preserve;
    !says && schema.properties.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn undeclared_members_are_pruned() {
        let text = json!({"type": "string"});
        for (case, schema, given, want, want_dropped) in [
            (
                "1 plain",
                json!({"type": "object", "properties": {"a": text}}),
                json!({"a": "x", "b": 1}),
                json!({"a": "x"}),
                vec!["b"],
            ),
            (
                "2 the root keeps what objects have",
                json!({"type": "object"}),
                json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {}}),
                json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}),
                vec!["spec"],
            ),
            (
                "3 undeclared members preserved, but pruned below declared ones",
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                       "properties": {"a": {"type": "object", "properties": {"b": text}}}}),
                json!({"a": {"b": "", "c": 1}, "z": {"y": 1}}),
                json!({"a": {"b": ""}, "z": {"y": 1}}),
                vec!["a.c"],
            ),
            (
                "4 lists and maps",
                json!({"type": "object", "properties": {
                    "l": {"type": "array", "items": {"type": "object", "properties": {"a": text}}},
                    "m": {"type": "object", "additionalProperties": {"type": "object"}}}}),
                json!({"l": [{"a": "1"}, {"b": 1}], "m": {"k": {"x": 1}}}),
                json!({"l": [{"a": "1"}, {}], "m": {"k": {}}}),
                vec!["l[1].b", "m.k.x"],
            ),
            (
                "5 embedded objects",
                json!({"type": "object", "properties": {"o": {"type": "object",
                    "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}}}),
                json!({"o": {"apiVersion": "v1", "kind": "K", "metadata": {}, "spec": {"a": 1}, "data": 1}}),
                json!({"o": {"apiVersion": "v1", "kind": "K", "metadata": {}, "spec": {}}}),
                vec!["o.data", "o.spec.a"],
            ),
            (
                "7 metadata of embedded objects stays as it is",
                json!({"type": "object", "properties": {
                    "o": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                    "p": {"type": "object"}}}),
                json!({"o": {"metadata": {"name": "n", "nope": 1}, "x": 1}, "p": {"x": 1}}),
                json!({"o": {"metadata": {"name": "n", "nope": 1}, "x": 1}, "p": {}}),
                vec!["p.x"],
            ),
            (
                "6 anything in a map",
                json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}}),
                json!({"m": {"k": {"x": [1]}}}),
                json!({"m": {"k": {"x": [1]}}}),
                vec![],
            ),
        ] {
            let mut value = given;
            let mut dropped = Vec::new();
            prune(&Schema::of(&schema), &mut value, true, &mut dropped);
            assert_eq!(value, want, "{case}");
            assert_eq!(dropped, want_dropped, "{case}");
        }
    }

    #[test]
    fn paths_of_long_names_are_limited() {
        let schema = json!({"type": "object", "properties": {
            "m": {"type": "object", "additionalProperties": {"type": "object"}}}});
        let many: serde_json::Map<String, Value> = (0..100).map(|at| (format!("a{at}"), json!(0))).collect();
        let mut value = json!({"m": {"k".repeat(MAX_LISTED_TEXT): many}});
        let mut stored = value.clone();
        let mut dropped = Vec::new();
        prune(&Schema::of(&schema), &mut value, true, &mut dropped);
        assert_eq!(dropped.len(), 1);
        prune_stored(&Schema::of(&schema), &mut stored);
        assert_eq!(stored, value);
    }
}
