//! Fits the metadata of embedded objects to `ObjectMeta`, and checks that their `apiVersion` and `kind` are strings.
//!
//! This is a part of decoding: a mistyped member makes a request invalid before the object is validated.
//!
//! Upstream: apiextensions-apiserver `pkg/apiserver/schema/objectmeta`.

use std::fmt;

use orlop_api::go_json;
use orlop_api::validate::Path;
use orlop_codec::decode::conform_metadata;
use serde_json::{Map, Value};

use crate::default::drops_null;
use crate::prune::{MAX_LISTED, MAX_LISTED_TEXT};
use crate::schema::Schema;

/// A member of an embedded object that has the wrong type.
#[derive(Debug)]
pub(crate) struct Mistyped {
    pub(crate) path: Path,
    pub(crate) value: Value,
    pub(crate) why: String,
}

impl fmt::Display for Mistyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: Invalid value: {}: {}", self.path, go_json::display(&self.value), self.why)
    }
}

/// Fits the embedded objects in a value: drops the unknown fields of their metadata, and appends the sorted paths of these fields
/// to `unknown`.
///
/// # Errors
/// The first member that has the wrong type.
pub(crate) fn coerce(
    schema: &Schema,
    path: &Path,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), Mistyped> {
    let known = unknown.len();
    let mut coercion = Coercion { unknown: Some(&mut *unknown), text: 0 };
    coercion.value(schema, path, value)?;
    unknown[known..].sort_unstable();
    Ok(())
}

/// Like [`coerce`], for an object of the store: drops mistyped members, which the schema may have allowed when the object was stored.
pub(crate) fn coerce_stored(schema: &Schema, value: &mut Value) {
    // Without a list of unknown fields, no member is rejected.
    let _ = Coercion { unknown: None, text: 0 }.value(schema, &Path::default(), value);
}

struct Coercion<'a> {
    /// The paths of unknown fields; `None` for an object of the store.
    unknown: Option<&'a mut Vec<String>>,
    /// The length of these paths, bytes.
    text: usize,
}

impl Coercion<'_> {
    fn value(&mut self, schema: &Schema, path: &Path, value: &mut Value) -> Result<(), Mistyped> {
        if !schema.embeds_inside {
            return Ok(());
        }
        match value {
            Value::Object(map) => {
                if schema.embedded {
                    self.type_meta(schema, path, map)?;
                    self.metadata(schema, path, map)?;
                }
                for (name, value) in map {
                    if let Some(property) = schema.properties.get(name) {
                        self.value(property, &path.child(name), value)?;
                    } else if let Some(additional) = &schema.additional {
                        self.value(additional, &path.key(name), value)?;
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = &schema.items else { return Ok(()) };
                for (at, item) in list.iter_mut().enumerate() {
                    self.value(items, &path.index(at), item)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn type_meta(&self, schema: &Schema, path: &Path, map: &mut Map<String, Value>) -> Result<(), Mistyped> {
        for name in ["apiVersion", "kind"] {
            let Some(value) = member(schema, map, name).filter(|value| !value.is_string()) else { continue };
            if self.unknown.is_some() {
                let (path, value) = (path.child(name), value.clone());
                return Err(Mistyped { path, value, why: "must be a string".to_owned() });
            }
            map.remove(name);
        }
        Ok(())
    }

    fn metadata(
        &mut self,
        schema: &Schema,
        path: &Path,
        map: &mut Map<String, Value>,
    ) -> Result<(), Mistyped> {
        const METADATA: &str = "metadata";
        let Some(given) = member(schema, map, METADATA).cloned() else { return Ok(()) };
        let path = path.child(METADATA);
        let metadata = match (conform_metadata(given.clone()), given) {
            (Ok((metadata, fields)), _) => {
                self.list(&path, fields);
                metadata
            }
            (Err(why), value) if self.unknown.is_some() => return Err(Mistyped { path, value, why }),
            (Err(_), Value::Object(fields)) => well_typed(fields),
            // Validation rejects the next update.
            (Err(_), _) => return Ok(()),
        };
        map.insert(METADATA.to_owned(), metadata);
        Ok(())
    }

    /// Lists the unknown fields of metadata.
    fn list(&mut self, path: &Path, fields: Vec<String>) {
        let Some(unknown) = &mut self.unknown else { return };
        for field in fields {
            if unknown.len() >= MAX_LISTED || self.text > MAX_LISTED_TEXT {
                return;
            }
            let field = format!("{path}.{field}");
            self.text += field.len();
            unknown.push(field);
        }
    }
}

/// Returns a member of an embedded object. A `null` that the schema does not allow counts as missing.
fn member<'v>(schema: &Schema, map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let value = map.get(name)?;
    let is_missing = value.is_null() && schema.properties.get(name).is_some_and(drops_null);
    Some(value).filter(|_| !is_missing)
}

/// Returns the fields of metadata that have the right type.
fn well_typed(fields: Map<String, Value>) -> Value {
    let mut metadata = Map::new();
    for (name, value) in fields {
        let field = Value::Object(Map::from_iter([(name, value)]));
        if let Ok((Value::Object(field), _)) = conform_metadata(field) {
            metadata.extend(field);
        }
    }
    Value::Object(metadata)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Embedded objects as a property, in a list, and in a map, one of which embeds another.
    fn schema() -> Schema {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        let mut outer = embedded.clone();
        outer["properties"] = json!({"inner": embedded, "kind": {"type": "string"}});
        Schema::of(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "obj": outer,
            "list": {"type": "array", "items": embedded},
            "map": {"type": "object", "additionalProperties": embedded},
            "plain": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}}))
    }

    #[test]
    fn embedded_metadata_is_fitted() {
        let given = json!({"metadata": {"nope": 1}, "spec": {
            "obj": {"metadata": {"name": "a", "z": 1, "labels": {"x": null}}, "inner": {"metadata": null}, "kind": null},
            "list": [{"metadata": {"ownerReferences": [{"odd": 1}]}}, {}, "x"],
            "map": {"k": {"metadata": {"nope": 1, "creationTimestamp": null}}},
            "plain": {"metadata": 1},
        }});
        let mut value = given;
        let mut unknown = vec!["z".to_owned()];
        coerce(&schema(), &Path::default(), &mut value, &mut unknown).unwrap();
        let owner = json!({"apiVersion": "", "kind": "", "name": "", "uid": ""});
        assert_eq!(
            value,
            json!({"metadata": {"nope": 1}, "spec": {
                "obj": {"metadata": {"name": "a", "labels": {"x": ""}}, "inner": {"metadata": {}}, "kind": null},
                "list": [{"metadata": {"ownerReferences": [owner]}}, {}, "x"],
                "map": {"k": {"metadata": {}}},
                "plain": {"metadata": 1},
            }})
        );
        assert_eq!(
            unknown,
            [
                "z",
                "spec.list[0].metadata.ownerReferences[0].odd",
                "spec.map[k].metadata.nope",
                "spec.obj.metadata.z",
            ]
        );
    }

    #[test]
    fn mistyped_members_are_rejected_or_dropped_from_stored_objects() {
        for (given, want, stored) in [
            (
                json!({"obj": {"metadata": {"name": 1, "uid": "u", "nope": 1}}}),
                "spec.obj.metadata: Invalid value: {\"name\":1,\"nope\":1,\"uid\":\"u\"}: json: cannot unmarshal number into Go \
                 struct field ObjectMeta.name of type string",
                json!({"obj": {"metadata": {"uid": "u"}}}),
            ),
            (
                json!({"obj": {"metadata": "<x>"}}),
                "spec.obj.metadata: Invalid value: \"<x>\": json: cannot unmarshal string into Go value of type v1.ObjectMeta",
                json!({"obj": {"metadata": "<x>"}}),
            ),
            (
                json!({"list": [{}, {"metadata": {"labels": {"<": 1}}}]}),
                "spec.list[1].metadata: Invalid value: {\"labels\":{\"\\u003c\":1}}: json: cannot unmarshal number into Go struct \
                 field ObjectMeta.labels of type string",
                json!({"list": [{}, {"metadata": {}}]}),
            ),
            (
                json!({"map": {"k": {"apiVersion": 1, "kind": "K"}}}),
                "spec.map[k].apiVersion: Invalid value: 1: must be a string",
                json!({"map": {"k": {"kind": "K"}}}),
            ),
            (
                json!({"obj": {"inner": {"kind": {"a": []}}}}),
                "spec.obj.inner.kind: Invalid value: {\"a\":[]}: must be a string",
                json!({"obj": {"inner": {}}}),
            ),
            (
                json!({"obj": {"apiVersion": null}}),
                "spec.obj.apiVersion: Invalid value: null: must be a string",
                json!({"obj": {}}),
            ),
        ] {
            let mut value = json!({"spec": given});
            let error = coerce(&schema(), &Path::default(), &mut value, &mut Vec::new()).unwrap_err();
            assert_eq!(error.to_string(), want);
            let mut value = json!({"spec": given});
            coerce_stored(&schema(), &mut value);
            assert_eq!(value["spec"], stored, "{want}");
        }
    }

    #[test]
    fn paths_of_long_names_are_limited() {
        let objects: Map<String, Value> = (0..50)
            .map(|at| {
                (format!("{at}{}", "k".repeat(MAX_LISTED_TEXT / 2)), json!({"metadata": {"a": 1, "b": 1}}))
            })
            .collect();
        let mut unknown = Vec::new();
        coerce(&schema(), &Path::default(), &mut json!({"spec": {"map": objects}}), &mut unknown).unwrap();
        assert_eq!(unknown.len(), 2, "of a hundred");
    }
}
