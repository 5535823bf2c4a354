//! Builds the API statuses of containers. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::launch_spec::RunRecord;

/// The known state of a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerView<'a> {
    /// UID of its pod.
    pub(super) uid: &'a str,
    /// It is an init container, done when it exits successfully.
    pub(super) is_init: bool,
    /// The pod has init containers.
    pub(super) has_init: bool,
    /// The last run, with its number.
    pub(super) run: Option<&'a (u32, RunRecord)>,
    /// The run before it.
    pub(super) before: Option<&'a (u32, RunRecord)>,
    /// Reason and message of the waiting state; `None` for the default.
    pub(super) waiting: Option<&'a (String, String)>,
    /// It has passed its startup probe.
    pub(super) is_started: bool,
    /// It has passed its readiness probe.
    pub(super) is_ready: bool,
}

/// The status of a container.
pub(super) fn status(container: &Container, seen: &ContainerView<'_>) -> ContainerStatus {
    let of_run = |(restart, attempt): &(u32, RunRecord)| state(seen.uid, &container.name, *restart, attempt);
    let run = seen.run.map(of_run);
    let is_running = run.as_ref().is_some_and(|state| state.running.is_some());
    let is_done = seen.run.and_then(|(_, attempt)| attempt.end.as_ref()).is_some_and(|end| end.code == 0);
    let before = seen.before.map(of_run);
    let (state, last) = match seen.waiting {
        Some((reason, message)) => (waiting(reason, message), run.or(before)),
        None => match run {
            Some(run) => (run, before),
            None => {
                (waiting(if seen.has_init { "PodInitializing" } else { "ContainerCreating" }, ""), before)
            }
        },
    };
    ContainerStatus {
        name: container.name.clone(),
        container_id: seen.run.map(|(restart, _)| id(seen.uid, &container.name, *restart)),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        ready: if seen.is_init { is_done } else { is_running && seen.is_ready },
        started: Some(is_running && (seen.is_init || seen.is_started)),
        restart_count: seen.run.map_or(0, |(restart, _)| i32::try_from(*restart).unwrap_or(i32::MAX)),
        state: Some(state),
        last_state: last.filter(|last| last.terminated.is_some()),
        ..Default::default()
    }
}

fn id(uid: &str, container: &str, restart: u32) -> String {
    format!("orlop://process/{uid}/{container}/{restart}")
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let message = Some(message.to_owned()).filter(|message| !message.is_empty());
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

fn state(uid: &str, container: &str, restart: u32, attempt: &RunRecord) -> ContainerState {
    let time = |at: Option<Timestamp>| at.map(Time);
    match (&attempt.end, attempt.started_at) {
        (Some(end), started) => ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(id(uid, container, restart)),
                exit_code: end.code,
                reason: Some(end.reason.clone()),
                message: Some(end.message.clone()).filter(|message| !message.is_empty()),
                started_at: time(started.or(Some(Timestamp::UNIX_EPOCH))),
                finished_at: time(Some(end.at)),
                signal: None,
            }),
            ..Default::default()
        },
        (None, Some(_)) => ContainerState {
            running: Some(ContainerStateRunning { started_at: time(attempt.started_at) }),
            ..Default::default()
        },
        (None, None) => waiting("ContainerCreating", ""),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::launch_spec::RunEnd;
    use super::super::process_id::ProcessId;
    use super::*;

    fn attempt(code: Option<i32>) -> RunRecord {
        let at = Timestamp::from_second(7).unwrap();
        RunRecord {
            supervisor: ProcessId { pid: 1, start: 1, boot: String::new() },
            main: None,
            cgroup: None,
            started_at: Some(at),
            end: code.map(|code| RunEnd { code, reason: "Error".into(), message: String::new(), at }),
        }
    }

    fn seen<'a>(
        run: Option<&'a (u32, RunRecord)>,
        waiting: Option<&'a (String, String)>,
    ) -> ContainerView<'a> {
        ContainerView {
            uid: "u",
            is_init: false,
            has_init: false,
            run,
            before: None,
            waiting,
            is_started: true,
            is_ready: true,
        }
    }

    #[test]
    fn container_status_reports_the_last_two_runs() {
        let container = Container { name: "c".into(), ..Default::default() };
        let fresh = status(&container, &seen(None, None));
        assert_eq!(fresh.state.unwrap().waiting.unwrap().reason.as_deref(), Some("ContainerCreating"));
        assert_eq!((fresh.ready, fresh.restart_count, fresh.container_id), (false, 0, None));

        let running = (3, attempt(None));
        let now = status(&container, &seen(Some(&running), None));
        assert!(now.state.unwrap().running.is_some() && now.ready && now.last_state.is_none());
        assert_eq!((now.restart_count, now.started), (3, Some(true)));
        let unready = ContainerView { is_ready: false, ..seen(Some(&running), None) };
        assert!(!status(&container, &unready).ready);

        let failed = (1, attempt(Some(3)));
        let back_off = ("CrashLoopBackOff".to_owned(), "back-off".to_owned());
        let now = status(&container, &seen(Some(&failed), Some(&back_off)));
        assert_eq!(now.state.unwrap().waiting.unwrap().reason.as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(now.last_state.unwrap().terminated.unwrap().exit_code, 3);
        let again = ContainerView { before: Some(&failed), ..seen(Some(&running), None) };
        assert_eq!(status(&container, &again).last_state.unwrap().terminated.unwrap().exit_code, 3);

        let done = (0, attempt(Some(0)));
        let init = ContainerView { is_init: true, ..seen(Some(&done), None) };
        assert!(status(&container, &init).ready);
    }
}
