//! Deletion of all content of a namespace: pods first, all other resources once no pod is left.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, ListParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Client, ResourceExt};
use orlop_client::api::Api;

use crate::gc::discovery::{Served, discover};
use orlop_client::client::{is_not_found, message_of, status_of};

/// Seconds until objects with finalizers are checked again. Upstream: finalizerEstimateSeconds.
const FINALIZER_ESTIMATE: u64 = 15;

/// The result of one deletion pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Groups that could not be discovered.
    pub discovery_failures: Vec<String>,
    /// Resources that could not be deleted.
    pub content_failures: Vec<String>,
    /// Remaining objects, by `resource.group`.
    pub remaining: BTreeMap<String, usize>,
    /// Number of remaining objects that carry each finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// Seconds until the slowest remaining object is expected to be deleted.
    seconds: u64,
}

impl Outcome {
    /// Seconds until the next check; `None` if nothing is left.
    pub fn estimate(&self) -> Option<u64> {
        if self.remaining.is_empty() { None } else { Some(self.seconds.max(1)) }
    }

    /// All failures.
    pub fn failures(&self) -> Vec<String> {
        self.discovery_failures.iter().chain(&self.content_failures).cloned().collect()
    }
}

/// Deletes all content that can be deleted now and reports the rest. An error with one resource does not stop the
/// others.
pub async fn delete_all(client: &Client, namespace: &str) -> Outcome {
    let found = discover(client).await;
    let mut outcome = Outcome { discovery_failures: found.failures, ..Outcome::default() };
    let deletable = |s: &&Served| s.namespaced && s.can("delete") && s.can("list");
    let is_pods = |s: &Served| s.resource.group.is_empty() && s.resource.plural == "pods";
    for pods in found.served.iter().filter(deletable).filter(|s| is_pods(s)) {
        delete(client, namespace, pods, &mut outcome).await;
    }
    // Running pods may need claims and secrets, so those are deleted after the pods.
    if !outcome.remaining.is_empty() || !outcome.content_failures.is_empty() {
        return outcome;
    }
    for served in found.served.iter().filter(deletable).filter(|s| !is_pods(s)) {
        delete(client, namespace, served, &mut outcome).await;
    }
    outcome
}

async fn delete(client: &Client, namespace: &str, served: &Served, outcome: &mut Outcome) {
    let name = format!("{}.{}", served.resource.plural, served.resource.group);
    match try_delete(client, namespace, served).await {
        Ok(left) if left.is_empty() => {}
        Ok(left) => outcome.note(name, &left),
        Err(error) => outcome.content_failures.push(format!("{name}: {}", message_of(&error))),
    }
}

impl Outcome {
    fn note(&mut self, resource: String, left: &[PartialObjectMeta<DynamicObject>]) {
        let mut held = false;
        for finalizer in left.iter().flat_map(|object| object.finalizers()) {
            held = true;
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        // A terminating pod may use its whole grace period.
        let grace = left.iter().filter_map(|o| o.metadata.deletion_grace_period_seconds).max().unwrap_or(0);
        let grace = u64::try_from(grace).unwrap_or(0);
        let seconds = if grace == 0 && held { FINALIZER_ESTIMATE } else { grace };
        if seconds == 0 {
            self.content_failures.push(format!("unexpected items still remain in namespace: {resource}"));
        }
        self.seconds = self.seconds.max(seconds);
        self.remaining.insert(resource, left.len());
    }
}

/// Deletes the collection, or its objects one by one if the resource does not support `deletecollection`, and
/// lists the remaining objects.
async fn try_delete(
    client: &Client,
    namespace: &str,
    served: &Served,
) -> kube::Result<Vec<PartialObjectMeta<DynamicObject>>> {
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &served.resource);
    let listing: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(client.clone(), namespace, &served.resource);
    let listed = listing.list(&ListParams::default()).await?.items;
    if listed.is_empty() {
        return Ok(listed);
    }
    let parameters = DeleteParams::background();
    let all_at_once = match served.can("deletecollection") {
        false => false,
        true => match objects.delete_collection(&parameters, &ListParams::default()).await {
            Ok(_) => true,
            Err(error) if status_of(&error).is_some_and(|s| matches!(s.code, 404 | 405)) => false,
            Err(error) => return Err(error),
        },
    };
    if !all_at_once {
        for object in &listed {
            match objects.delete(&object.name_any(), &parameters).await {
                Ok(_) => {}
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(listing.list(&ListParams::default()).await?.items)
}
