//! `Scale` of `autoscaling/v1`: the desired and current number of an object's replicas, regardless of its kind.
//!
//! A Scale is never stored. The kind lets a Scale be decoded, patched, tracked in managed fields and printed
//! like any object; [`of`] creates one from an object, and [`put_into`] applies a changed one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::checks;
use crate::kind::{Kind, Names, Policy, ScalePaths, ScaleSelector, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Scale` kind.
pub struct Scale;

/// Its names.
pub static NAMES: Names = Names {
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
    plural: "scales",
    singular: "scale",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.autoscaling.v1.Scale",
};

/// The path of the replicas in a Scale.
pub const REPLICAS: [&str; 2] = ["spec", "replicas"];

impl Kind for Scale {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        ""
    }

    fn policy(&self) -> Policy {
        Policy::DEFAULT
    }

    fn verbs(&self) -> &'static [&'static str] {
        &[]
    }

    fn validate(&self, scale: &Object, errors: &mut FieldErrors) {
        let replicas = scale.at(&REPLICAS).and_then(Value::as_i64).unwrap_or_default();
        checks::non_negative(errors, &Path::new("spec.replicas"), replicas);
    }
}

/// Creates the Scale of an object. The error is upstream's message.
///
/// # Errors
/// If the object does not contain the desired number of replicas, or its selector cannot be parsed.
pub fn of(object: &Object, paths: &ScalePaths<'_>) -> Result<Object, String> {
    let Some(replicas) = object.at(&paths.replicas).and_then(Value::as_i64) else {
        let path = paths.replicas.join(".");
        return Err(format!("the spec replicas field \".{path}\" does not exist"));
    };
    with_replicas(object, paths, replicas)
}

/// Like [`of`], for a write: an object without a number of replicas has none.
///
/// # Errors
/// If the selector cannot be parsed.
pub fn to_change(object: &Object, paths: &ScalePaths<'_>) -> Result<Object, String> {
    let replicas = object.at(&paths.replicas).and_then(Value::as_i64).unwrap_or_default();
    with_replicas(object, paths, replicas)
}

fn with_replicas(object: &Object, paths: &ScalePaths<'_>, replicas: i64) -> Result<Object, String> {
    let mut scale = metadata_of(object);
    let there = object.at(&paths.status_replicas).and_then(Value::as_i64).unwrap_or_default();
    // Zero replicas are omitted, like every zero value.
    let spec = if replicas == 0 { json!({}) } else { json!({ "replicas": replicas }) };
    let mut status = Map::new();
    status.insert("replicas".to_owned(), there.into());
    let selector = selector(object, &paths.selector)?;
    if !selector.is_empty() {
        status.insert("selector".to_owned(), selector.into());
    }
    scale.set(&["spec"], spec);
    scale.set(&["status"], Value::Object(status));
    Ok(scale)
}

fn metadata_of(object: &Object) -> Object {
    let mut scale = Object::default();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", field]) {
            scale.set(&["metadata", field], value.clone());
        }
    }
    scale
}

fn selector(object: &Object, of: &ScaleSelector<'_>) -> Result<String, String> {
    let typed = match of {
        ScaleSelector::None => return Ok(String::new()),
        ScaleSelector::Text(path) => return Ok(object.str_at(path).to_owned()),
        ScaleSelector::Labels(path) => {
            let labels = object.at(path).and_then(Value::as_object).into_iter().flatten();
            let labels =
                labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
            LabelSelector { match_labels: Some(labels.collect()), match_expressions: None }
        }
        ScaleSelector::LabelSelector(path) => match object.at(path).filter(|value| !value.is_null()) {
            None => return Ok(String::new()),
            Some(value) => LabelSelector::deserialize(value).map_err(|why| why.to_string())?,
        },
    };
    Selector::from_label_selector(&typed).map(|selector| selector.to_string())
}

/// Copies the number of replicas and the version of a changed Scale to its object.
pub fn put_into(scale: &Object, object: &mut Object, paths: &ScalePaths<'_>) {
    let replicas = scale.at(&REPLICAS).and_then(Value::as_i64).unwrap_or_default();
    object.set(&paths.replicas, replicas);
    match scale.at(&["metadata", "resourceVersion"]) {
        Some(version) => object.set(&["metadata", "resourceVersion"], version.clone()),
        None => drop(object.meta().remove("resourceVersion")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::object;
    use super::super::{BUILTIN_KINDS, ScalePaths};
    use super::*;

    #[test]
    fn kinds_with_scale_paths_list_the_subresource() {
        for kind in BUILTIN_KINDS {
            let named = kind.subresources().iter().any(|sub| sub.name == "scale");
            assert_eq!(kind.scale().is_some(), named, "{}", kind.names().plural);
        }
    }

    #[test]
    fn selectors_are_printed_as_text() {
        let of = |selector| ScalePaths {
            replicas: vec!["spec", "n"],
            status_replicas: vec!["status", "n"],
            selector,
        };
        let parent = object(json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"not": "shown"}},
            "spec": {"n": 2, "map": {"b": "2", "a": "1"}, "text": "x in (y)",
                     "selector": {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}},
            "status": {"n": 1},
        }));
        for (selector, want) in [
            (ScaleSelector::None, None),
            (ScaleSelector::Text(vec!["spec", "text"]), Some("x in (y)")),
            (ScaleSelector::Text(vec!["spec", "none"]), None),
            (ScaleSelector::Labels(vec!["spec", "map"]), Some("a=1,b=2")),
            (ScaleSelector::LabelSelector(vec!["spec", "selector"]), Some("a=1,b")),
            (ScaleSelector::LabelSelector(vec!["spec", "none"]), None),
        ] {
            let scale = of_parent(&parent, &of(selector.clone()));
            assert_eq!(scale.at(&["status", "selector"]).and_then(Value::as_str), want, "{selector:?}");
            assert_eq!(scale.at(&["spec"]), Some(&json!({"replicas": 2})));
            assert_eq!(scale.at(&["metadata"]), Some(&json!({"name": "a", "uid": "u"})));
        }
    }

    fn of_parent(parent: &Object, paths: &ScalePaths<'_>) -> Object {
        of(parent, paths).expect("a scale")
    }

    #[test]
    fn object_without_replicas_has_no_scale() {
        let paths = ScalePaths {
            replicas: vec!["spec", "size"],
            status_replicas: vec!["status", "size"],
            selector: ScaleSelector::None,
        };
        let error = of(&object(json!({"spec": {}})), &paths).expect_err("no replicas field");
        assert_eq!(error, "the spec replicas field \".spec.size\" does not exist");
        let none = of(&object(json!({"spec": {"size": 0}})), &paths).expect("a scale");
        assert_eq!(none.into_value(), json!({"spec": {}, "status": {"replicas": 0}}));
    }
}
