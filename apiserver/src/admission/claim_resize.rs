//! `PersistentVolumeClaimResize`: a claim can be expanded only if it is bound and its class allows it
//! (upstream: plugin/pkg/admission/storage/persistentvolume/resize).

use orlop_apimachinery::quantity::Quantity;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry::{self, storage_class};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

const NOT_BOUND: &str = "Only bound persistent volume claims can be expanded";
const NOT_EXPANDABLE: &str = "only dynamically provisioned pvc can be resized and the storageclass that \
                              provisions the pvc must support resize";

pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    /// Runs after validation, which has already rejected the expansion of an unbound claim. This check covers claims that
    /// the same write binds.
    fn validate(&self, request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Update || !request.is("", "persistentvolumeclaims") {
            return Ok(());
        }
        let (Some(claim), Some(old)) = (request.object.as_deref(), request.old) else { return Ok(()) };
        if !grows(claim, old) {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != "Bound" {
            return Err(request.refuse(NOT_BOUND));
        }
        if !class_allows(claim, old, lookup) {
            return Err(request.refuse(NOT_EXPANDABLE));
        }
        Ok(())
    }
}

/// A missing or unparsable request counts as none; decoding has excluded the latter.
fn requested(claim: &Object) -> Option<Quantity> {
    Quantity::parse(claim.str_at(&["spec", "resources", "requests", "storage"])).ok()
}

fn grows(claim: &Object, old: &Object) -> bool {
    match (requested(claim), requested(old)) {
        (Some(new), Some(old)) => new > old,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn class_allows(claim: &Object, old: &Object, lookup: &dyn Lookup) -> bool {
    let class = storage_class::class_of(claim);
    if class.is_empty() || class != storage_class::class_of(old) {
        return false;
    }
    let Some(kind) = registry::by_resource("storage.k8s.io", "v1", "storageclasses") else { return false };
    lookup
        .get(kind, "", class)
        .and_then(|class| class.at(&["allowVolumeExpansion"])?.as_bool())
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn claim(class: Value, size: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "c"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn claims_expand_only_if_bound_and_allowed() {
        let facts = Facts::new(&[
            ("storageclasses", json!({"metadata": {"name": "yes"}, "allowVolumeExpansion": true})),
            ("storageclasses", json!({"metadata": {"name": "no"}, "allowVolumeExpansion": false})),
            ("storageclasses", json!({"metadata": {"name": "unsaid"}})),
        ]);
        let one = |class: &str| claim(json!(class), "1Gi", "Bound");
        let two = |class: &str| claim(json!(class), "2Gi", "Bound");
        for (case, old, new, want) in [
            ("1 allowed", one("yes"), two("yes"), None),
            ("2 the class says no", one("no"), two("no"), Some(NOT_EXPANDABLE)),
            ("3 the class says nothing", one("unsaid"), two("unsaid"), Some(NOT_EXPANDABLE)),
            ("4 there is no such class", one("gone"), two("gone"), Some(NOT_EXPANDABLE)),
            ("5 no class", one(""), two(""), Some(NOT_EXPANDABLE)),
            ("6 the class changes", one("yes"), two("no"), Some(NOT_EXPANDABLE)),
            ("7 not bound", claim(json!("yes"), "1Gi", "Pending"), two("yes"), Some(NOT_BOUND)),
            ("8 shrinks", two("no"), one("no"), None),
            ("9 written in another way", one("no"), claim(json!("no"), "1024Mi", "Bound"), None),
        ] {
            let mut write = Write::update("persistentvolumeclaims", old, new).in_namespace("n");
            let got = write.validate(&PersistentVolumeClaimResize, &facts);
            let want = want.map(|why| format!("persistentvolumeclaims \"c\" is forbidden: {why}"));
            assert_eq!(got.as_ref().err().map(|error| error.message.clone()), want, "{case}");
        }
    }

    #[test]
    fn class_can_be_in_the_beta_annotation() {
        let facts = Facts::new(&[(
            "storageclasses",
            json!({"metadata": {"name": "yes"}, "allowVolumeExpansion": true}),
        )]);
        let with = |size: &str| {
            let mut claim = claim(Value::Null, size, "Bound");
            claim["metadata"]["annotations"] = json!({storage_class::BETA_ANNOTATION: "yes"});
            claim
        };
        let mut write = Write::update("persistentvolumeclaims", with("1Gi"), with("2Gi"));
        assert!(write.validate(&PersistentVolumeClaimResize, &facts).is_ok());
    }
}
