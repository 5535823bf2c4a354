//! The `IngressClass` kind: the controller that serves Ingresses of the class.

use jiff::Timestamp;
use serde_json::Value;

use super::GROUP;
use super::ingress_rules::validate_reference;
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::workload::{given, spec, text};
use crate::registry::{cells, checks, json_defaults};
use crate::validate::{FieldErrors, Path};

/// The annotation of an Ingress with its class, from before `spec.ingressClassName`.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// The annotation that marks the default class.
const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";
const LONGEST_CONTROLLER: usize = 250;

/// Whether a class is marked as the default.
pub fn is_default(class: &Object) -> bool {
    class.annotation(DEFAULT_ANNOTATION) == Some("true")
}

/// Whether an Ingress names a class.
pub fn is_named(ingress: &Object) -> bool {
    ingress.annotation(CLASS_ANNOTATION).is_some()
        || ingress.at(&["spec", "ingressClassName"]).is_some_and(Value::is_string)
}

/// The `IngressClass` kind.
pub(in crate::registry) struct IngressClass;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "IngressClass",
    plural: "ingressclasses",
    singular: "ingressclass",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.networking.v1.IngressClass",
};

impl Kind for IngressClass {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/ingressclasses/"
    }

    fn policy(&self) -> Policy {
        Policy { generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, class: &mut Object) {
        if let Some(parameters) = json_defaults::object(class.object_at(&["spec"]), "parameters") {
            json_defaults::value(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, class: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec");
        let (controller, at) = (text(spec(class), "controller"), path.child("controller"));
        if controller.len() > LONGEST_CONTROLLER {
            errors.too_long(&at, LONGEST_CONTROLLER);
        } else {
            checks::domain_prefixed_path(errors, &at, controller);
        }
        let path = path.child("parameters");
        let Some(parameters) = given(spec(class), "parameters") else { return };
        validate_reference(parameters, &path, errors);
        let namespace = given(parameters, "namespace").and_then(Value::as_str);
        let at = path.child("namespace");
        match (text(parameters, "scope"), namespace) {
            ("Namespace", None) => errors.required(&at, "`parameters.scope` is set to 'Namespace'"),
            ("Namespace", Some(namespace)) => checks::label(errors, &at, namespace),
            ("Cluster", Some(_)) => errors.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
            ("Cluster", None) => {}
            (other, _) => {
                errors.not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]);
            }
        }
    }

    fn validate_update(&self, class: &Object, old: &Object, errors: &mut FieldErrors) {
        let controller = ["spec", "controller"];
        let path = Path::new("spec.controller");
        checks::immutable(errors, &path, class.at(&controller), old.at(&controller));
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("Controller", "The controller of the class."),
            cells::text("Parameters", "The object with the parameters of the controller."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, class: &Object, now: Timestamp) -> Vec<Value> {
        let parameters = given(spec(class), "parameters").map_or("<none>".to_owned(), |parameters| {
            let group = given(parameters, "apiGroup").and_then(Value::as_str);
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
        });
        vec![
            cells::name(class),
            text(spec(class), "controller").into(),
            parameters.into(),
            cells::age(class, now),
        ]
    }
}
