//! `NamespaceLifecycle`: rejects new objects in missing or terminating namespaces, and the deletion of system namespaces
//! (upstream: apiserver plugin/namespace/lifecycle).

use super::plugin::Plugin;
use super::request::{Lookup, Operation, Request};
use crate::encode::head::ObjectHead;
use crate::registry::{self, Scope};
use orlop_api::status::ApiError;
use orlop_api::validate::Cause;

/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn mutate(&self, request: &mut Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
        match request.operation {
            Operation::Create => may_create(request, lookup),
            // Also in a terminating namespace: finalizers must be removable.
            Operation::Update => Ok(()),
            Operation::Delete => may_delete(request),
        }
    }
}

fn may_delete(request: &Request<'_>) -> Result<(), ApiError> {
    if request.is("", "namespaces") && PROTECTED.contains(&request.name) {
        return Err(request.refuse("this namespace may not be deleted"));
    }
    Ok(())
}

fn may_create(request: &Request<'_>, lookup: &dyn Lookup) -> Result<(), ApiError> {
    // An access review may ask about a namespace that does not exist.
    if request.kind.scope() == Scope::Cluster
        || request.is("authorization.k8s.io", "localsubjectaccessreviews")
    {
        return Ok(());
    }
    // Without the kind there is nothing to check.
    let Some(kind) = registry::by_resource("", "v1", "namespaces") else { return Ok(()) };
    let namespace = request.namespace;
    let Some(found) = lookup.head(kind, "", namespace) else {
        return Err(ApiError::not_found(kind.names(), namespace));
    };
    if is_going_away(&found) { Err(going_away(request)) } else { Ok(()) }
}

fn is_going_away(namespace: &ObjectHead) -> bool {
    namespace.deletion_timestamp().is_some() || namespace.field("status.phase") == "Terminating"
}

fn going_away(request: &Request<'_>) -> ApiError {
    let namespace = request.namespace;
    let mut error = request.refuse(&format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    ));
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::testing::{Facts, Write};

    fn facts() -> Facts {
        Facts::new(&[
            ("namespaces", json!({"metadata": {"name": "here"}, "status": {"phase": "Active"}})),
            ("namespaces", json!({"metadata": {"name": "going"}, "status": {"phase": "Terminating"}})),
            (
                "namespaces",
                json!({"metadata": {"name": "marked", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ),
        ])
    }

    #[test]
    fn creates_need_an_active_namespace() {
        for (case, plural, namespace, want) in [
            ("1 there", "configmaps", "here", None),
            ("2 missing", "configmaps", "nosuch", Some((404, "namespaces \"nosuch\" not found"))),
            (
                "3 going away",
                "configmaps",
                "going",
                Some((
                    403,
                    "configmaps \"a\" is forbidden: unable to create new content in namespace going because it is being terminated",
                )),
            ),
            (
                "4 deletion has begun",
                "configmaps",
                "marked",
                Some((
                    403,
                    "configmaps \"a\" is forbidden: unable to create new content in namespace marked because it is being terminated",
                )),
            ),
            ("5 not namespaced", "nodes", "", None),
            ("6 the namespace itself", "namespaces", "", None),
        ] {
            let mut write = Write::create(plural, json!({"metadata": {"name": "a"}})).in_namespace(namespace);
            let got = write.mutate(&NamespaceLifecycle, &facts());
            let got = got.as_ref().err().map(|error| (error.code, error.message.as_str()));
            assert_eq!(got, want, "{case}");
        }
    }

    #[test]
    fn rejection_names_the_cause() {
        let mut write = Write::create("configmaps", json!({"metadata": {"name": "b"}})).in_namespace("going");
        let error = write.mutate(&NamespaceLifecycle, &facts()).expect_err("going away");
        let details = error.details.expect("details");
        assert_eq!(details.causes[0].reason, "NamespaceTerminating");
        assert_eq!(details.causes[0].message, "namespace going is being terminated");
        assert_eq!(details.causes[0].field, "metadata.namespace");
    }

    #[test]
    fn updates_and_deletes_are_allowed_in_a_terminating_namespace() {
        let object = json!({"metadata": {"name": "a"}});
        let mut update = Write::update("configmaps", object.clone(), object.clone()).in_namespace("going");
        assert!(update.mutate(&NamespaceLifecycle, &facts()).is_ok());
        let mut delete = Write::delete("configmaps", object).in_namespace("going");
        assert!(delete.mutate(&NamespaceLifecycle, &facts()).is_ok());
    }

    #[test]
    fn system_namespaces_cannot_be_deleted() {
        for (name, want) in [
            ("default", Some("namespaces \"default\" is forbidden: this namespace may not be deleted")),
            (
                "kube-system",
                Some("namespaces \"kube-system\" is forbidden: this namespace may not be deleted"),
            ),
            (
                "kube-public",
                Some("namespaces \"kube-public\" is forbidden: this namespace may not be deleted"),
            ),
            ("kube-node-lease", None),
            ("mine", None),
        ] {
            let mut write = Write::delete("namespaces", json!({"metadata": {"name": name}}));
            let got = write.mutate(&NamespaceLifecycle, &facts());
            assert_eq!(got.as_ref().err().map(|error| error.message.as_str()), want, "{name}");
        }
        let mut other = Write::delete("nodes", json!({"metadata": {"name": "default"}}));
        assert!(other.mutate(&NamespaceLifecycle, &facts()).is_ok(), "only namespaces are protected");
    }
}
