//! `DefaultStorageClass`: sets the default class of a new claim that names none (upstream:
//! plugin/pkg/admission/storage/storageclass/setdefault).

use std::cmp::Reverse;

use jiff::Timestamp;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry::{self, storage_class};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

pub(super) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create || !request.is("", "persistentvolumeclaims") {
            return Ok(());
        }
        let Some(claim) = request.object.as_deref_mut() else { return Ok(()) };
        if storage_class::is_named(claim) {
            return Ok(());
        }
        let Some(kind) = registry::by_resource("storage.k8s.io", "v1", "storageclasses") else {
            return Ok(());
        };
        if let Some(class) = default_of(lookup.list(kind, None)) {
            claim.set(&["spec", "storageClassName"], class.name());
        }
        Ok(())
    }
}

/// The newest of the default classes; among equally old ones the first by name.
fn default_of(classes: impl Iterator<Item = Object>) -> Option<Object> {
    classes.filter(storage_class::is_default).min_by_key(|class| {
        let created: Option<Timestamp> = class.str_at(&["metadata", "creationTimestamp"]).parse().ok();
        (Reverse(created), class.name().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{Facts, Write};

    const GA: &str = "storageclass.kubernetes.io/is-default-class";
    const BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";

    fn class(name: &str, created: &str, key: &str, value: &str) -> (&'static str, Value) {
        let metadata = json!({"name": name, "creationTimestamp": created, "annotations": {key: value}});
        ("storageclasses", json!({"metadata": metadata, "provisioner": "p"}))
    }

    fn given(spec: Value, facts: &[(&'static str, Value)]) -> Value {
        let claim = json!({"metadata": {"name": "c"}, "spec": spec});
        let got = Write::create("persistentvolumeclaims", claim)
            .in_namespace("n")
            .mutate(&DefaultStorageClass, &Facts::new(facts));
        got.expect("never refuses")["spec"].get("storageClassName").cloned().unwrap_or_default()
    }

    #[test]
    fn newest_default_class_is_used() {
        let old = class("old", "2026-01-01T00:00:00Z", GA, "true");
        let new = class("new", "2026-01-02T00:00:00Z", BETA, "true");
        let newer = class("a-newer", "2026-01-02T00:00:00Z", GA, "true");
        let off = class("off", "2026-01-03T00:00:00Z", GA, "false");
        let yes = class("yes", "2026-01-03T00:00:00Z", GA, "yes");
        for (case, facts, want) in [
            ("1 there is no class", vec![], json!(null)),
            ("2 none is the default", vec![off.clone(), yes], json!(null)),
            ("3 one", vec![off, old.clone()], json!("old")),
            ("4 the newest", vec![old.clone(), new.clone()], json!("new")),
            ("5 of equally new ones the first by name", vec![old, new, newer], json!("a-newer")),
        ] {
            assert_eq!(given(json!({}), &facts), want, "{case}");
        }
    }

    #[test]
    fn only_new_claims_without_a_class_get_the_default() {
        let facts = [class("d", "2026-01-01T00:00:00Z", GA, "true")];
        assert_eq!(given(json!({"storageClassName": ""}), &facts), json!(""), "empty means: no class");
        assert_eq!(given(json!({"storageClassName": "x"}), &facts), json!("x"));
        let annotated = json!({"metadata": {"name": "c", "annotations": {storage_class::BETA_ANNOTATION: "x"}}, "spec": {}});
        for mut write in [
            Write::create("persistentvolumeclaims", annotated.clone()),
            Write::update("persistentvolumeclaims", annotated.clone(), json!({"spec": {}})),
        ] {
            let got = write.mutate(&DefaultStorageClass, &Facts::new(&facts)).expect("never refuses");
            assert_eq!(got["spec"], json!({}));
        }
    }
}
