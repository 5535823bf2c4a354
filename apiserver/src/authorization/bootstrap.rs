//! Writes the roles and bindings that every cluster has, at each start.
//!
//! Upstream: pkg/registry/rbac/rest/storage_rbac.go.

use orlop_api::object::{Object, show_time};
use orlop_auth::rbac::bootstrap::{
    cluster_role_bindings, cluster_roles, joining, must_recreate, reconcile, role_bindings, roles,
};
use orlop_store::{CommitError, Expect, Key, Op, Write};
use serde_json::Value;

use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{Kind, by_resource};
use crate::state::Inner;

/// How often a commit that conflicts with other writers is tried.
const TRIES: usize = 5;

/// Creates missing roles and bindings, and restores what their stored form lacks.
pub(crate) async fn write(server: &Inner) -> Result<(), String> {
    for _ in 0..TRIES {
        let writes = missing(server);
        if writes.is_empty() {
            return Ok(());
        }
        match server.store.commit(writes).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("each write of the bootstrap roles and bindings conflicted with another writer".to_owned())
}

fn missing(server: &Inner) -> Vec<Write<Projection>> {
    let objects = [
        ("clusterroles", cluster_roles()),
        ("clusterrolebindings", cluster_role_bindings()),
        ("roles", roles()),
        ("rolebindings", role_bindings()),
    ];
    let joining = [
        ("clusterrolebindings", joining::cluster_role_bindings()),
        ("roles", joining::roles()),
        ("rolebindings", joining::role_bindings()),
    ];
    let joining = joining.into_iter().filter(|_| server.config.cluster_info.is_some());
    let mut writes = Vec::new();
    for (plural, objects) in objects.into_iter().chain(joining) {
        let Some(kind) = by_resource("rbac.authorization.k8s.io", "v1", plural) else { continue };
        writes.extend(objects.iter().filter_map(|wanted| reconciled(server, kind, wanted)));
    }
    writes
}

/// The write that brings an object into its bootstrap form, if it needs one.
fn reconciled(server: &Inner, kind: &dyn Kind, wanted: &Value) -> Option<Write<Projection>> {
    let text = |name: &str| wanted["metadata"][name].as_str().unwrap_or_default();
    let key = Key::from(dispatch::key(kind, text("namespace"), text("name")));
    let head = server.store.head();
    let record = head.get(key.as_str());
    let old = match record.map(|record| stored::decode_as(kind, record)).transpose() {
        Ok(old) => old.map(Object::into_value),
        // Its rules or subjects would be lost.
        Err(error) => {
            tracing::warn!(%error, "a role or binding of the server is unreadable, and stays unchanged");
            return None;
        }
    };
    let result = reconcile(old.as_ref(), wanted)?;
    let expect = record.map_or(Expect::Absent, |record| Expect::Revision(record.mod_revision));
    let mut object = Object::from_value(result);
    if old.as_ref().is_none_or(|old| must_recreate(old, wanted)) {
        object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
        object.set(&["metadata", "creationTimestamp"], show_time(server.now()));
        kind.defaults(&mut object);
    }
    let (value, view) = stored::encode(kind, &object);
    Some(Write { key, expect, op: Op::Put { value, view } })
}
