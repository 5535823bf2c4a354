//! Merges a configuration into an object without owners, as mutating admission policies do.
//!
//! Upstream: apiserver `pkg/admission/plugin/policy/mutating/patch/smd.go`.

use orlop_api::object::Object;
use orlop_api::registry::Kind;
use orlop_openapi::{Shape, StructType};
use serde_json::{Map, Value};

use super::config::misfits;
use super::merge::merge;
use super::typed::{Owned, Ty, struct_of};

/// Returns the object with the fields of a configuration, which has neither kind nor apiVersion.
///
/// # Errors
/// Why the configuration does not fit the type, or that it contains values which are replaced as a whole.
pub fn merge_configuration(
    kind: &dyn Kind,
    object: &Object,
    config: &Map<String, Value>,
) -> Result<Object, String> {
    let ty = kind.struct_type().ok_or_else(|| format!("no type {} is known", kind.names().schema))?;
    let wrong = misfits(&ty, config);
    if !wrong.is_empty() {
        let wrong = if let [one] = wrong.as_slice() {
            one.clone()
        } else {
            format!("errors:\n  {}", wrong.join("\n  "))
        };
        return Err(format!("failed to convert patch object to typed object: {wrong}"));
    }
    let mut atomic = Vec::new();
    fields(&ty, config, "", &mut atomic);
    if !atomic.is_empty() {
        let atomic = atomic.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomic}"
        ));
    }
    Ok(Object(merge(&ty, &object.0, config)))
}

fn fields(ty: &StructType, map: &Map<String, Value>, path: &str, atomic: &mut Vec<String>) {
    for (name, value) in map {
        if let Some(ty) = Ty::of_member(ty, name) {
            find_atomic(ty, value, &format!("{path}.{name}"), atomic);
        }
    }
}

/// Lists the values that apply replaces as a whole.
fn find_atomic(ty: Ty<'_>, value: &Value, path: &str, atomic: &mut Vec<String>) {
    match (ty.owned(), value) {
        (Owned::Struct(ty), Value::Object(map)) => fields(ty, map, path, atomic),
        (Owned::Map(inner), Value::Object(map)) => {
            for (key, value) in map {
                find_atomic(Ty::of_shape(inner), value, &format!("{path}.{key}"), atomic);
            }
        }
        (Owned::List(items), Value::Array(list)) => {
            for (at, item) in list.iter().enumerate() {
                find_atomic(items.ty(), item, &format!("{path}[{at}]"), atomic);
            }
        }
        (Owned::Whole, Value::Object(map)) => {
            if matches!(ty.shape, Shape::Struct(_) | Shape::Inline(_) | Shape::Map(_)) {
                atomic.push(path.to_owned());
            }
            if let Some(ty) = struct_of(ty.shape) {
                fields(ty, map, path, atomic);
            }
        }
        (Owned::Whole, Value::Array(_)) if matches!(ty.shape, Shape::List(_)) => atomic.push(path.to_owned()),
        (Owned::Whole | Owned::Struct(_) | Owned::Map(_) | Owned::List(_), _) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{kind, map, object};
    use super::*;

    #[test]
    fn configurations_are_merged_unless_they_replace_values() {
        let pods = kind("", "pods");
        let pod = object(pods, json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}));
        let merged = |config: Value| merge_configuration(pods, &pod, &map(config)).map(Object::into_value);
        let labelled = merged(json!({"metadata": {"labels": {"a": "b"}}})).expect("fits");
        assert_eq!(labelled["metadata"], json!({"labels": {"a": "b"}}));
        assert_eq!(labelled["spec"], pod.0["spec"]);
        let sidecar = merged(json!({"spec": {"containers": [{"name": "b", "image": "y"}]}})).expect("fits");
        assert_eq!(sidecar["spec"]["containers"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            merged(json!({"spec": {"tolerations": [{"key": "k"}]}})),
            Err("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.tolerations".to_owned())
        );
        let error = merged(json!({"spec": {"nope": 1}})).expect_err("no such field");
        assert!(error.contains(".spec.nope: field not declared in schema"), "{error}");
    }
}
