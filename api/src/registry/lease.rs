//! `Lease`: the holder of a resource, and the duration and renewal time of its lease.

use jiff::Timestamp;
use serde_json::Value;

use super::{cells, checks};
use crate::kind::{Column, Kind, Names, Policy, Scope};
use crate::object::Object;
use crate::validate::{FieldErrors, Path};

/// The `Lease` kind.
pub(super) struct Lease;

const NAMES: Names = Names {
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.coordination.v1.Lease",
};

const COLUMNS: &[Column] = &[cells::NAME, cells::text("Holder", "Holder of the lease."), cells::AGE];

impl Kind for Lease {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/leases/"
    }

    fn policy(&self) -> Policy {
        Policy { unconditional_update: false, create_on_update: true, ..Policy::DEFAULT }
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        drop_coordination(object);
    }

    fn prepare_update(&self, object: &mut Object, _old: &Object, _now: Timestamp) {
        drop_coordination(object);
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let spec = Path::new("spec");
        let number = |name| object.at(&["spec", name]).and_then(Value::as_i64);
        if let Some(seconds) = number("leaseDurationSeconds")
            && seconds <= 0
        {
            errors.invalid(&spec.child("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        if let Some(transitions) = number("leaseTransitions") {
            checks::non_negative(errors, &spec.child("leaseTransitions"), transitions);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(object), object.str_at(&["spec", "holderIdentity"]).into(), cells::age(object, now)]
    }
}

/// Drops the fields of coordinated leader election, which is off by default upstream.
fn drop_coordination(object: &mut Object) {
    object.remove(&["spec", "strategy"]);
    object.remove(&["spec", "preferredHolder"]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{causes, kind_now, object};
    use super::*;

    #[test]
    fn coordinated_leader_election_fields_are_dropped() {
        let mut lease =
            object(json!({"spec": {"holderIdentity": "h", "strategy": "Oldest", "preferredHolder": "x"}}));
        Lease.prepare_create(&mut lease, kind_now());
        assert_eq!(lease.into_value(), json!({"spec": {"holderIdentity": "h"}}));
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for (case, spec, want) in [
            ("fine", json!({"leaseDurationSeconds": 1, "leaseTransitions": 0, "holderIdentity": ""}), vec![]),
            (
                "duration zero",
                json!({"leaseDurationSeconds": 0}),
                vec![(
                    "FieldValueInvalid",
                    "spec.leaseDurationSeconds",
                    "Invalid value: 0: must be greater than 0",
                )],
            ),
            (
                "transitions negative",
                json!({"leaseTransitions": -1}),
                vec![(
                    "FieldValueInvalid",
                    "spec.leaseTransitions",
                    "Invalid value: -1: must be greater than or equal to 0",
                )],
            ),
        ] {
            let lease = object(json!({ "spec": spec }));
            assert_eq!(causes(|errors| Lease.validate(&lease, errors)), want, "{case}");
        }
    }

    #[test]
    fn cells() {
        let lease = object(json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"holderIdentity": "h"},
        }));
        assert_eq!(Lease.cells(&lease, kind_now()), vec![json!("a"), json!("h"), json!("60s")]);
    }
}
