//! Reads the claims in use periodically, where the node may not watch all claims.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;
use orlop_client::api::Api;
use orlop_client::object_key::split_key;
use tokio::time::Instant;

use super::Claims;

/// The shortest time between two reads of a claim.
const PERIOD: Duration = Duration::from_secs(2);
/// The time for each claim: a node with many claims reads each of them less often, ten a second together.
const FOR_EACH: Duration = Duration::from_millis(100);
/// The time after which the node asks again whether it may watch all claims.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(300);

/// Calls `changed` for each claim in use whose version differs from the one that was read before. Returns after
/// [`ASK_AGAIN`].
pub(super) async fn poll(claims: &Claims, client: &Client, changed: &impl Fn(&str)) {
    let end = Instant::now() + ASK_AGAIN;
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    while Instant::now() < end {
        let used = claims.keys();
        known.retain(|key, _| claims.is_used(key));
        for key in &used {
            let (namespace, name) = split_key(key);
            let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
            let version = match api.get_metadata_opt(name).await {
                Ok(claim) => claim.and_then(|claim| claim.metadata.resource_version),
                // For example, the last pod of the claim on this node was deleted.
                Err(error) => {
                    tracing::debug!(claim = key, %error, "cannot read a claim");
                    continue;
                }
            };
            // The user of a new claim may have read an earlier version.
            if known.get(key) != Some(&version) {
                known.insert(key.clone(), version);
                changed(key);
            }
        }
        let pause = FOR_EACH * u32::try_from(used.len()).unwrap_or(u32::MAX);
        tokio::time::sleep(pause.max(PERIOD)).await;
    }
}
