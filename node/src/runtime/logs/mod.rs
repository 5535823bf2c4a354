//! Container logs: the query, the reader, and the server that the API server calls.
//! [`process::log`](super::process) defines the format on disk; this module is independent of the runtime.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::ContainerStatus;
use tokio::sync::watch;

use super::PodState;

mod identity;
mod query;
mod reader;
mod server;
#[cfg(test)]
mod testing;

pub use query::LogQuery;
pub use server::{AUDIENCE_PREFIX, LogConfig, LogServer, LogServerError, SERVER_USER};

/// The location of the log of one container run.
#[derive(Clone, Debug)]
pub struct LogPlace {
    /// The directory of the container's logs.
    pub dir: PathBuf,
    /// The number of the run.
    pub restart: u32,
    /// The name of the container.
    pub container: String,
    /// The state of the pod; a log is followed until the container has exited.
    pub state: watch::Receiver<PodState>,
}

impl LogPlace {
    /// Whether the container may still write to the log.
    fn is_open(&self, state: &PodState) -> bool {
        let status = of_name(state, &self.container);
        let is_this = |status: &ContainerStatus| u32::try_from(status.restart_count) == Ok(self.restart);
        let runs =
            |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
        status.is_some_and(|status| is_this(status) && runs(status))
    }
}

/// The status of a container.
pub(super) fn of_name<'a>(state: &'a PodState, name: &str) -> Option<&'a ContainerStatus> {
    state.containers.iter().chain(&state.init).find(|status| status.name == name)
}

/// No log can be read; the messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The pod is not on this node.
    #[error("pod {0:?} does not exist\n")]
    NoPod(String),
    /// The pod has no such container.
    #[error("container {container:?} not found in pod {pod:?}\n")]
    NoContainer {
        /// The container.
        container: String,
        /// The pod.
        pod: String,
    },
    /// The container has no log yet.
    #[error("{0}")]
    NotYet(String),
}

/// The run that a query selects (upstream: Kubelet.validateContainerLogStatus).
pub(super) fn run_of(status: &ContainerStatus, pod: &str, previous: bool) -> Result<u32, LogError> {
    let name = &status.name;
    let count = u32::try_from(status.restart_count).unwrap_or_default();
    let state = status.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let has_last = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    if previous {
        return match (has_last, waiting.is_some()) {
            // While the container waits for its next run, the last run is the previous one.
            (true, true) => Ok(count),
            (true, false) => Ok(count.saturating_sub(1)),
            (false, _) => Err(LogError::NotYet(format!(
                "previous terminated container {name:?} in pod {pod:?} not found"
            ))),
        };
    }
    match waiting {
        Some(_) if has_last => Ok(count),
        Some(waiting) => {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            Err(LogError::NotYet(format!("container {name:?} in pod {pod:?} is waiting to start: {reason}")))
        }
        None => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn current_or_previous_run_is_selected() {
        let missing = |text: &str| Err(LogError::NotYet(text.to_owned()));
        let none = "previous terminated container \"c\" in pod \"p\" not found";
        for (name, state, last, count, previous, want) in [
            ("runs", json!({"running": {}}), json!({}), 0, false, Ok(0)),
            ("has ended", json!({"terminated": {"exitCode": 0}}), json!({}), 2, false, Ok(2)),
            (
                "the one before",
                json!({"running": {}}),
                json!({"terminated": {"exitCode": 1}}),
                2,
                true,
                Ok(1),
            ),
            ("none before", json!({"running": {}}), json!({}), 0, true, missing(none)),
            (
                "is made",
                json!({"waiting": {"reason": "ContainerCreating"}}),
                json!({}),
                0,
                false,
                missing("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            ("waits", json!({"waiting": {}}), json!({"terminated": {"exitCode": 1}}), 4, false, Ok(4)),
            ("waits, before", json!({"waiting": {}}), json!({"terminated": {"exitCode": 1}}), 4, true, Ok(4)),
        ] {
            let (state, last): (Value, Value) = (state, last);
            let status = json!({
                "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": count, "state": state, "lastState": last,
            });
            let status: ContainerStatus = serde_json::from_value(status).unwrap();
            assert_eq!(run_of(&status, "p", previous), want, "{name}");
        }
    }
}
