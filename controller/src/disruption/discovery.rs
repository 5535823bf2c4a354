//! The resources of group versions, as discovered from the server. The controllers of many pods are of the same few kinds, so each
//! answer is used for 30 s.

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

/// The resources of a group version; `None` if the server does not serve it.
pub(super) type Served = Option<Arc<APIResourceList>>;

/// Discovers resources.
pub(super) struct Discovery {
    client: Client,
    answers: Mutex<HashMap<String, (Instant, Served)>>,
}

impl Discovery {
    pub(super) fn new(client: Client) -> Self {
        Self { client, answers: Mutex::default() }
    }

    /// The resources of a group version.
    pub(super) async fn resources(&self, group_version: &str) -> kube::Result<Served> {
        let known = self.answers.lock().get(group_version).cloned();
        if let Some((_, served)) = known.filter(|(at, _)| at.elapsed() < VALIDITY) {
            return Ok(served);
        }
        let list = match group_version.contains('/') {
            true => self.client.list_api_group_resources(group_version).await,
            false => self.client.list_core_api_resources(group_version).await,
        };
        let served = match list {
            Ok(list) => Some(Arc::new(list)),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error),
        };
        let mut answers = self.answers.lock();
        answers.retain(|_, (at, _)| at.elapsed() < VALIDITY);
        if answers.len() < MAX_ANSWERS {
            answers.insert(group_version.to_owned(), (Instant::now(), served.clone()));
        }
        Ok(served)
    }
}
