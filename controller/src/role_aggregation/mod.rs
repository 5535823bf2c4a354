//! `clusterrole-aggregation-controller`: writes the rules of the ClusterRoles that an aggregation rule selects into the
//! aggregated ClusterRole.
//!
//! Upstream: pkg/controller/clusterroleaggregation.

mod affected;
mod rules;

use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::time_slice::TimeSlice;
use orlop_client::worker;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use self::affected::AggregatedRoles;
use self::rules::{AggregatedRules, TooLarge, equal_rules, selectors_of};
use crate::context::{Context, ControllerError};

/// The rules of an aggregated role cannot be written.
#[derive(Debug, thiserror::Error)]
enum AggregationError {
    #[error("cannot aggregate the rules of ClusterRole {name}: {source}")]
    Size { name: String, source: TooLarge },
    #[error("cannot aggregate the rules of ClusterRole {name}: {source}")]
    Write { name: String, source: kube::Error },
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let roles = Informer::<ClusterRole>::new();
        let aggregated = Mutex::new(AggregatedRoles::default());
        let _changes = roles.add_handler({
            let queue = queue.clone();
            move |change: &Change<ClusterRole>| {
                let old = change.old().map(AsRef::as_ref);
                let affected = aggregated.lock().change(change.key(), old, change.new.as_deref());
                affected.into_iter().for_each(|name| queue.add(name.to_string()));
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

/// The rules that a role must have; `None` if it has them, and for a role without an aggregation rule. Reads one role after the other,
/// because all of them need much more memory decoded than cached.
async fn wanted_rules(
    roles: &Informer<ClusterRole>,
    name: &str,
) -> Result<Option<Vec<PolicyRule>>, TooLarge> {
    let Some(role) = roles.get(name) else { return Ok(None) };
    let Some(selectors) = selectors_of(&role) else { return Ok(None) };
    let (mut wanted, mut slice) = (AggregatedRules::new(&selectors), TimeSlice::start());
    for other in roles.kept().into_iter().filter(|other| &**other.key() != name) {
        wanted.add(&other.get())?;
        slice.yield_if_over().await;
    }
    let wanted = wanted.finish();
    Ok((!equal_rules(role.rules.as_deref().unwrap_or_default(), &wanted)).then_some(wanted))
}

/// Applies the rules in one write; if it fails, the next sync decides again.
async fn sync(
    roles: &Informer<ClusterRole>,
    api: &Api<ClusterRole>,
    name: String,
) -> Result<(), AggregationError> {
    let rules = match wanted_rules(roles, &name).await {
        Ok(Some(rules)) => rules,
        Ok(None) => return Ok(()),
        Err(source) => return Err(AggregationError::Size { name, source }),
    };
    let applied = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    let parameters = PatchParams::apply(controller::ROLE_AGGREGATION).force();
    match api.patch(&name, &parameters, &Patch::Apply(applied)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(source) => Err(AggregationError::Write { name, source }),
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

    #[tokio::test]
    async fn rules_of_selected_roles_are_joined() {
        let roles = Informer::new();
        let mut all = role("all", "x", &[]);
        roles.apply(all.clone());
        assert_eq!(wanted_rules(&roles, "all").await, Ok(None), "no aggregation rule");
        assert_eq!(wanted_rules(&roles, "none").await, Ok(None), "no role");
        all.aggregation_rule =
            serde_json::from_value(json!({"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]})).unwrap();
        all.rules = role("all", "x", &["own"]).rules;
        for role in
            [role("b", "x", &["pods", "nodes"]), role("a", "x", &["nodes"]), role("c", "y", &["events"])]
        {
            roles.apply(role);
        }
        roles.apply(all.clone());
        let found = wanted_rules(&roles, "all").await.unwrap().unwrap();
        let resources: Vec<_> = found.iter().flat_map(|rule| rule.resources.iter().flatten()).collect();
        assert_eq!(resources, ["nodes", "pods"]);
        all.rules = Some(found);
        roles.apply(all.clone());
        assert_eq!(wanted_rules(&roles, "all").await, Ok(None), "nothing to do");
        roles.remove(role("a", "x", &["nodes"]));
        roles.remove(role("b", "x", &[]));
        assert_eq!(wanted_rules(&roles, "all").await, Ok(Some(Vec::new())), "no role is selected any more");
    }
}
