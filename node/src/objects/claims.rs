//! Reports changes of the claims in use. One watch of the metadata of all claims serves all users; events of
//! unused claims are dropped on arrival. The receiver of a report reads the claim from the server.
//!
//! The watch begins at the revision of a list of one object, and after that list every claim in use counts as
//! changed: no change is missed between reading a claim and starting the watch, or while the server was
//! unreachable.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use orlop_apimachinery::clock::Backoff;
use orlop_client::client::status_of;
use orlop_client::informer::key_of;
use tokio_util::sync::CancellationToken;

/// Claims in use, by key, with the number of their users. Clones share the map.
#[derive(Clone, Default)]
pub struct Claims {
    used: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// Why a watch ended.
enum WatchEnd {
    /// It can be resumed from the last revision.
    Cut,
    /// A new list is needed.
    Expired,
}

impl Claims {
    /// Adds a user of a claim.
    pub fn take(&self, key: &str) {
        *self.used().entry(key.to_owned()).or_default() += 1;
    }

    /// Removes a user of a claim.
    pub fn give_back(&self, key: &str) {
        let mut used = self.used();
        if let Some(count) = used.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                used.remove(key);
            }
        }
    }

    /// Whether a claim is in use.
    pub fn is_used(&self, key: &str) -> bool {
        self.used().contains_key(key)
    }

    /// Watches the claims until `shutdown` is cancelled; calls `changed` with the key of each claim in use that may
    /// have changed. After an error it retries after 100 ms, doubling up to 10 s.
    pub async fn run(&self, client: Client, shutdown: CancellationToken, changed: impl Fn(&str)) {
        let api: Api<PersistentVolumeClaim> = Api::all(client);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        let mut revision = None;
        loop {
            let end = tokio::select! {
                () = shutdown.cancelled() => return,
                end = self.follow(&api, &mut revision, &mut backoff, &changed) => end,
            };
            if matches!(end, WatchEnd::Expired) {
                revision = None;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(backoff.advance()) => {}
            }
        }
    }

    async fn follow(
        &self,
        api: &Api<PersistentVolumeClaim>,
        revision: &mut Option<String>,
        backoff: &mut Backoff,
        changed: &impl Fn(&str),
    ) -> WatchEnd {
        let from = match revision {
            Some(revision) => revision.clone(),
            None => match api.list_metadata(&ListParams::default().limit(1)).await {
                Ok(list) => {
                    let from = list.metadata.resource_version.unwrap_or_default();
                    *revision = Some(from.clone());
                    let used: Vec<String> = self.used().keys().cloned().collect();
                    used.iter().for_each(|key| changed(key));
                    from
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot list claims");
                    return WatchEnd::Cut;
                }
            },
        };
        let stream = match api.watch_metadata(&WatchParams::default(), &from).await {
            Ok(stream) => stream,
            Err(error) => return end_of(&error),
        };
        pin_mut!(stream);
        while let Some(event) = stream.next().await {
            let claim = match event {
                Ok(WatchEvent::Added(claim) | WatchEvent::Modified(claim) | WatchEvent::Deleted(claim)) => {
                    claim
                }
                Ok(WatchEvent::Bookmark(mark)) => {
                    *revision = Some(mark.metadata.resource_version);
                    continue;
                }
                Ok(WatchEvent::Error(status)) if status.code == 410 => return WatchEnd::Expired,
                Ok(WatchEvent::Error(status)) => {
                    tracing::debug!(message = status.message, "the watch of claims ended");
                    return WatchEnd::Cut;
                }
                Err(error) => return end_of(&error),
            };
            backoff.reset();
            let key = key_of(&claim);
            if let Some(version) = claim.metadata.resource_version {
                *revision = Some(version);
            }
            if self.is_used(&key) {
                changed(&key);
            }
        }
        WatchEnd::Cut
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.used.lock()
    }
}

fn end_of(error: &kube::Error) -> WatchEnd {
    tracing::debug!(%error, "the watch of claims failed");
    if status_of(error).is_some_and(|status| status.code == 410) { WatchEnd::Expired } else { WatchEnd::Cut }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use orlop_test_support::FakeApi;
    use serde_json::{Value, json};

    use super::*;

    fn claim(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": name},
            "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}})
    }

    struct Notified(Arc<Mutex<Vec<String>>>);

    impl Notified {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock())
        }
    }

    fn start(api: &FakeApi, claims: &Claims, shutdown: &CancellationToken) -> Notified {
        let keys = Arc::new(Mutex::new(Vec::new()));
        let (claims, client, shutdown) = (claims.clone(), api.client(), shutdown.clone());
        let list = Arc::clone(&keys);
        tokio::spawn(async move {
            claims.run(client, shutdown, |key| list.lock().push(key.to_owned())).await;
        });
        Notified(keys)
    }

    #[tokio::test(start_paused = true)]
    async fn only_claims_in_use_are_reported_without_gaps() {
        let (api, claims, shutdown) = (FakeApi::new(), Claims::default(), CancellationToken::new());
        api.seed(claim("a"));
        api.seed(claim("b"));
        claims.take("ns/a");
        claims.take("ns/a");
        let notified = start(&api, &claims, &shutdown);
        api.settle().await;
        assert_eq!(notified.take(), ["ns/a"], "claims in use count as changed when the watch begins");
        let bound = json!({"status": {"phase": "Bound"}});
        for name in ["ns/a", "ns/b"] {
            api.patch("persistentvolumeclaims", name, "status", bound.clone());
        }
        api.settle().await;
        assert_eq!(notified.take(), ["ns/a"]);
        claims.give_back("ns/a");
        claims.take("ns/c");
        api.create(claim("c"));
        api.delete("persistentvolumeclaims", "ns/a");
        api.settle().await;
        assert_eq!(notified.take(), ["ns/c", "ns/a"], "one of two users is left");
        claims.give_back("ns/a");
        api.disconnect(false);
        api.patch("persistentvolumeclaims", "ns/c", "status", bound.clone());
        api.settle().await;
        assert_eq!(notified.take(), ["ns/c"], "an interrupted watch resumes at its last revision");
        api.disconnect(true);
        api.settle().await;
        assert_eq!(notified.take(), ["ns/c"], "after a gap everything in use is looked at");
        shutdown.cancel();
    }
}
