//! The `ServiceAccount` kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use crate::kind::{Column, DeleteAnswer, Kind, Names, Policy, Scope, Subresource};
use crate::object::Object;

/// The `ServiceAccount` kind.
pub(super) struct ServiceAccount;

const NAMES: Names = Names {
    group: "",
    version: "v1",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short: &["sa"],
    categories: &[],
    schema: "io.k8s.api.core.v1.ServiceAccount",
};

const COLUMNS: &[Column] = &[cells::NAME, cells::AGE];

impl Kind for ServiceAccount {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Namespaced
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/serviceaccounts/"
    }

    fn policy(&self) -> Policy {
        Policy { delete_answer: DeleteAnswer::Object, ..Policy::DEFAULT }
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource {
            name: "token",
            group: "authentication.k8s.io",
            version: "v1",
            kind: "TokenRequest",
            schema: "io.k8s.api.authentication.v1.TokenRequest",
            verbs: &["create"],
        }]
    }

    fn prepare_create(&self, object: &mut Object, _now: Timestamp) {
        keep_secret_names(object);
    }

    fn prepare_update(&self, object: &mut Object, _old: &Object, _now: Timestamp) {
        keep_secret_names(object);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        vec![cells::name(object), cells::age(object, now)]
    }
}

/// Drops everything except the names from the account's references to secrets.
fn keep_secret_names(object: &mut Object) {
    let Some(Value::Array(secrets)) = object.0.get_mut("secrets") else {
        return;
    };
    for secret in secrets {
        *secret = match secret.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => json!({ "name": name }),
            Some(_) | None => json!({}),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind_now, object};
    use super::*;

    #[test]
    fn secrets_are_reduced_to_names() {
        for (case, given, want) in [
            ("none", json!({}), json!({})),
            (
                "two",
                json!({"secrets": [{"name": "a", "namespace": "x", "kind": "Secret"}, {"uid": "u"}]}),
                json!({"secrets": [{"name": "a"}, {}]}),
            ),
        ] {
            let mut created = object(given.clone());
            ServiceAccount.prepare_create(&mut created, kind_now());
            assert_eq!(created.into_value(), want, "{case}");
            let mut updated = object(given);
            ServiceAccount.prepare_update(&mut updated, &Object::default(), kind_now());
            assert_eq!(updated.into_value(), want, "{case}");
        }
    }

    #[test]
    fn cells() {
        let account = object(json!({"metadata": {"name": "a"}}));
        assert_eq!(ServiceAccount.cells(&account, kind_now()), vec![json!("a"), json!("<unknown>")]);
    }
}
