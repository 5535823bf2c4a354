//! The resources of group versions, as discovered from the server. The controllers of many pods are of the same few kinds, so each
//! answer is used for 30 s, unless it lacks the kind: the definition of the kind may be new.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use orlop_client::client::is_not_found;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer is used.
const VALIDITY: Duration = Duration::from_secs(30);
/// The maximum number of group versions with an answer. Pods can name any number of them.
const MAX_ANSWERS: usize = 100;

/// Discovers resources.
pub(super) struct Discovery {
    client: Client,
    answers: Mutex<HashMap<String, (Instant, Arc<APIResourceList>)>>,
}

impl Discovery {
    pub(super) fn new(client: Client) -> Self {
        Self { client, answers: Mutex::default() }
    }

    /// The resources of a group version, among them those of a kind, if it exists; `None` if the server does not serve the group
    /// version.
    pub(super) async fn resources(
        &self,
        group_version: &str,
        kind: &str,
    ) -> kube::Result<Option<Arc<APIResourceList>>> {
        let known = self.answers.lock().get(group_version).cloned();
        let has_kind = |list: &APIResourceList| list.resources.iter().any(|resource| resource.kind == kind);
        if let Some((_, list)) = known.filter(|(at, list)| at.elapsed() < VALIDITY && has_kind(list)) {
            return Ok(Some(list));
        }
        let list = match group_version.contains('/') {
            true => self.client.list_api_group_resources(group_version).await,
            false => self.client.list_core_api_resources(group_version).await,
        };
        let list = match list {
            Ok(list) => Arc::new(list),
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut answers = self.answers.lock();
        answers.retain(|_, (at, _)| at.elapsed() < VALIDITY);
        if answers.len() < MAX_ANSWERS || answers.contains_key(group_version) {
            answers.insert(group_version.to_owned(), (Instant::now(), Arc::clone(&list)));
        }
        Ok(Some(list))
    }
}
