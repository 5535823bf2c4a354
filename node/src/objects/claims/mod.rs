//! Reports changes of the claims in use. The receiver of a report reads the claim from the server.
//!
//! If the node may watch all claims, one watch of their metadata serves all users; events of unused claims are
//! dropped on arrival. The Node authorizer permits a node only to get the claims of its pods: their metadata are then
//! read periodically ([`poll`]). The kubelet reads them every 60 to 90 seconds.
//!
//! The watch begins at the revision of a list of one object, and after that list every claim in use counts as
//! changed: no change is missed between reading a claim and starting the watch, or while the server was
//! unreachable.

mod poll;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Client, Error};
use orlop_apimachinery::clock::Backoff;
use orlop_client::api::Api;
use orlop_client::client::status_of;
use orlop_client::object_key;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

/// Claims in use, by key, with the number of their users. Clones share the map.
#[derive(Clone, Default)]
pub struct Claims {
    used: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// The metadata of a claim that the watch needs. Other metadata are not decoded, so that none of them can end the watch (I12).
#[derive(Clone, Deserialize)]
struct WatchedClaim {
    metadata: WatchedMetadata,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedMetadata {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
}

/// Why a watch ended.
enum WatchEnd {
    /// It can be resumed from the last revision.
    Cut,
    /// A new list is needed.
    Expired,
    /// The node may not watch all claims.
    Forbidden,
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
        let api: Api<PersistentVolumeClaim> = Api::all(client.clone());
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        let mut revision = None;
        loop {
            let end = tokio::select! {
                () = shutdown.cancelled() => return,
                end = async {
                    // Reviewed first, because the server logs an error for each refused request of its own components.
                    match may_watch(&client).await {
                        true => self.follow(&client, &api, &mut revision, &mut backoff, &changed).await,
                        false => WatchEnd::Forbidden,
                    }
                } => end,
            };
            match end {
                WatchEnd::Cut => {}
                WatchEnd::Expired => revision = None,
                WatchEnd::Forbidden => {
                    revision = None;
                    backoff.reset();
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = poll::poll(self, &client, &changed) => {}
                    }
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(backoff.advance()) => {}
            }
        }
    }

    async fn follow(
        &self,
        client: &Client,
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
                    self.keys().iter().for_each(|key| changed(key));
                    from
                }
                Err(error) => return end_of(&error),
            },
        };
        let request = Request::new(api.resource_url()).watch_metadata(&WatchParams::default(), &from);
        let stream = match request.map_err(Error::BuildRequest) {
            Ok(request) => client.request_events::<WatchedClaim>(request).await,
            Err(error) => Err(error),
        };
        let stream = match stream {
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
            let key = object_key::key(claim.metadata.namespace.as_deref(), &claim.metadata.name);
            if let Some(version) = claim.metadata.resource_version {
                *revision = Some(version);
            }
            if self.is_used(&key) {
                changed(&key);
            }
        }
        WatchEnd::Cut
    }

    /// The keys of the claims in use.
    fn keys(&self) -> Vec<String> {
        self.used().keys().cloned().collect()
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.used.lock()
    }
}

fn end_of(error: &kube::Error) -> WatchEnd {
    tracing::debug!(%error, "the watch of claims failed");
    match status_of(error).map(|status| status.code) {
        Some(403) => WatchEnd::Forbidden,
        Some(410) => WatchEnd::Expired,
        Some(_) | None => WatchEnd::Cut,
    }
}

/// Whether roles permit the watch. Without an answer it is tried.
async fn may_watch(client: &Client) -> bool {
    let api: kube::Api<SelfSubjectAccessReview> = kube::Api::all(client.clone());
    for verb in ["list", "watch"] {
        let attributes = ResourceAttributes {
            resource: Some("persistentvolumeclaims".to_owned()),
            verb: Some(verb.to_owned()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = match api.create(&PostParams::default(), &review).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "cannot review the access to claims");
                return true;
            }
        };
        if answer.status.is_some_and(|status| !status.allowed) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
