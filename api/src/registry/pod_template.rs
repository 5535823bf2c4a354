//! `PodTemplate`: a stored template of pods.
//!
//! Upstream: pkg/apis/core/validation (`ValidatePodTemplate`), pkg/registry/core/podtemplate.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::json_defaults;
use super::pod_spec::warnings;
use super::workload::{has_new_generation, table, template};
use crate::kind::{Column, DeleteAnswer, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `PodTemplate` kind.
pub(super) struct PodTemplate;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "PodTemplate",
    plural: "podtemplates",
    singular: "podtemplate",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.core.v1.PodTemplate",
};

impl Kind for PodTemplate {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/podtemplates/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, generation: Generation::AllButMeta, ..Policy::DEFAULT }
    }

    fn defaults(&self, object: &mut Object) {
        json_defaults::value(&mut object.0, "template", json!({}));
        template::fill(&mut object.0);
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let template = object.at(&["template"]).unwrap_or(&Value::Null);
        template::validate(template, &Path::new("template"), errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let changed = old.is_none_or(|old| has_new_generation(object, old));
        match object.at(&["template", "spec"]).filter(|_| changed) {
            Some(pod) => warnings::pod_spec(pod, &Path::new("template.spec")),
            None => Vec::new(),
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Containers", "Names of the containers in the template."),
            cells::text("Images", "Images of the containers in the template."),
            cells::text("Pod Labels", "The labels of the pods."),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: Timestamp) -> Vec<Value> {
        let spec = Object::from_value(json!({"spec": {"template": object.at(&["template"])}}));
        let [containers, images] = table::containers(&spec);
        let labels = table::labels(object, &["template", "metadata", "labels"]);
        vec![cells::name(object), containers, images, labels]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{causes, kind_now, object};
    use super::*;

    #[test]
    fn templates_are_defaulted_and_validated() {
        let mut empty = object(json!({"metadata": {"name": "a"}}));
        PodTemplate.defaults(&mut empty);
        assert_eq!(
            causes(|errors| PodTemplate.validate(&empty, errors)),
            [("FieldValueRequired", "template.spec.containers", "Required value")]
        );
        let mut one = object(json!({"metadata": {"name": "a"}, "template": {
            "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        }}));
        PodTemplate.defaults(&mut one);
        assert!(causes(|errors| PodTemplate.validate(&one, errors)).is_empty());
        assert_eq!(one.at(&["template", "spec", "restartPolicy"]), Some(&json!("Always")));
        assert_eq!(json!(PodTemplate.cells(&one, kind_now())), json!(["a", "c", "i:1", "app=x"]));
    }
}
