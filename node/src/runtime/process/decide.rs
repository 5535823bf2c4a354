//! The next action for the containers of a pod. Pure (upstream: pkg/kubelet/kuberuntime computePodActions,
//! shouldContainerBeRestarted).

use std::time::Duration;

/// When containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    /// After every exit.
    Always,
    /// After a failure.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    /// Parses `spec.restartPolicy`.
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            Some(_) | None => Self::Always,
        }
    }

    fn again(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// The progress of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerProgress {
    /// It was never started.
    New,
    /// It runs, or is being started or killed.
    Busy,
    /// It exited with this code.
    Ended(i32),
}

/// A container of a pod, by list and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ContainerRef {
    /// In `initContainers`.
    Init(usize),
    /// In `containers`.
    Main(usize),
}

/// A container of `initContainers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitContainer {
    /// It runs to completion.
    Once(ContainerProgress),
    /// It runs as long as the pod does (a sidecar).
    Sidecar {
        /// Its progress.
        now: ContainerProgress,
        /// It has passed its startup probe: the next container may start.
        is_started: bool,
    },
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// Start these containers when their back-off has expired; an empty list while containers run.
    Start(Vec<ContainerRef>),
    /// The pod has completed or failed: no container is started. Running sidecars are stopped.
    Done,
}

/// The next action for a pod.
pub(super) fn next(policy: RestartPolicy, init: &[InitContainer], main: &[ContainerProgress]) -> NextAction {
    let is_prepared = main.iter().any(|now| *now != ContainerProgress::New);
    if !is_prepared && let Some(next) = prepare(policy, init) {
        return next;
    }
    let is_due = |now: &ContainerProgress| match now {
        ContainerProgress::New => true,
        ContainerProgress::Busy => false,
        ContainerProgress::Ended(code) => policy.again(*code),
    };
    let due: Vec<ContainerRef> = main
        .iter()
        .enumerate()
        .filter(|(_, now)| is_due(now))
        .map(|(index, _)| ContainerRef::Main(index))
        .collect();
    if due.is_empty() && !main.contains(&ContainerProgress::Busy) {
        return NextAction::Done;
    }
    // Sidecars are restarted regardless of the restart policy of the pod.
    let ended = |one: &InitContainer| {
        matches!(
            one,
            InitContainer::Sidecar { now: ContainerProgress::New | ContainerProgress::Ended(_), .. }
        )
    };
    let sidecars =
        init.iter().enumerate().filter(|(_, one)| ended(one)).map(|(index, _)| ContainerRef::Init(index));
    NextAction::Start(sidecars.chain(due).collect())
}

/// The next action before the main containers may start; `None` when all init containers are done. They run one
/// after another.
fn prepare(policy: RestartPolicy, init: &[InitContainer]) -> Option<NextAction> {
    for (index, one) in init.iter().enumerate() {
        let start = Some(NextAction::Start(vec![ContainerRef::Init(index)]));
        match one {
            InitContainer::Once(ContainerProgress::New) => return start,
            InitContainer::Once(ContainerProgress::Busy) => return Some(NextAction::Start(Vec::new())),
            InitContainer::Once(ContainerProgress::Ended(0)) => {}
            // An init container is done when it succeeds: for it, Always means OnFailure.
            InitContainer::Once(ContainerProgress::Ended(_)) if policy == RestartPolicy::Never => {
                return Some(NextAction::Done);
            }
            InitContainer::Once(ContainerProgress::Ended(_))
            | InitContainer::Sidecar { now: ContainerProgress::New | ContainerProgress::Ended(_), .. } => {
                return start;
            }
            InitContainer::Sidecar { now: ContainerProgress::Busy, is_started: false } => {
                return Some(NextAction::Start(Vec::new()));
            }
            InitContainer::Sidecar { now: ContainerProgress::Busy, is_started: true } => {}
        }
    }
    None
}

/// The restart back-off of failing containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// The delay before the second restart; the first restart has none.
    pub first: Duration,
    /// The delay doubles up to this maximum.
    pub max: Duration,
    /// A container that ran this long starts with no delay again.
    pub reset: Duration,
}

impl Default for BackOff {
    /// Upstream's values: 10 s up to 5 min, reset after 10 min.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(10),
            max: Duration::from_secs(300),
            reset: Duration::from_secs(600),
        }
    }
}

impl BackOff {
    /// The delay after the end of a run, when `ends` consecutive runs ended before it.
    pub(super) fn after(&self, ends: u32) -> Duration {
        match ends.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
                self.first.saturating_mul(factor).min(self.max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_action_follows_the_restart_policy() {
        use ContainerProgress::{Busy, Ended, New};
        use ContainerRef::{Init, Main};
        use RestartPolicy::{Always, Never, OnFailure};
        let start = |all: &[ContainerRef]| NextAction::Start(all.to_vec());
        for (name, policy, init, main, want) in [
            ("all in parallel", Always, &[][..], &[New, New][..], start(&[Main(0), Main(1)])),
            ("init first", Always, &[New, New], &[New], start(&[Init(0)])),
            ("init runs", Always, &[Busy, New], &[New], start(&[])),
            ("next init", Always, &[Ended(0), New], &[New], start(&[Init(1)])),
            ("init done", Never, &[Ended(0), Ended(0)], &[New], start(&[Main(0)])),
            ("init failed, again", Always, &[Ended(1)], &[New], start(&[Init(0)])),
            ("init failed, again", OnFailure, &[Ended(1)], &[New], start(&[Init(0)])),
            ("init failed for good", Never, &[Ended(1)], &[New], NextAction::Done),
            ("init is not repeated", Always, &[Ended(1)], &[Ended(0)], start(&[Main(0)])),
            ("one runs", Never, &[], &[Busy, Ended(1)], start(&[])),
            ("always", Always, &[], &[Busy, Ended(0)], start(&[Main(1)])),
            ("on failure", OnFailure, &[], &[Ended(0), Ended(7)], start(&[Main(1)])),
            ("on failure, none", OnFailure, &[], &[Ended(0), Ended(0)], NextAction::Done),
            ("never", Never, &[], &[Ended(0), Ended(7)], NextAction::Done),
            ("nothing to run", Always, &[], &[], NextAction::Done),
        ] {
            let init: Vec<super::InitContainer> =
                init.iter().copied().map(super::InitContainer::Once).collect();
            assert_eq!(next(policy, &init, main), want, "{name}");
        }
    }

    #[test]
    fn next_action_with_sidecars() {
        use ContainerProgress::{Busy, Ended, New};
        use ContainerRef::{Init as I, Main};
        use RestartPolicy::{Always, Never};
        let once = super::InitContainer::Once;
        let side = |now| super::InitContainer::Sidecar { now, is_started: true };
        let slow = super::InitContainer::Sidecar { now: Busy, is_started: false };
        let start = |all: &[ContainerRef]| NextAction::Start(all.to_vec());
        for (name, policy, init, main, want) in [
            ("the first alone", Never, vec![side(New), once(New)], &[New][..], start(&[I(0)])),
            ("it has not started", Never, vec![slow, once(New)], &[New], start(&[])),
            ("it has", Never, vec![side(Busy), once(New)], &[New], start(&[I(1)])),
            ("the work waits for it", Never, vec![side(Busy), slow], &[New], start(&[])),
            ("all are there", Never, vec![side(Busy), once(Ended(0))], &[New], start(&[Main(0)])),
            ("it ended before the work", Never, vec![side(Ended(1)), once(Busy)], &[New], start(&[I(0)])),
            ("it ended well in the work", Never, vec![side(Ended(0))], &[Busy], start(&[I(0)])),
            (
                "it ended badly in the work",
                Always,
                vec![side(Ended(3))],
                &[Ended(1)],
                start(&[I(0), Main(0)]),
            ),
            ("the others continue without it", Never, vec![slow, side(Ended(1))], &[Busy], start(&[I(1)])),
            ("the work is done", Never, vec![side(Busy)], &[Ended(0)], NextAction::Done),
            ("the work has failed", Never, vec![side(Ended(1))], &[Ended(1)], NextAction::Done),
            ("the work is done again", Always, vec![side(Busy)], &[Ended(0)], start(&[Main(0)])),
            ("what prepares has failed", Never, vec![side(Busy), once(Ended(1))], &[New], NextAction::Done),
        ] {
            assert_eq!(next(policy, &init, main), want, "{name}");
        }
    }

    #[test]
    fn back_off_doubles_up_to_its_maximum() {
        let rule = BackOff::default();
        let waits: Vec<u64> = (0..8).map(|n| rule.after(n).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(rule.after(u32::MAX), rule.max);
    }
}
