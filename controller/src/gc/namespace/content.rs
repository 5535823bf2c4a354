//! Deletion of all content of a namespace: pods first, all other resources once no pod is left.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, ListParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Client, ResourceExt};
use orlop_client::api::Api;

use crate::gc::discovery::{Served, discover};
use orlop_client::client::{is_not_found, message_of, status_of};

/// Objects per page.
const PAGE: u32 = 500;
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
    let discovery_failures = found.failures.into_iter().map(|failure| failure.text).collect();
    let mut outcome = Outcome { discovery_failures, ..Outcome::default() };
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
        Ok(left) if left.count == 0 => {}
        Ok(left) => outcome.note(name, left),
        Err(error) => outcome.content_failures.push(format!("{name}: {}", message_of(&error))),
    }
}

impl Outcome {
    fn note(&mut self, resource: String, left: Left) {
        let held = !left.finalizers.is_empty();
        for (finalizer, count) in left.finalizers {
            count_finalizer(&mut self.finalizers, &finalizer, count);
        }
        // A terminating pod may use its whole grace period.
        let grace = u64::try_from(left.grace).unwrap_or(0);
        let seconds = if grace == 0 && held { FINALIZER_ESTIMATE } else { grace };
        if seconds == 0 {
            self.content_failures.push(format!("unexpected items still remain in namespace: {resource}"));
        }
        self.seconds = self.seconds.max(seconds);
        self.remaining.insert(resource, left.count);
    }
}

type ObjectMetadata = PartialObjectMeta<DynamicObject>;

/// The remaining objects of one resource. They are only counted: a namespace may contain any number of objects.
#[derive(Debug, Default)]
struct Left {
    count: usize,
    finalizers: BTreeMap<String, usize>,
    /// The longest grace period in seconds.
    grace: i64,
}

/// Different finalizers that a namespace's condition lists. Each object may have any number of them.
const MAX_FINALIZERS: usize = 100;

fn count_finalizer(finalizers: &mut BTreeMap<String, usize>, name: &str, count: usize) {
    if finalizers.len() < MAX_FINALIZERS || finalizers.contains_key(name) {
        *finalizers.entry(name.to_owned()).or_default() += count;
    }
}

impl Left {
    fn add(&mut self, object: &ObjectMetadata) {
        self.count += 1;
        for finalizer in object.finalizers() {
            count_finalizer(&mut self.finalizers, finalizer, 1);
        }
        self.grace = self.grace.max(object.metadata.deletion_grace_period_seconds.unwrap_or(0));
    }
}

/// One page of a list; `token` continues an earlier one. Returns the token of the next page, if there is one.
async fn page(
    api: &Api<ObjectMetadata>,
    token: Option<&str>,
) -> kube::Result<(Vec<ObjectMetadata>, Option<String>)> {
    let parameters = ListParams::default().limit(PAGE);
    let parameters = token.map_or(parameters.clone(), |token| parameters.continue_token(token));
    let list = api.list(&parameters).await?;
    Ok((list.items, list.metadata.continue_.filter(|token| !token.is_empty())))
}

/// Deletes the collection, or its objects one by one if the resource does not support `deletecollection`, and
/// counts the remaining objects.
async fn try_delete(client: &Client, namespace: &str, served: &Served) -> kube::Result<Left> {
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &served.resource);
    let listing: Api<ObjectMetadata> = Api::namespaced_with(client.clone(), namespace, &served.resource);
    let (mut listed, mut next) = page(&listing, None).await?;
    let mut left = Left::default();
    if listed.is_empty() {
        return Ok(left);
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
        loop {
            for object in &listed {
                match objects.delete(&object.name_any(), &parameters).await {
                    Ok(_) => {}
                    Err(error) if is_not_found(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            let Some(token) = next else { break };
            (listed, next) = page(&listing, Some(&token)).await?;
        }
    }
    drop(listed);
    let mut next = None;
    loop {
        let (listed, token) = page(&listing, next.as_deref()).await?;
        listed.iter().for_each(|object| left.add(object));
        next = token;
        if next.is_none() {
            return Ok(left);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use http::Method;
    use kube::client::Body;
    use kube::core::ApiResource;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// One page of three; each object has a finalizer and a grace period.
    fn answer(request: &http::Request<Body>) -> Value {
        let query = request.uri().query().unwrap_or_default();
        let number = ["continue=1", "continue=2"].iter().position(|token| query.contains(token));
        let number = number.map_or(0, |at| at + 1);
        let object = |name: &str| {
            json!({"metadata": {"namespace": "ns", "name": format!("{name}{number}"), "deletionGracePeriodSeconds": number,
                "finalizers": ["example.test/hold"]}})
        };
        let next = if number < 2 { (number + 1).to_string() } else { String::new() };
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"continue": next}, "items": [object("a"), object("b")]})
    }

    #[test]
    fn number_of_listed_finalizers_is_limited() {
        let mut finalizers = BTreeMap::new();
        for round in 0..2 {
            for number in 0..10_000 {
                count_finalizer(&mut finalizers, &format!("example.test/{number}"), 1);
            }
            assert_eq!((finalizers.len(), finalizers["example.test/0"]), (MAX_FINALIZERS, round + 1));
        }
    }

    #[tokio::test]
    async fn remaining_objects_are_counted_page_by_page() {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = Arc::clone(&seen);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            notes.lock().push(format!("{} {}", request.method(), request.uri()));
            let body = match *request.method() {
                Method::GET => answer(&request),
                _ => json!({"kind": "Status", "status": "Success"}),
            };
            async move { Ok::<_, tower::BoxError>(http::Response::new(Body::from(body.to_string().into_bytes()))) }
        });
        let client = Client::new(service, "default");
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let served =
            Served { resource, namespaced: true, verbs: vec!["delete".to_owned(), "list".to_owned()] };
        let left = try_delete(&client, "ns", &served).await.unwrap();
        assert_eq!((left.count, left.grace), (6, 2));
        assert_eq!(left.finalizers, BTreeMap::from([("example.test/hold".to_owned(), 6)]));
        let seen = seen.lock();
        let of = |method: &str| seen.iter().filter(|request| request.starts_with(method)).count();
        assert_eq!((of("DELETE"), of("GET")), (6, 6), "{seen:?}");
        assert!(
            seen.iter().filter(|request| request.starts_with("GET")).all(|one| one.contains("limit=500"))
        );
    }
}
