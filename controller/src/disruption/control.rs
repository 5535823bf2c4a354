//! Runs the controller: queues budgets on changes of budgets and pods, and writes the status. Each sync is one
//! conditional write; if it fails, the next sync calculates the status again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join, join3};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use kube::Client;
use kube::api::PostParams;
use orlop_apimachinery::clock::Clock;
use orlop_apimachinery::labels::Selector;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, split_key};
use orlop_client::names::{COMPONENT_DISRUPTION, controller, reason};
use orlop_client::queue::WorkQueue;
use orlop_client::recorder::{EventType, Recorder};
use orlop_client::worker;

use super::budget::{
    BudgetPod, Targets, controllers, failed_status, needs_scale, observe, status, targets, unmanaged_message,
};
use super::discovery::Discovery;
use super::scale::{ScaleError, Scales};
use super::selection::{Selectors, is_relevant, selected};
use super::stale::{reset, stale_after};
use crate::context::{Context, ControllerError};

/// The number of parallel syncs, so that a budget whose scales are slow to read does not delay the others. Upstream has 1.
const WORKERS: usize = 5;
/// The maximum number of scales that a sync requests from the server.
const MAX_REQUESTED_SCALES: usize = 1000;
/// Added to the delay of a recheck, so that it does not run too early.
const MARGIN: Duration = Duration::from_millis(50);

/// A sync failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum DisruptionError {
    /// The status could not be written.
    #[error("cannot write the status of PodDisruptionBudget {key}: {cause}")]
    Write {
        /// The budget.
        key: String,
        /// Why.
        cause: kube::Error,
    },
    /// The server did not return a scale.
    #[error("cannot calculate the status of PodDisruptionBudget {key}: {why}")]
    Calculate {
        /// The budget.
        key: String,
        /// Why.
        why: String,
    },
    /// The condition of a pod could not be written.
    #[error("cannot reset the condition DisruptionTarget of pod {key}: {cause}")]
    Reset {
        /// The pod.
        key: String,
        /// Why.
        cause: kube::Error,
    },
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let informers = &context.informers;
        let this = Disruption {
            client: context.client.clone(),
            budgets: informers.of(),
            pods: informers.pods(),
            scales: Scales {
                client: context.client.clone(),
                discovery: Discovery::new(context.client.clone()),
                controllers: informers.of(),
                sets: informers.of(),
                deployments: informers.of(),
                stateful_sets: informers.of(),
            },
            queue: WorkQueue::new(context.options.rate_limit),
            stale: WorkQueue::new(context.options.rate_limit),
            recorder: context.recorder(COMPONENT_DISRUPTION),
            clock: context.clock,
        };
        let selectors = Arc::new(Selectors::default());
        let _budgets = this.budgets.add_handler({
            let (queue, selectors) = (this.queue.clone(), Arc::clone(&selectors));
            move |change: &Change<PodDisruptionBudget>| {
                selectors.set(change.key(), change.new.as_deref());
                queue.add(change.key().to_string());
            }
        });
        let _pods = this.pods.add_handler({
            let (queue, stale, clock) = (this.queue.clone(), this.stale.clone(), this.clock);
            let recorder = this.recorder.clone();
            move |change: &Change<Pod>| {
                queue_budgets(change, &selectors, &queue, &recorder);
                let pod = change.new.as_deref();
                if let Some(delay) = pod.and_then(|pod| stale_after(pod, clock.now())) {
                    stale.add_after(change.key().to_string(), delay);
                }
            }
        });
        if !context.ready(join3(this.budgets.synced(), this.pods.synced(), this.scales.synced())).await {
            return Ok(());
        }
        let budgets = context.syncs::<PodDisruptionBudget, _>(controller::DISRUPTION);
        let pods = context.syncs::<Pod, _>(controller::DISRUPTION);
        join(
            worker::run_until(&context.shutdown, &this.queue, WORKERS, budgets, |key| this.sync(key)),
            worker::run_until(&context.shutdown, &this.stale, 1, pods, |key| this.sync_stale(key)),
        )
        .await;
        Ok(())
    })
}

/// Queues the budgets that select a changed pod, or selected it before a change of its labels.
fn queue_budgets(
    change: &Change<Pod>,
    selectors: &Selectors,
    queue: &WorkQueue<String>,
    recorder: &Recorder,
) {
    let namespace = split_key(change.key()).0;
    // Most changes are in namespaces without budgets. Those do not decode the old pod.
    if !selectors.has_any(namespace) {
        return;
    }
    let of = |pod: &Pod| selectors.of(namespace, pod.metadata.labels.as_ref());
    let (old, new) = (change.old(), change.new.as_deref());
    if let Some(old) = old.filter(|old| new.is_none_or(|new| new.metadata.labels != old.metadata.labels)) {
        of(old).into_iter().for_each(|key| queue.add(key));
    }
    let Some(pod) = new else { return };
    let selecting = of(pod);
    if let [first, _, ..] = selecting.as_slice() {
        let (pod_name, budget_name) = (split_key(change.key()).1, split_key(first).1);
        let message = format!(
            "Pod {namespace:?}/{pod_name:?} matches multiple PodDisruptionBudgets.  Chose {budget_name:?} arbitrarily."
        );
        recorder.event(pod, EventType::Warning, reason::MULTIPLE_POD_DISRUPTION_BUDGETS, message);
    }
    if old.is_none_or(|old| old.metadata.labels != pod.metadata.labels || is_relevant(old, pod)) {
        selecting.into_iter().for_each(|key| queue.add(key));
    }
}

struct Disruption {
    client: Client,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    scales: Scales,
    queue: WorkQueue<String>,
    stale: WorkQueue<String>,
    recorder: Recorder,
    clock: Clock,
}

impl Disruption {
    async fn sync(&self, key: String) -> Result<(), DisruptionError> {
        let Some(budget) = self.budgets.get(&key) else { return Ok(()) };
        let spec = budget.spec.clone().unwrap_or_default();
        let pods = match self.pods_of(&key, &spec) {
            Ok(pods) => pods,
            Err(why) => {
                let message = format!("Failed to get pods: {why}");
                self.recorder.event(budget.as_ref(), EventType::Warning, reason::NO_PODS, message);
                return self.write(&key, &budget, failed_status(&budget, &why, self.clock.now())).await;
            }
        };
        if pods.is_empty() {
            let message = "No matching pods found";
            self.recorder.event(budget.as_ref(), EventType::Normal, reason::NO_PODS, message);
        }
        match self.targets(&key, &budget, &spec, &pods).await {
            Ok(targets) => self.update(&key, &budget, &pods, targets).await,
            Err(error) => {
                let why = error.to_string();
                let message = format!("Failed to calculate the number of expected pods: {why}");
                let reason = reason::CALCULATE_EXPECTED_POD_COUNT_FAILED;
                self.recorder.event(budget.as_ref(), EventType::Warning, reason, message);
                self.write(&key, &budget, failed_status(&budget, &why, self.clock.now())).await?;
                match error {
                    // Only a change of the pods or the budget has another result.
                    ScaleError::Unknown(_) => Ok(()),
                    ScaleError::Api(_) => Err(DisruptionError::Calculate { key, why }),
                }
            }
        }
    }

    fn pods_of(&self, key: &str, spec: &PodDisruptionBudgetSpec) -> Result<Vec<BudgetPod>, String> {
        // No selector selects no pod.
        let Some(labels) = &spec.selector else { return Ok(Vec::new()) };
        let selector = Selector::from_label_selector(labels)?;
        Ok(selected(&self.pods, split_key(key).0, labels, &selector))
    }

    async fn targets(
        &self,
        key: &str,
        budget: &PodDisruptionBudget,
        spec: &PodDisruptionBudgetSpec,
        pods: &[BudgetPod],
    ) -> Result<Targets, ScaleError> {
        if !needs_scale(spec) {
            return Ok(targets(spec, i32::try_from(pods.len()).unwrap_or(i32::MAX)));
        }
        let (owners, unmanaged) = controllers(pods);
        let (namespace, mut requested) = (split_key(key).0, 0_usize);
        let mut scales = BTreeMap::new();
        for (pod, owner) in owners {
            let scaled = match self.scales.cached(owner, namespace) {
                Some(scaled) => Some(scaled),
                None if requested == MAX_REQUESTED_SCALES => {
                    return Err(ScaleError::Unknown(format!(
                        "the pods have more than {MAX_REQUESTED_SCALES} controllers whose scale must be requested"
                    )));
                }
                None => {
                    requested += 1;
                    self.scales.read_subresource(owner, namespace).await?
                }
            };
            let Some(scaled) = scaled else {
                return Err(ScaleError::Unknown(format!("found no controllers for pod {:?}", pod.name())));
            };
            scales.insert(scaled.uid, scaled.replicas);
        }
        if unmanaged > 0 {
            let message = unmanaged_message(spec.selector.as_ref());
            self.recorder.event(budget, EventType::Warning, reason::UNMANAGED_PODS, message);
        }
        let total = scales.values().fold(0_i32, |total, replicas| total.saturating_add(*replicas));
        Ok(targets(spec, total))
    }

    async fn update(
        &self,
        key: &str,
        budget: &Arc<PodDisruptionBudget>,
        pods: &[BudgetPod],
        targets: Targets,
    ) -> Result<(), DisruptionError> {
        let now = self.clock.now();
        let observed = observe(budget, pods, now);
        let namespace = split_key(key).0;
        for pod in &observed.overdue {
            // Upstream's message contains the namespace in place of the name, too.
            let message =
                format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            self.recorder.event_for(pod.clone(), EventType::Warning, reason::NOT_DELETED, message);
        }
        self.write(key, budget, status(budget, targets, &observed, now)).await?;
        if let Some(at) = observed.recheck {
            let delay = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            self.queue.add_after(key.to_owned(), delay + MARGIN);
        }
        Ok(())
    }

    async fn write(
        &self,
        key: &str,
        budget: &PodDisruptionBudget,
        status: Option<PodDisruptionBudgetStatus>,
    ) -> Result<(), DisruptionError> {
        let Some(status) = status else { return Ok(()) };
        let (namespace, name) = split_key(key);
        let changed = PodDisruptionBudget { status: Some(status), ..budget.clone() };
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), namespace);
        match api.replace_status(name, &PostParams::default(), &changed).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(DisruptionError::Write { key: key.to_owned(), cause }),
        }
    }

    async fn sync_stale(&self, key: String) -> Result<(), DisruptionError> {
        let Some(pod) = self.pods.get(&key) else { return Ok(()) };
        let now = self.clock.now();
        match stale_after(&pod, now) {
            None => return Ok(()),
            Some(delay) if !delay.is_zero() => {
                self.stale.add_after(key, delay);
                return Ok(());
            }
            Some(_) => {}
        }
        let (namespace, name) = split_key(&key);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match api.replace_status(name, &PostParams::default(), &reset(&pod, now)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(DisruptionError::Reset { key, cause }),
        }
    }
}
