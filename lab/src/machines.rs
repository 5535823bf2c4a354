//! Runs the nodes of a lab. The ConfigMap `default/lab` controls the nodes and the driver:
//!
//! | key | value | acknowledged in |
//! |---|---|---|
//! | `silent` | names of nodes that send no heartbeats, separated by commas | `silent.heard` |
//! | `faults` | faults of the driver (`orlop csi-hostpath --faults`) | `faults.heard` |
//!
//! The acknowledgement is a copy of the value, written when the value has taken effect.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use orlop_apiserver::ApiService;
use orlop_apiserver::authentication::in_process;
use orlop_auth::UserInfo;
use orlop_client::api::Api as KubeApi;
use orlop_client::client::{self, Lines};
use orlop_client::informer::Informer;
use orlop_client::watcher::Selection;
use orlop_node::agent::{Agent, Inputs};
use orlop_node::config::NodeConfig;
use serde_json::{Map, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, ApiError, LAB};

/// The data of the ConfigMap.
type Data = BTreeMap<String, String>;

/// Delay before an acknowledgement is written again after an error.
const AGAIN: Duration = Duration::from_millis(500);

/// The nodes, running or silent.
pub(crate) struct Machines {
    pub(crate) service: ApiService,
    pub(crate) configs: Vec<NodeConfig>,
    /// The fault script of the driver.
    pub(crate) faults: PathBuf,
    pub(crate) client: Client,
}

/// The keys whose value is not acknowledged yet, with the value.
fn unanswered(data: &Data) -> Vec<(&'static str, &str)> {
    let of = |key: &str| data.get(key).map(String::as_str);
    let keys = ["silent", "faults"].into_iter();
    keys.filter_map(|key| Some((key, of(key)?)))
        .filter(|(key, asked)| of(&format!("{key}.heard")) != Some(*asked))
        .collect()
}

fn names(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Replaces the file atomically, so that the driver never reads a partial script.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)
}

impl Machines {
    /// Runs the nodes until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let (sender, mut data) = watch::channel(Data::new());
        let followed = Informer::<ConfigMap>::new();
        let _registration = followed.add_handler(move |change| {
            if let Some(object) = &change.new {
                sender.send_replace(object.data.clone().unwrap_or_default());
            }
        });
        let api = KubeApi::<ConfigMap>::namespaced(self.client.clone(), "default");
        let only = Selection::fields("metadata.name=lab");
        let until = stop.clone();
        let following = tokio::spawn(async move { followed.run_selected(api, only, until).await });
        let mut running: BTreeMap<String, (CancellationToken, Agent)> = BTreeMap::new();
        while !stop.is_cancelled() {
            let asked = data.borrow_and_update().clone();
            let silent = asked.get("silent").map(|list| names(list)).unwrap_or_default();
            self.bring(&silent, &mut running).await;
            let heard = self.answer(&asked).await;
            tokio::select! {
                () = stop.cancelled() => {}
                changed = data.changed(), if heard => if changed.is_err() { break },
                () = tokio::time::sleep(AGAIN), if !heard => {}
            }
        }
        for (end, _) in running.values() {
            end.cancel();
        }
        for (name, (_, agent)) in running {
            end_of(&name, agent).await;
        }
        // The task ends with `stop`.
        let _ = following.await;
    }

    /// Stops the agents of silent nodes and starts the others.
    async fn bring(
        &self,
        silent: &BTreeSet<&str>,
        running: &mut BTreeMap<String, (CancellationToken, Agent)>,
    ) {
        for config in &self.configs {
            let name = config.name.as_str();
            match (silent.contains(name), running.remove(name)) {
                (true, Some((end, agent))) => {
                    end.cancel();
                    end_of(name, agent).await;
                }
                (false, Some(agent)) => {
                    running.insert(name.to_owned(), agent);
                }
                (false, None) => {
                    let local = client::in_process(in_process(self.service.clone(), UserInfo::node(name)));
                    let lines = Lines::default();
                    let inputs = Inputs { config: config.clone(), client: local, lines, server: None };
                    let end = CancellationToken::new();
                    match Agent::start(inputs, end.clone()).await {
                        Ok(agent) => {
                            running.insert(name.to_owned(), (end, agent));
                        }
                        Err(error) => tracing::error!("node {name} cannot start: {error}"),
                    }
                }
                (true, None) => {}
            }
        }
    }

    /// Applies the remaining values and acknowledges them. Returns whether the acknowledgement was written.
    async fn answer(&self, data: &Data) -> bool {
        let mut answers = Map::new();
        for (key, asked) in unanswered(data) {
            if key == "faults"
                && let Err(error) = replace(&self.faults, asked)
            {
                tracing::error!(
                    "the driver's file of faults {} cannot be written: {error}",
                    self.faults.display()
                );
                continue;
            }
            answers.insert(format!("{key}.heard"), json!(asked));
        }
        if answers.is_empty() {
            return true;
        }
        let written: Result<_, ApiError> =
            Api::new(self.client.clone()).patch(LAB, &json!({"data": answers})).await;
        if let Err(error) = &written {
            tracing::warn!("{error}");
        }
        written.is_ok()
    }
}

async fn end_of(name: &str, agent: Agent) {
    if agent.ended().await.is_err() {
        tracing::error!("node {name} panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unacknowledged_keys_are_found() {
        let data = |pairs: &[(&str, &str)]| -> Data {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        for (pairs, want) in [
            (vec![], vec![]),
            (vec![("silent", "a")], vec![("silent", "a")]),
            (vec![("silent", "a"), ("silent.heard", "a")], vec![]),
            (
                vec![("silent", ""), ("silent.heard", "a"), ("faults", "[]")],
                vec![("silent", ""), ("faults", "[]")],
            ),
            (vec![("other", "x")], vec![]),
        ] {
            assert_eq!(unanswered(&data(&pairs)), want, "{pairs:?}");
        }
        assert_eq!(names(" a, b ,,"), BTreeSet::from(["a", "b"]));
    }
}
