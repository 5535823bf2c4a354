//! `validatingadmissionpolicy-status-controller`: writes the observed generation of ValidatingAdmissionPolicies.
//!
//! Upstream's controller also checks the types of expressions against the schemas of the matched kinds. This one reports no
//! warnings, as upstream's does for kinds without a schema.
//!
//! Upstream: pkg/controller/validatingadmissionpolicystatus.

use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use serde_json::json;

use crate::context::{Context, ControllerError};

/// Upstream: `ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs`.
const WORKERS: usize = 5;

/// The status of a policy cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of ValidatingAdmissionPolicy {name}: {source}")]
struct PolicyStatusError {
    name: String,
    source: kube::Error,
}

/// The generation to write; `None` if the status has it.
fn unobserved(policy: &ValidatingAdmissionPolicy) -> Option<i64> {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation).unwrap_or_default();
    policy.metadata.generation.filter(|generation| *generation > observed)
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let policies: Informer<ValidatingAdmissionPolicy> = context.informers.of();
        let _changes = policies.add_handler({
            let queue = queue.clone();
            move |change: &Change<ValidatingAdmissionPolicy>| {
                if change.new.as_deref().and_then(unobserved).is_some() {
                    queue.add(change.key().to_string());
                }
            }
        });
        if !context.ready(policies.synced()).await {
            return Ok(());
        }
        let api = Api::all(context.client.clone());
        let syncs = context.syncs::<ValidatingAdmissionPolicy, _>(controller::POLICY_STATUS);
        worker::run_until(&context.shutdown, &queue, WORKERS, syncs, |name| sync(&policies, &api, name))
            .await;
        Ok(())
    })
}

/// One write; if it fails, the next sync decides again.
async fn sync(
    policies: &Informer<ValidatingAdmissionPolicy>,
    api: &Api<ValidatingAdmissionPolicy>,
    name: String,
) -> Result<(), PolicyStatusError> {
    let Some(generation) = policies.get(&name).and_then(|policy| unobserved(&policy)) else { return Ok(()) };
    let applied = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "status": {"observedGeneration": generation, "typeChecking": {}},
    });
    let parameters = PatchParams::apply(controller::POLICY_STATUS).force();
    match api.patch_status(&name, &parameters, &Patch::Apply(applied)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(source) => Err(PolicyStatusError { name, source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn newer_generations_are_observed() {
        for (case, generation, observed, want) in [
            ("1 new", Some(1), None, Some(1)),
            ("2 changed", Some(3), Some(2), Some(3)),
            ("3 observed", Some(3), Some(3), None),
            ("4 no generation", None, None, None),
        ] {
            let policy = json!({"metadata": {"name": "p", "generation": generation}, "status": {"observedGeneration": observed}});
            let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).unwrap();
            assert_eq!(unobserved(&policy), want, "{case}");
        }
    }
}
