//! Common table cells of workloads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use orlop_apimachinery::labels::Selector;
use serde::Deserialize;
use serde_json::Value;

use crate::kind::Column;
use crate::object::Object;
use crate::registry::cells;

/// The names of the template's containers.
pub(in crate::registry) const CONTAINERS: Column =
    cells::wide("Containers", "Names of the containers in the template.");

/// The images of the template's containers.
pub(in crate::registry) const IMAGES: Column =
    cells::wide("Images", "Images of the containers in the template.");

/// The selector.
pub(in crate::registry) const SELECTOR: Column =
    cells::wide("Selector", "Labels that the pods are known by.");

/// The cells of the columns `Containers` and `Images`.
pub(in crate::registry) fn containers(object: &Object) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let containers = object.at(&["spec", "template", "spec", "containers"]).and_then(Value::as_array);
        let texts = containers.into_iter().flatten();
        let texts: Vec<&str> =
            texts.map(|one| one.get(field).and_then(Value::as_str).unwrap_or_default()).collect();
        texts.join(",").into()
    })
}

/// The `Selector` cell for a `LabelSelector`.
pub(in crate::registry) fn selector(object: &Object) -> Value {
    let given = object.at(&["spec", "selector"]).filter(|value| !value.is_null());
    let typed = given.map(|value| LabelSelector::deserialize(value).unwrap_or_default());
    let shown = match typed.as_ref().map(Selector::from_label_selector) {
        Some(Err(_)) => "<error>".to_owned(),
        Some(Ok(selector)) => selector.to_string(),
        None => String::new(),
    };
    cells::or(&shown, "<none>").into()
}

/// The cell for a map of labels.
pub(in crate::registry) fn labels(object: &Object, path: &[&str]) -> Value {
    let map = object.at(path).and_then(Value::as_object).into_iter().flatten();
    let shown: Vec<String> =
        map.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    cells::or(&shown.join(","), "<none>").into()
}

/// The number in a cell; 0 if absent.
pub(in crate::registry) fn number(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or_default()
}
