//! `ResourceClaim`: a request for devices, and their allocation.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::claim_spec::{default_spec, validate_spec};
use super::claim_status::{drop_deallocated_devices, validate_status};
use super::shown::CLAIM_SPEC;
use super::{GROUP, authorization};
use crate::kind::{
    Column, DeleteAnswer, Kind, KindRef, Names, Policy, Scope, StatusSubresource, WriteContext,
};
use crate::object::Object;
use crate::registry::checks::IMMUTABLE;
use crate::registry::expressions::CompilesExpressions;
use crate::registry::{cells, workload};
use crate::validate::{FieldErrors, Path};

pub(super) const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "ResourceClaim",
    plural: "resourceclaims",
    singular: "resourceclaim",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.resource.v1.ResourceClaim",
};

/// The `ResourceClaim` kind.
#[derive(Clone, Copy)]
pub struct ResourceClaim {
    /// Validates the expressions.
    pub compiler: &'static dyn CompilesExpressions,
}

impl fmt::Debug for ResourceClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.kind)
    }
}

impl Kind for ResourceClaim {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/resourceclaims/"
    }

    fn policy(&self) -> Policy {
        Policy {
            delete_answer: DeleteAnswer::Object,
            status: StatusSubresource::StatusOnly,
            ..Policy::DEFAULT
        }
    }

    fn defaults(&self, claim: &mut Object) {
        default_spec(claim.object_at(&["spec"]));
    }

    fn prepare_create(&self, claim: &mut Object, _now: Timestamp) {
        claim.set(&["status"], json!({}));
    }

    fn prepare_status(&self, claim: &mut Object, old: &Object, _now: Timestamp) {
        drop_deallocated_devices(claim, old);
    }

    fn validate_create(&self, claim: &Object, errors: &mut FieldErrors) {
        validate_spec(workload::spec(claim), self.compiler, &Path::new("spec"), errors);
    }

    fn validate_update(&self, claim: &Object, old: &Object, errors: &mut FieldErrors) {
        if claim.at(&["spec"]) != old.at(&["spec"]) {
            errors.invalid_shown(&Path::new("spec"), &CLAIM_SPEC.show(claim.at(&["spec"])), IMMUTABLE);
        }
    }

    fn validate_status(&self, claim: &Object, old: &Object, errors: &mut FieldErrors) {
        validate_status(claim, old, errors);
    }

    fn validate_in_context(
        &self,
        claim: &Object,
        old: Option<&Object>,
        context: &dyn WriteContext,
        errors: &mut FieldErrors,
    ) {
        match old {
            None => authorization::admin_requests(workload::spec(claim), context, errors),
            Some(old) => authorization::status(claim, old, context, errors),
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            cells::NAME,
            cells::text("State", "Whether the claim is allocated, reserved for pods, or deleted."),
            cells::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, claim: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(claim), state(claim).into(), cells::age(claim, now)]
    }

    fn custom_sibling(&self, api_version: &str) -> Option<KindRef> {
        (api_version == NAMES.api_version()).then(|| KindRef::Custom(Arc::new(*self)))
    }
}

fn state(claim: &Object) -> String {
    let is_allocated = claim.at(&["status", "allocation"]).is_some_and(Value::is_object);
    let reserved = claim.at(&["status", "reservedFor"]).and_then(Value::as_array);
    let is_reserved = is_allocated && reserved.is_some_and(|pods| !pods.is_empty());
    let states = [
        ("deleted", claim.is_terminating()),
        ("pending", !is_allocated && !claim.is_terminating()),
        ("allocated", is_allocated),
        ("reserved", is_reserved),
    ];
    let states: Vec<&str> = states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect();
    states.join(",")
}
