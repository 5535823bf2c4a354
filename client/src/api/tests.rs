//! Decodes every kind with each of its times unset, missing and out of range (I12).
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::{Map, Value, json};

use super::Json;
use super::object::built_in::kinds;

/// A kind that the client decodes.
pub(super) struct TestKind {
    name: &'static str,
    /// Decodes, encodes and decodes again, as the cache does.
    decode: fn(&Value) -> serde_json::Result<()>,
    schema: Value,
    definitions: Map<String, Value>,
}

impl TestKind {
    pub(super) fn of<K: Json + JsonSchema>(name: &'static str) -> Self {
        let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
        let schema = serde_json::to_value(generator.subschema_for::<K>()).unwrap();
        let decode = |object: &Value| K::decode(&K::from_value(object)?.encode()?).map(drop);
        Self { name, decode, schema, definitions: generator.take_definitions(true) }
    }

    /// The definition that a schema refers to, and its name.
    fn resolve<'a>(&'a self, schema: &'a Value) -> (&'a str, &'a Value) {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        let name = reference.and_then(|text| text.rsplit('/').next()).unwrap_or_default();
        (name, self.definitions.get(name).unwrap_or(schema))
    }

    /// The paths to all times below a schema.
    fn times(&self, schema: &Value, path: &[Step], found: &mut Vec<Vec<Step>>) {
        assert!(path.len() < 40, "{}: a type contains itself", self.name);
        let (name, schema) = self.resolve(schema);
        if name.ends_with(".Time") || name.ends_with(".MicroTime") {
            return found.push(path.to_vec());
        }
        let with = |step: Step| [path, &[step]].concat();
        for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
            self.times(schema, &with(Step::Member(member.clone())), found);
        }
        if schema["items"].is_object() {
            self.times(&schema["items"], &with(Step::Item), found);
        }
        if schema["additionalProperties"].is_object() {
            self.times(&schema["additionalProperties"], &with(Step::Member("a".to_owned())), found);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Member(String),
    Item,
}

/// A value with nothing but `last` at a path; the innermost member is missing if there is no `last`.
fn at(path: &[Step], last: Option<&Value>) -> Value {
    match (path, last) {
        ([], last) => last.cloned().unwrap_or_default(),
        ([Step::Member(_)], None) => json!({}),
        ([Step::Member(name), rest @ ..], _) => json!({ name: at(rest, last) }),
        ([Step::Item, rest @ ..], _) => json!([at(rest, last)]),
    }
}

#[test]
fn i12_every_time_of_every_kind_may_be_unset_missing_or_out_of_range() {
    let values = [
        Some(json!(null)),
        Some(json!("0001-01-01T00:00:00Z")),
        Some(json!("0001-01-01T00:00:00.000000Z")),
        Some(json!("9999-12-31T23:59:59Z")),
        Some(json!("9999-12-31T23:59:59.999999Z")),
        Some(json!("9999-12-30T22:00:00.123456Z")),
        Some(json!("0000-01-01T00:00:00Z")),
        Some(json!("-0001-12-31T23:00:00Z")),
        Some(json!("-001-12-31T23:00:00.000000Z")),
        Some(json!("2026-01-02T03:04:05.123456789+02:00")),
        None,
    ];
    let mut count = 0;
    for kind in kinds() {
        let mut times = Vec::new();
        kind.times(&kind.schema, &[], &mut times);
        for path in &times {
            for value in &values {
                let object = at(path, value.as_ref());
                if let Err(error) = (kind.decode)(&object) {
                    panic!("{}: {object}: {error}", kind.name);
                }
            }
        }
        count += times.len();
    }
    assert!(count > 200, "the schemas have only {count} times");
}

#[test]
fn i12_unset_required_time_does_not_prevent_decoding() {
    use k8s_openapi::api::core::v1::Service;
    let condition = |time: Value| {
        json!({"metadata": {"name": "s"}, "status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": time}]}})
    };
    let service = Service::from_value(&condition(Value::Null)).unwrap();
    let conditions = service.status.as_ref().unwrap().conditions.as_ref().unwrap();
    // The server reads this as unset, so writing the object again does not change it.
    assert_eq!(service.to_value().unwrap()["status"], condition(json!("0001-01-01T00:00:00Z"))["status"]);
    assert_eq!((conditions[0].type_.as_str(), conditions[0].message.as_str()), ("Ready", "m"));
}

#[test]
fn other_times_and_values_of_users_stay() {
    let never = "9999-12-31T23:59:59Z";
    let volume = json!({"metadata": {"name": "v", "annotations": {"startTime": never}}, "spec": {},
        "status": {"phase": "Available", "lastPhaseTransitionTime": never}});
    let volume = PersistentVolume::from_value(&volume).unwrap();
    let time = volume.status.unwrap().last_phase_transition_time.unwrap().0;
    assert_eq!(time.to_string(), orlop_apimachinery::times::LATEST);
    assert_eq!(volume.metadata.annotations.unwrap()["startTime"], never);
    let odd = json!({"metadata": {"name": "v"}, "spec": {}, "status": {"lastPhaseTransitionTime": "soon"}});
    assert!(PersistentVolume::from_value(&odd).is_err());
}

#[test]
fn metadata_of_any_kind_is_decoded() {
    let never = "9999-12-31T23:59:59Z";
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "status": {"conditions": [{}]},
        "metadata": {"name": "w", "creationTimestamp": never, "managedFields": [{"time": never}]}});
    assert!(DynamicObject::from_value(&object).is_ok());
    assert!(PartialObjectMeta::<DynamicObject>::from_value(&object).is_ok());
}
