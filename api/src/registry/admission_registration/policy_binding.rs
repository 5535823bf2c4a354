//! `ValidatingAdmissionPolicyBinding` and `MutatingAdmissionPolicyBinding`: where a policy applies, and with which
//! parameters.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::fields::{GROUP, text, texts};
use super::match_resources::{
    default_match_resources, require_objects, validate_match_resources, validate_param_ref,
};
use crate::kind::{Column, Generation, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::{cells, checks};
use crate::validate::{FieldErrors, Path};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// A kind of binding.
#[derive(Debug)]
pub struct PolicyBinding {
    pub(super) names: &'static Names,
    prefix: &'static str,
    /// Whether a binding names what happens to a request that its policy rejects.
    has_actions: bool,
}

/// The `ValidatingAdmissionPolicyBinding` kind.
pub const VALIDATING_POLICY_BINDING: PolicyBinding = PolicyBinding {
    names: &Names {
        group: GROUP,
        version: "v1",
        kind: "ValidatingAdmissionPolicyBinding",
        plural: "validatingadmissionpolicybindings",
        singular: "validatingadmissionpolicybinding",
        short: &[],
        categories: &["api-extensions"],
        schema: "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    },
    prefix: "/registry/validatingadmissionpolicybindings/",
    has_actions: true,
};

/// The `MutatingAdmissionPolicyBinding` kind.
pub const MUTATING_POLICY_BINDING: PolicyBinding = PolicyBinding {
    names: &Names {
        group: GROUP,
        version: "v1",
        kind: "MutatingAdmissionPolicyBinding",
        plural: "mutatingadmissionpolicybindings",
        singular: "mutatingadmissionpolicybinding",
        short: &[],
        categories: &["api-extensions"],
        schema: "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
    },
    prefix: "/registry/mutatingadmissionpolicybindings/",
    has_actions: false,
};

impl Kind for PolicyBinding {
    fn names(&self) -> &'static Names {
        self.names
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        self.prefix
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, generation: Generation::Spec, ..Policy::DEFAULT }
    }

    fn defaults(&self, object: &mut Object) {
        let resources = object.0.get_mut("spec").and_then(|spec| spec.get_mut("matchResources"));
        if let Some(resources) = resources {
            default_match_resources(resources);
        }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        let place = path.child("policyName");
        let policy = text(spec, "policyName");
        if checks::required(errors, &place, policy) {
            checks::subdomain(errors, &place, policy);
        }
        validate_param_ref(spec, &path, errors);
        if let Some(resources) = spec.get("matchResources").filter(|resources| !resources.is_null()) {
            let place = path.child("matchResources");
            validate_match_resources(resources, &place, errors);
            if !self.has_actions {
                require_objects(resources, &place, errors);
            }
        }
        if self.has_actions {
            validate_actions(&texts(spec, "validationActions"), &path.child("validationActions"), errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("PolicyName", "The name of the policy."),
            cells::text("ParamRef", "The parameters."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let param = object.at(&["spec", "paramRef"]).filter(|param| !param.is_null());
        let shown = match param {
            None => "<unset>".to_owned(),
            Some(param) => match (text(param, "namespace"), text(param, "name")) {
                (_, "") => "<selector>".to_owned(),
                ("", name) => name.to_owned(),
                (namespace, name) => format!("{namespace}/{name}"),
            },
        };
        vec![
            cells::name(object),
            object.str_at(&["spec", "policyName"]).into(),
            shown.into(),
            cells::age(object, now),
        ]
    }
}

fn validate_actions(actions: &[&str], path: &Path, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, action) in actions.iter().copied().enumerate() {
        checks::one_of(errors, &path.index(at), Some(action), &ACTIONS);
        if !seen.insert(action) {
            errors.duplicate(&path.index(at), action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        errors.invalid(path, actions.to_vec(), why);
    }
    if seen.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}
