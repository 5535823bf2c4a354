//! `clusterrole-aggregation-controller`: writes the rules of the ClusterRoles that an aggregation rule selects into the
//! aggregated ClusterRole.
//!
//! Upstream: pkg/controller/clusterroleaggregation.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{Patch, PatchParams};
use orlop_apimachinery::labels::Selector;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::context::{Context, ControllerError};
use crate::workload::owned::fits;

/// The rules of an aggregated role cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot aggregate the rules of ClusterRole {name}: {source}")]
struct AggregationError {
    name: String,
    source: kube::Error,
}

/// The rules that a role must have: those of the selected roles in the order of their names, each rule once. `None` for a
/// role without an aggregation rule, and for a role that has them.
fn wanted_rules<'r>(
    role: &ClusterRole,
    all: impl Iterator<Item = &'r ClusterRole> + Clone,
) -> Option<Vec<PolicyRule>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.as_deref().unwrap_or_default();
    let mut rules: Vec<PolicyRule> = Vec::new();
    // The server admits an invalid selector only in old objects; it selects nothing.
    for selector in selectors.iter().filter_map(|selector| Selector::from_label_selector(selector).ok()) {
        let is_selected = |other: &&ClusterRole| {
            other.metadata.name != role.metadata.name && fits(&selector, other.metadata.labels.as_ref())
        };
        let mut selected: Vec<&ClusterRole> = all.clone().filter(is_selected).collect();
        selected.sort_by_key(|other| &other.metadata.name);
        for rule in selected.iter().flat_map(|other| other.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    (role.rules.as_deref().unwrap_or_default() != rules).then_some(rules)
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let roles = Informer::<ClusterRole>::new();
        // A change of a role may change every aggregated role.
        let aggregated = Mutex::new(BTreeSet::new());
        let _changes = roles.add_handler({
            let queue = queue.clone();
            move |change: &Change<ClusterRole>| {
                let mut aggregated = aggregated.lock();
                match change.new.as_deref() {
                    Some(role) if role.aggregation_rule.is_some() => drop(aggregated.insert(key_of(role))),
                    Some(_) | None => drop(aggregated.remove(&**change.key())),
                }
                aggregated.iter().for_each(|name| queue.add(name.clone()));
            }
        });
        let _following = AbortOnDropHandle::new(tokio::spawn({
            let (roles, shutdown) = (roles.clone(), context.shutdown.clone());
            let api = Api::all(context.informers.client());
            async move { roles.run(api, shutdown).await }
        }));
        if !context.ready(roles.synced()).await {
            return Ok(());
        }
        let api = Api::all(context.client.clone());
        let syncs = context.syncs::<ClusterRole, _>(controller::ROLE_AGGREGATION);
        worker::run_until(&context.shutdown, &queue, 1, syncs, |name| sync(&roles, &api, name)).await;
        Ok(())
    })
}

/// Applies the rules in one write; if it fails, the next sync decides again.
async fn sync(
    roles: &Informer<ClusterRole>,
    api: &Api<ClusterRole>,
    name: String,
) -> Result<(), AggregationError> {
    let Some(role) = roles.get(&name) else { return Ok(()) };
    let all = roles.list();
    let Some(rules) = wanted_rules(&role, all.iter().map(AsRef::as_ref)) else { return Ok(()) };
    let applied = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    let parameters = PatchParams::apply(controller::ROLE_AGGREGATION).force();
    match api.patch(&name, &parameters, &Patch::Apply(applied)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(source) => Err(AggregationError { name, source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn role(name: &str, label: &str, resources: &[&str]) -> ClusterRole {
        let rules: Vec<_> = resources
            .iter()
            .map(|r| json!({"apiGroups": [""], "resources": [r], "verbs": ["get"]}))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"to": label}}, "rules": rules}))
            .unwrap()
    }

    #[test]
    fn rules_of_selected_roles_are_joined() {
        let mut all = role("all", "x", &[]);
        assert_eq!(wanted_rules(&all, std::iter::empty()), None, "no aggregation rule");
        all.aggregation_rule = serde_json::from_value(json!({"clusterRoleSelectors": [
            {"matchLabels": {"to": "x"}}, {"matchExpressions": [{"key": "to", "operator": "In", "values": ["y"]}]}]}))
        .unwrap();
        let others = [
            role("b", "x", &["pods", "nodes"]),
            role("a", "x", &["nodes"]),
            role("c", "y", &["pods", "events"]),
            role("d", "z", &["secrets"]),
        ];
        let roles = || others.iter().chain(std::iter::once(&all));
        let found = wanted_rules(&all, roles()).unwrap();
        let resources: Vec<_> = found.iter().flat_map(|rule| rule.resources.iter().flatten()).collect();
        assert_eq!(resources, ["nodes", "pods", "events"]);
        let mut done = all.clone();
        done.rules = Some(found);
        assert_eq!(wanted_rules(&done, roles()), None, "nothing to do");
        assert_eq!(wanted_rules(&done, std::iter::empty()), Some(Vec::new()), "no role is selected any more");
    }
}
