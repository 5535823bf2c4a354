//! `DefaultIngressClass`: sets the default class of a new Ingress that names none (upstream:
//! plugin/pkg/admission/network/defaultingressclass).

use std::cmp::Reverse;

use jiff::Timestamp;

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::registry::{self, ingress_class};
use orlop_api::object::Object;
use orlop_api::status::ApiError;

pub(super) struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        if request.operation != Operation::Create || !request.is("networking.k8s.io", "ingresses") {
            return Ok(());
        }
        let Some(ingress) = request.object.as_deref_mut() else { return Ok(()) };
        if ingress_class::is_named(ingress) {
            return Ok(());
        }
        let Some(kind) = registry::by_resource("networking.k8s.io", "v1", "ingressclasses") else {
            return Ok(());
        };
        if let Some(class) = default_of(lookup.list(kind, None)) {
            ingress.set(&["spec", "ingressClassName"], class.name());
        }
        Ok(())
    }
}

/// The newest of the default classes; among equally old ones the first by name.
fn default_of(classes: impl Iterator<Item = Object>) -> Option<Object> {
    classes.filter(ingress_class::is_default).min_by_key(|class| {
        let created: Option<Timestamp> = class.str_at(&["metadata", "creationTimestamp"]).parse().ok();
        (Reverse(created), class.name().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn class(name: &str, created: &str, is_default: &str) -> (&'static str, Value) {
        let annotations = json!({"ingressclass.kubernetes.io/is-default-class": is_default});
        let metadata = json!({"name": name, "creationTimestamp": created, "annotations": annotations});
        ("ingressclasses", json!({"metadata": metadata, "spec": {"controller": "a.io/b"}}))
    }

    fn class_of(ingress: Value, facts: &[(&'static str, Value)]) -> Value {
        let mut write = Write::create("ingresses", ingress).in_namespace("n");
        let got = write.mutate(&DefaultIngressClass, &Facts::new(facts)).expect("never refuses");
        got["spec"].get("ingressClassName").cloned().unwrap_or_default()
    }

    #[test]
    fn newest_default_class_is_used() {
        let old = class("old", "2026-01-01T00:00:00Z", "true");
        let new = class("new", "2026-01-02T00:00:00Z", "true");
        let newer = class("a-newer", "2026-01-02T00:00:00Z", "true");
        let off = class("off", "2026-01-03T00:00:00Z", "false");
        let ingress = || json!({"metadata": {"name": "i"}, "spec": {}});
        for (facts, want) in [
            (vec![], json!(null)),
            (vec![off.clone()], json!(null)),
            (vec![off, old.clone()], json!("old")),
            (vec![old.clone(), new.clone()], json!("new")),
            (vec![old, new, newer], json!("a-newer")),
        ] {
            assert_eq!(class_of(ingress(), &facts), want);
        }
    }

    #[test]
    fn only_ingresses_without_a_class_get_the_default() {
        let facts = [class("d", "2026-01-01T00:00:00Z", "true")];
        let own = json!({"metadata": {"name": "i"}, "spec": {"ingressClassName": "x"}});
        assert_eq!(class_of(own, &facts), json!("x"));
        let annotated = json!({"metadata": {"name": "i", "annotations": {ingress_class::CLASS_ANNOTATION: "x"}}, "spec": {}});
        assert_eq!(class_of(annotated, &facts), json!(null));
    }
}
