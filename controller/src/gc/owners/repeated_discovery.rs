//! The kinds that the server serves, by one discovery after another.
//!
//! An API group of another server may be unavailable for any time. Collection of the other kinds does not wait for it.
//!
//! Upstream: `pkg/controller/garbagecollector/garbagecollector.go` (Sync, GetDeletableResources).

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use orlop_apimachinery::clock::Backoff;

use crate::gc::discovery::{DiscoveryFailure, Served, discover};

/// Failed groups that a log line lists.
const LISTED_FAILURES: usize = 8;

/// The results of the discoveries so far.
pub(super) struct RepeatedDiscovery {
    client: Client,
    known: Vec<Arc<Served>>,
    /// The failures of the last discovery, so that only changes are logged.
    failures: Vec<DiscoveryFailure>,
}

impl RepeatedDiscovery {
    /// No discovery so far.
    pub(super) fn new(client: Client) -> Self {
        RepeatedDiscovery { client, known: Vec::new(), failures: Vec::new() }
    }

    /// The kinds that the server serves now, or served when their group was discovered last. Repeats the discovery until it finds at
    /// least the core group.
    pub(super) async fn discover(&mut self) -> Vec<Arc<Served>> {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        loop {
            let found = discover(&self.client).await;
            self.report(&found.failures);
            if let Some(next) = found.following(&self.known) {
                self.known.clone_from(&next);
                return next;
            }
            tokio::time::sleep(backoff.advance()).await;
        }
    }

    fn report(&mut self, failures: &[DiscoveryFailure]) {
        if self.failures == failures {
            return;
        }
        self.failures = failures.to_vec();
        if failures.is_empty() {
            tracing::info!("the garbage collector discovers all API groups again");
            return;
        }
        let listed: Vec<&str> =
            failures.iter().take(LISTED_FAILURES).map(|failure| failure.text.as_str()).collect();
        tracing::warn!(
            count = failures.len(),
            failures = listed.join("; "),
            "the garbage collector cannot discover these API groups now"
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::gc::owners::run;
    use crate::options::Options;
    use crate::testing::FakeApi;

    const DISCOVERY: &str = "/apis/storage.k8s.io/v1";
    const GROUP: &str = "/apis/storage.k8s.io/";
    const NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

    /// Creates an object whose owner does not exist.
    fn create_orphan(api: &FakeApi, kind: &str) {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "uid-gone"});
        let namespace = (kind == "ConfigMap").then_some("ns");
        api.create(json!({"kind": kind, "metadata": {"namespace": namespace, "name": "a", "ownerReferences": [owner]}}));
    }

    fn start(api: &FakeApi) -> tokio_util::sync::DropGuard {
        api.start(&[run], Options::default())
    }

    fn none() -> Vec<Value> {
        Vec::new()
    }

    #[tokio::test(start_paused = true)]
    async fn unavailable_group_delays_no_other() {
        let api = FakeApi::new();
        api.set_unavailable(&[GROUP]);
        create_orphan(&api, "ConfigMap");
        create_orphan(&api, "CSINode");
        let _running = start(&api);
        api.settle().await;
        assert_eq!((api.list("configmaps"), api.list("csinodes").len()), (none(), 1));
        api.set_unavailable(&[]);
        api.settle().await;
        assert_eq!(api.list("csinodes"), none(), "the group is discovered after its return");
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_are_followed_while_the_discovery_of_their_group_fails() {
        let api = FakeApi::new();
        let _running = start(&api);
        api.settle().await;
        let watches = || api.requests().iter().filter(|request| request.ends_with(NODES)).count();
        let before = watches();
        api.set_unavailable(&[DISCOVERY]);
        api.settle().await;
        create_orphan(&api, "CSINode");
        api.settle().await;
        assert_eq!(api.list("csinodes"), none());
        api.set_unavailable(&[]);
        api.settle().await;
        assert_eq!((before, watches()), (2, 2), "one list and one watch");
    }

    #[tokio::test(start_paused = true)]
    async fn first_list_that_fails_delays_collection_by_30_s() {
        let api = FakeApi::new();
        api.set_unavailable(&[NODES]);
        create_orphan(&api, "ConfigMap");
        let _running = start(&api);
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(api.list("configmaps").len(), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(api.list("configmaps"), none());
    }
}
