//! API objects in memory: JSON with the accessors that every kind needs.
//!
//! Objects are JSON from decoding to storing; `decode` has already rejected values that do not match the
//! kind's type, so a typed view ([`Object::typed`]) always succeeds. In memory an object has
//! neither `kind` nor `apiVersion` (the kind is known from the path) and no `null`s except those
//! that the wire format requires.

use jiff::Timestamp;
use orlop_apimachinery::times::{self, Mend};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A timestamp in the format of API objects: RFC 3339, UTC, whole seconds.
pub fn show_time(time: Timestamp) -> Value {
    Value::String(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// An object of some kind, without `kind` and `apiVersion`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(pub Map<String, Value>);

impl Object {
    /// Creates an object from a value; anything but a JSON object results in an empty one.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(map) => Object(map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Object::default()
            }
        }
    }

    /// The object as a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// A typed copy, for rules that read many fields. `None` only if the JSON does not match the
    /// type, which decoding rules out for every object from the wire or the store. Times that the type
    /// cannot represent are replaced (see [`times`]).
    pub fn typed<T: DeserializeOwned>(&self) -> Option<T> {
        let decode = |map: &Map<String, Value>| {
            T::deserialize(serde::de::value::MapDeserializer::new(map.iter().map(|(k, v)| (k.as_str(), v))))
                .ok()
        };
        decode(&self.0).or_else(|| {
            let mut mended = Value::Object(self.0.clone());
            [Mend::Range, Mend::Required].into_iter().find_map(|mend| {
                times::mend(&mut mended, mend).then(|| mended.as_object().and_then(decode)).flatten()
            })
        })
    }

    /// The value at a path of object keys.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, key| value.get(*key))
    }

    /// The string at a path; `""` if there is none.
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The JSON object at a path. Creates it, and intermediate objects, if absent.
    pub fn object_at(&mut self, path: &[&str]) -> &mut Map<String, Value> {
        let mut map = &mut self.0;
        for key in path {
            let entry = map.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            map = entry.as_object_mut().expect("was just made an object");
        }
        map
    }

    /// Sets the value at a path. Creates intermediate objects.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        if let Some((last, parents)) = path.split_last() {
            self.object_at(parents).insert((*last).to_owned(), value.into());
        }
    }

    /// Sets the value at a path unless it already has one (`null` counts as none).
    pub fn set_default(&mut self, path: &[&str], value: impl Into<Value>) {
        if self.at(path).is_none_or(Value::is_null) {
            self.set(path, value);
        }
    }

    /// Removes and returns the value at a path.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let mut map = &mut self.0;
        for key in parents {
            map = map.get_mut(*key)?.as_object_mut()?;
        }
        map.remove(*last)
    }

    /// `metadata`, created if absent.
    pub fn meta(&mut self) -> &mut Map<String, Value> {
        self.object_at(&["metadata"])
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.str_at(&["metadata", "name"])
    }

    /// `metadata.namespace`; `""` for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.str_at(&["metadata", "namespace"])
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.str_at(&["metadata", "uid"])
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> Option<&Map<String, Value>> {
        self.at(&["metadata", "labels"]).and_then(Value::as_object)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "annotations", key]).and_then(Value::as_str)
    }

    /// Whether deletion has begun.
    pub fn is_terminating(&self) -> bool {
        self.at(&["metadata", "deletionTimestamp"]).is_some_and(Value::is_string)
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.at(&["metadata", "finalizers"])
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// Adds a finalizer unless it is already present.
    pub fn add_finalizer(&mut self, finalizer: &str) {
        if self.finalizers().any(|f| f == finalizer) {
            return;
        }
        let list = self.meta().entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(finalizer.into());
        }
    }

    /// Replaces a top-level field (`spec`, `status`) with the other object's, or removes it if
    /// the other object does not have it.
    pub fn copy_member(&mut self, from: &Object, member: &str) {
        match from.0.get(member) {
            Some(value) => self.0.insert(member.to_owned(), value.clone()),
            None => self.0.remove(member),
        };
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Service};
    use serde_json::json;

    use super::*;

    /// Validation and quotas read typed copies: a time must not disable them.
    #[test]
    fn times_do_not_prevent_a_typed_copy() {
        let conditions = |time: Value| {
            Object::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": time}]}}))
        };
        for time in [json!("9999-12-31T23:59:59Z"), json!("-001-12-31T23:00:00Z"), Value::Null] {
            assert!(conditions(time.clone()).typed::<Node>().is_some(), "{time}");
            assert!(conditions(time.clone()).typed::<Service>().is_some(), "{time}");
        }
        assert!(conditions(json!("soon")).typed::<Node>().is_none());
    }
}
