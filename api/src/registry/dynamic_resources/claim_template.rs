//! `ResourceClaimTemplate`: from it, claims are created for pods.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::claim_spec::{default_spec, validate_spec};
use super::shown::TEMPLATE_SPEC;
use super::{GROUP, authorization};
use crate::kind::{Column, DeleteAnswer, Kind, KindRef, Names, Policy, Scope, WriteContext};
use crate::object::Object;
use crate::registry::checks::IMMUTABLE;
use crate::registry::expressions::CompilesExpressions;
use crate::registry::{cells, json_defaults, workload};
use crate::validate::label_selector::validate_labels;
use crate::validate::meta::validate_annotations;
use crate::validate::{FieldErrors, Path};

pub(super) const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    singular: "resourceclaimtemplate",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.resource.v1.ResourceClaimTemplate",
};

/// The metadata that a template cannot have: upstream's field name, and ours.
const NOT_IN_TEMPLATES: [(&str, &str); 12] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uID", "uid"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
];

/// The `ResourceClaimTemplate` kind.
#[derive(Clone, Copy)]
pub struct ResourceClaimTemplate {
    /// Validates the expressions.
    pub compiler: &'static dyn CompilesExpressions,
}

impl fmt::Debug for ResourceClaimTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.kind)
    }
}

impl Kind for ResourceClaimTemplate {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/resourceclaimtemplates/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, ..Policy::DEFAULT }
    }

    fn defaults(&self, template: &mut Object) {
        if let Some(spec) = json_defaults::object(template.object_at(&["spec"]), "spec") {
            default_spec(spec);
        }
    }

    fn validate_create(&self, template: &Object, errors: &mut FieldErrors) {
        let spec = workload::spec(template);
        let path = Path::new("spec");
        validate_metadata(spec.get("metadata"), &path.child("metadata"), errors);
        let claim = spec.get("spec").unwrap_or(&Value::Null);
        validate_spec(claim, self.compiler, &path.child("spec"), errors);
    }

    fn validate_update(&self, template: &Object, old: &Object, errors: &mut FieldErrors) {
        if template.at(&["spec"]) != old.at(&["spec"]) {
            let shown = TEMPLATE_SPEC.show(template.at(&["spec"]));
            errors.invalid_shown(&Path::new("spec"), &shown, IMMUTABLE);
        }
    }

    fn validate_in_context(
        &self,
        template: &Object,
        old: Option<&Object>,
        context: &dyn WriteContext,
        errors: &mut FieldErrors,
    ) {
        if old.is_none() {
            let claim = template.at(&["spec", "spec"]).unwrap_or(&Value::Null);
            authorization::admin_requests(claim, context, errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[cells::NAME, cells::AGE];
        COLUMNS
    }

    fn cells(&self, template: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(template), cells::age(template, now)]
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == NAMES.api_version()).then(|| KindRef::Custom(Arc::new(*self)))
    }
}

/// The labels and annotations for the claims; other metadata is not supported.
fn validate_metadata(metadata: Option<&Value>, path: &Path, errors: &mut FieldErrors) {
    let texts = |field: &str| {
        let map = metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        map.into_iter()
            .flat_map(Map::iter)
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    };
    validate_annotations(texts("annotations"), &path.child("annotations"), errors);
    validate_labels(texts("labels"), &path.child("labels"), errors);
    for (shown, field) in NOT_IN_TEMPLATES {
        let value = metadata.and_then(|metadata| metadata.get(field)).filter(|value| !value.is_null());
        if value.is_some_and(|value| *value != "" && *value != 0) {
            errors.forbidden(&path.child(shown), "cannot be set");
        }
    }
}
