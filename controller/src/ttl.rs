//! `ttl-controller`: annotates nodes with the number of seconds for which their kubelets may cache Secrets and
//! ConfigMaps. The more nodes, the longer the time.
//!
//! Upstream: pkg/controller/ttl.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use orlop_client::client::{is_not_found, message_of};
use orlop_client::informer::{Change, Informer};
use orlop_client::names::{ANN_NODE_TTL, controller};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use serde_json::json;

use crate::context::{Context, ControllerError};

/// The number of workers.
const WORKERS: usize = 5;

/// The annotation of a node could not be written; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot annotate Node {name} with {ANN_NODE_TTL}: {}", message_of(.cause))]
struct TtlError {
    name: String,
    cause: kube::Error,
}

/// A range of cluster sizes, and its time.
struct Step {
    min: usize,
    max: usize,
    seconds: u32,
}

/// The ranges overlap, so that a single node does not change the time again and again.
const STEPS: [Step; 5] = [
    Step { min: 0, max: 100, seconds: 0 },
    Step { min: 90, max: 500, seconds: 15 },
    Step { min: 450, max: 1000, seconds: 30 },
    Step { min: 900, max: 2000, seconds: 60 },
    Step { min: 1800, max: usize::MAX, seconds: 300 },
];

/// The step for this number of nodes, after the step at index `at`.
fn next_step(mut at: usize, nodes: usize) -> usize {
    while at + 1 < STEPS.len() && nodes > STEPS[at].max {
        at += 1;
    }
    while at > 0 && nodes < STEPS[at].min {
        at -= 1;
    }
    at
}

/// Whether the node has another time, or none.
fn differs(node: &Node, seconds: u32) -> bool {
    let current = node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANN_NODE_TTL));
    current.and_then(|text| text.parse::<i64>().ok()) != Some(i64::from(seconds))
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let queue = WorkQueue::new(context.options.rate_limit);
        let nodes = context.informers.nodes();
        let step = Arc::new(AtomicUsize::new(0));
        let count = AtomicUsize::new(0);
        // Upstream too annotates the other nodes only at their next change.
        let _changes = nodes.add_handler({
            let (queue, step) = (queue.clone(), Arc::clone(&step));
            move |change: &Change<Node>| {
                // Handlers run one at a time, so that nothing changes between these operations.
                let before = count.load(Ordering::Relaxed);
                let now = match (change.is_new(), change.is_gone()) {
                    (true, false) => before + 1,
                    (false, true) => before.saturating_sub(1),
                    (true, true) | (false, false) => before,
                };
                count.store(now, Ordering::Relaxed);
                step.store(next_step(step.load(Ordering::Relaxed), now), Ordering::Relaxed);
                if !change.is_gone() {
                    queue.add(change.key().to_string());
                }
            }
        });
        if !context.ready(nodes.synced()).await {
            return Ok(());
        }
        let api = Api::all(context.client.clone());
        let syncs = context.syncs::<Node, _>(controller::TTL);
        worker::run_until(&context.shutdown, &queue, WORKERS, syncs, |name| {
            sync(&nodes, &api, STEPS[step.load(Ordering::Relaxed)].seconds, name)
        })
        .await;
        Ok(())
    })
}

async fn sync(nodes: &Informer<Node>, api: &Api<Node>, seconds: u32, name: String) -> Result<(), TtlError> {
    let Some(node) = nodes.get(&name) else { return Ok(()) };
    if !differs(&node, seconds) {
        return Ok(());
    }
    let patch = json!({"metadata": {"annotations": {ANN_NODE_TTL: seconds.to_string()}}});
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(cause) => Err(TtlError { name, cause }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::options::Options;
    use crate::testing::FakeApi;

    #[test]
    fn steps_follow_the_number_of_nodes_with_overlap() {
        // Name, step before, number of nodes, step after.
        let table = [
            ("1 no node", 0, 0, 0),
            ("2 the largest small cluster", 0, 100, 0),
            ("3 one more", 0, 101, 1),
            ("4 within the overlap", 1, 90, 1),
            ("5 below the overlap", 1, 89, 0),
            ("6 several steps up", 0, 3000, 4),
            ("7 several steps down", 4, 10, 0),
            ("8 the last step has no end", 4, usize::MAX, 4),
        ];
        for (name, before, nodes, after) in table {
            assert_eq!(next_step(before, nodes), after, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_nodes_get_the_time_of_the_cluster_size() {
        let api = FakeApi::new();
        let node = |name: String, ttl: &str| json!({"kind": "Node", "metadata": {"name": name, "annotations": {ANN_NODE_TTL: ttl, "a": "b"}}});
        for (nth, ttl) in ["0", "15", "no number", "0"].into_iter().enumerate() {
            api.seed(node(format!("n{nth}"), ttl));
        }
        api.seed(json!({"kind": "Node", "metadata": {"name": "new"}}));
        let _running = api.start(&[run], Options::default());
        api.settle().await;
        let annotations = |name: &str| api.get("nodes", name).unwrap()["metadata"]["annotations"].clone();
        for name in ["n0", "n1", "n2", "n3"] {
            assert_eq!(annotations(name), json!({ANN_NODE_TTL: "0", "a": "b"}), "{name}");
        }
        assert_eq!(annotations("new"), json!({ANN_NODE_TTL: "0"}));
        assert_eq!(api.take_writes().len(), 3, "the others have it already");
        for nth in 0..100 {
            api.create(json!({"kind": "Node", "metadata": {"name": format!("more{nth:03}")}}));
        }
        api.settle().await;
        assert_eq!(annotations("more099"), json!({ANN_NODE_TTL: "15"}));
    }
}
