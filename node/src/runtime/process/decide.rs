//! What is done next with a pod's containers. Pure (upstream: pkg/kubelet/kuberuntime computePodActions, shouldContainerBeRestarted).

use std::time::Duration;

/// When containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    /// Whenever they end.
    Always,
    /// When they fail.
    OnFailure,
    /// Not.
    Never,
}

impl RestartPolicy {
    /// Of `spec.restartPolicy`.
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

/// How a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerProgress {
    /// It was never started.
    New,
    /// It runs, or is being started or killed.
    Busy,
    /// It ended with a code.
    Ended(i32),
}

/// A container of a pod: which list, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ContainerRef {
    /// Of `initContainers`.
    Init(usize),
    /// Of `containers`.
    Main(usize),
}

/// How a container of `initContainers` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitContainer {
    /// It does its work and ends.
    Once(ContainerProgress),
    /// It runs as long as the pod does (a sidecar).
    Sidecar {
        /// How it is.
        now: ContainerProgress,
        /// It has passed what asks whether it has started: the next one may begin.
        is_started: bool,
    },
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// These are started, when their back-off is over; with nothing in it, something runs.
    Start(Vec<ContainerRef>),
    /// The work is done, or cannot be done: nothing will be started. Sidecars that still run are to be ended.
    Done,
}

/// Decides for a pod.
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
    // Sidecars are started again whatever the policy of the pod says.
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

/// What is done before the containers; none when all is prepared. One follows the other.
fn prepare(policy: RestartPolicy, init: &[InitContainer]) -> Option<NextAction> {
    for (index, one) in init.iter().enumerate() {
        let start = Some(NextAction::Start(vec![ContainerRef::Init(index)]));
        match one {
            InitContainer::Once(ContainerProgress::New) => return start,
            InitContainer::Once(ContainerProgress::Busy) => return Some(NextAction::Start(Vec::new())),
            InitContainer::Once(ContainerProgress::Ended(0)) => {}
            // Init containers have done their work when they end well: Always means OnFailure.
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

/// How long a container waits that fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// Before the second start after a failure; the first is at once.
    pub first: Duration,
    /// It doubles up to this.
    pub max: Duration,
    /// A container that ran so long begins anew.
    pub reset: Duration,
}

impl Default for BackOff {
    /// Upstream's: 10 s up to 5 min, anew after 10 min.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(10),
            max: Duration::from_secs(300),
            reset: Duration::from_secs(600),
        }
    }
}

impl BackOff {
    /// The wait after the end of a run, when `ends` runs in a row ended before this one.
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
    fn what_is_next() {
        use ContainerProgress::{Busy, Ended, New};
        use ContainerRef::{Init, Main};
        use RestartPolicy::{Always, Never, OnFailure};
        let start = |all: &[ContainerRef]| NextAction::Start(all.to_vec());
        for (name, policy, init, main, want) in [
            ("all at once", Always, &[][..], &[New, New][..], start(&[Main(0), Main(1)])),
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
    fn what_is_next_with_sidecars() {
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
            ("others go on without it", Never, vec![slow, side(Ended(1))], &[Busy], start(&[I(1)])),
            ("the work is done", Never, vec![side(Busy)], &[Ended(0)], NextAction::Done),
            ("the work has failed", Never, vec![side(Ended(1))], &[Ended(1)], NextAction::Done),
            ("the work is done again", Always, vec![side(Busy)], &[Ended(0)], start(&[Main(0)])),
            ("what prepares has failed", Never, vec![side(Busy), once(Ended(1))], &[New], NextAction::Done),
        ] {
            assert_eq!(next(policy, &init, main), want, "{name}");
        }
    }

    #[test]
    fn back_off() {
        let rule = BackOff::default();
        let waits: Vec<u64> = (0..8).map(|n| rule.after(n).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(rule.after(u32::MAX), rule.max);
    }
}
