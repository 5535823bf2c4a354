//! Unit tests of the decision.

use std::time::Duration;

use tokio::time::Instant;

use crate::attach::attachment::{There, View};
use crate::attach::operation::{Failure, FailureCause, OperationKind, Operations, Phase};
use crate::attach::reconcile::{Decision, Facts, Failed, Force, Holder, Presence, Running, decide, holds};
use crate::attach::volume::Key;

const SIX_MINUTES: Duration = Duration::from_secs(360);

/// Not wanted, not attached, and the node is healthy.
fn nothing(now: Instant) -> Facts {
    Facts {
        wanted: false,
        presence: Presence::Absent,
        running: Running::Nothing,
        failure: None,
        holder: Holder::None,
        view: View::Absent,
        verified: true,
        in_use: false,
        healthy: true,
        out_of_service: false,
        unwanted_since: None,
        force_after: Some(SIX_MINUTES),
        now,
    }
}

fn there() -> There {
    There { attached: true, ..There::default() }
}

/// Attached, and unwanted for `seconds`.
fn leftover(now: Instant, seconds: u64) -> Facts {
    let since = now.checked_sub(Duration::from_secs(seconds)).unwrap();
    Facts {
        presence: Presence::Confirmed,
        view: View::There(there()),
        unwanted_since: Some(since),
        ..nothing(now)
    }
}

fn failed(kind: OperationKind, cause: FailureCause, now: Instant) -> Failure {
    let (key, mut operations) = (Key::new("v", "n"), Operations::default());
    operations.delay(&key, kind, cause, now);
    *operations.failure(&key).unwrap()
}

fn waiting(kind: OperationKind, deadline: Instant) -> Running {
    Running::Here { kind, phase: Phase::Waiting, deadline, seen: false, gone: false }
}

fn seen(kind: OperationKind, deadline: Instant) -> Running {
    Running::Here { kind, phase: Phase::Waiting, deadline, seen: true, gone: false }
}

fn gone(kind: OperationKind, deadline: Instant) -> Running {
    Running::Here { kind, phase: Phase::Waiting, deadline, seen: true, gone: true }
}

#[tokio::test(start_paused = true)]
async fn decision_for_every_state() {
    // Far enough from the clock's beginning for times of before.
    tokio::time::advance(Duration::from_secs(10_000)).await;
    let now = Instant::now();
    let later = now + Duration::from_secs(60);
    let short = now + Duration::from_millis(500);
    let base = || nothing(now);
    let wanted = || Facts { wanted: true, ..nothing(now) };
    let away = |seconds| Facts { healthy: false, in_use: true, ..leftover(now, seconds) };
    let error = |text: &str| There { attach_error: Some(text.into()), ..There::default() };
    let table = [
        ("AD-002 nothing wanted, nothing there", base(), Decision::Rest),
        ("AD-004 wanted", wanted(), Decision::Attach),
        (
            "AD-081 wanted and there, the node gone",
            Facts { healthy: false, presence: Presence::Confirmed, view: View::There(there()), ..wanted() },
            Decision::Keep,
        ),
        ("AD-097 taken away", Facts { presence: Presence::Confirmed, ..wanted() }, Decision::Lost),
        (
            "AD-098 not attached any more",
            Facts { presence: Presence::Confirmed, view: View::There(There::default()), ..wanted() },
            Decision::Lost,
        ),
        (
            "AD-099 not verified",
            Facts { presence: Presence::Confirmed, verified: false, ..wanted() },
            Decision::Keep,
        ),
        (
            "AD-013 nothing to verify",
            Facts { presence: Presence::Confirmed, view: View::NotNeeded, ..wanted() },
            Decision::Keep,
        ),
        (
            "AD-091 left by another controller",
            Facts { presence: Presence::Uncertain, view: View::There(there()), ..wanted() },
            Decision::Attach,
        ),
        ("AD-043 another node has it", Facts { holder: Holder::Stays, ..wanted() }, Decision::Refuse),
        (
            "AD-040 another node can let it go",
            Facts { holder: Holder::CanDetach, ..wanted() },
            Decision::HolderFirst,
        ),
        (
            "NEW-AD-BUSY another node is busy with it",
            Facts { running: Running::Elsewhere, ..wanted() },
            Decision::Rest,
        ),
        (
            "after a failure",
            Facts { failure: Some(failed(OperationKind::Attach, FailureCause::Attacher, now)), ..wanted() },
            Decision::WaitUntil(short),
        ),
        (
            "after a failed detach",
            Facts { failure: Some(failed(OperationKind::Detach, FailureCause::Attacher, now)), ..wanted() },
            Decision::Attach,
        ),
        (
            "AD-057 the attacher was faster",
            Facts {
                failure: Some(failed(OperationKind::Attach, FailureCause::Attacher, now)),
                presence: Presence::Uncertain,
                view: View::There(there()),
                ..wanted()
            },
            Decision::Attach,
        ),
        (
            "NEW-AD-LEAVING the obstacle is removed",
            Facts {
                failure: Some(failed(OperationKind::Attach, FailureCause::Leaving, now)),
                presence: Presence::Uncertain,
                ..wanted()
            },
            Decision::Attach,
        ),
        ("AD-031 not wanted, not in use", leftover(now, 0), Decision::Detach { force: None }),
        (
            "AD-038 in use",
            Facts { in_use: true, ..leftover(now, 9999) },
            Decision::WaitForNode { deadline: None },
        ),
        (
            "AD-075 in use, the node not ready",
            away(100),
            Decision::WaitForNode { deadline: Some(now + Duration::from_secs(260)) },
        ),
        (
            "AD-067 the node not ready, its time is over",
            away(360),
            Decision::Detach { force: Some(Force::Timeout) },
        ),
        ("NEW-AD-NEVER", Facts { force_after: None, ..away(9999) }, Decision::WaitForNode { deadline: None }),
        (
            "AD-069 the node not ready, not in use",
            Facts { in_use: false, ..away(0) },
            Decision::Detach { force: None },
        ),
        (
            "AD-071 tainted and ready",
            Facts { in_use: true, out_of_service: true, ..leftover(now, 0) },
            Decision::Detach { force: Some(Force::OutOfService) },
        ),
        (
            "a detach failed",
            Facts {
                failure: Some(failed(OperationKind::Detach, FailureCause::Attacher, now)),
                ..leftover(now, 0)
            },
            Decision::WaitUntil(short),
        ),
        (
            "a detach failed, and its attachment is gone now",
            Facts {
                failure: Some(failed(OperationKind::Detach, FailureCause::Attacher, now)),
                view: View::Absent,
                presence: Presence::Uncertain,
                ..leftover(now, 0)
            },
            Decision::Detach { force: None },
        ),
        (
            "AD-092 the attacher works",
            Facts {
                running: waiting(OperationKind::Attach, later),
                view: View::There(There::default()),
                ..wanted()
            },
            Decision::WaitUntil(later),
        ),
        (
            "the attacher is done",
            Facts { running: waiting(OperationKind::Attach, later), view: View::There(there()), ..wanted() },
            Decision::Succeeded,
        ),
        (
            "AD-056 the attacher failed",
            Facts {
                running: waiting(OperationKind::Attach, later),
                view: View::There(error("no")),
                ..wanted()
            },
            Decision::Failed(Failed::Answer("no".into())),
        ),
        (
            "it is on its way out",
            Facts {
                running: waiting(OperationKind::Attach, later),
                view: View::There(There { leaving: true, ..there() }),
                ..wanted()
            },
            Decision::Failed(Failed::Leaving),
        ),
        (
            "the cache does not know it yet",
            Facts { running: waiting(OperationKind::Attach, later), ..wanted() },
            Decision::WaitUntil(later),
        ),
        (
            "NEW-AD-TAKEN-AWAY",
            Facts { running: seen(OperationKind::Attach, later), ..wanted() },
            Decision::Failed(Failed::TakenAway),
        ),
        (
            "NEW-AD-GIVEN-UP",
            Facts {
                running: waiting(OperationKind::Attach, later),
                view: View::There(There::default()),
                ..base()
            },
            Decision::Failed(Failed::GivenUp),
        ),
        (
            "no attacher answers",
            Facts {
                running: waiting(OperationKind::Attach, now),
                view: View::There(There::default()),
                ..wanted()
            },
            Decision::Failed(Failed::Timeout),
        ),
        (
            "AD-096 the detach is waited for",
            Facts {
                running: seen(OperationKind::Detach, later),
                view: View::There(There { leaving: true, ..there() }),
                ..base()
            },
            Decision::WaitUntil(later),
        ),
        ("detached", Facts { running: seen(OperationKind::Detach, later), ..base() }, Decision::Succeeded),
        (
            "detached, and another one has its name",
            Facts {
                running: gone(OperationKind::Detach, later),
                view: View::There(There::default()),
                ..base()
            },
            Decision::Succeeded,
        ),
        (
            "deleted, and never seen",
            Facts { running: waiting(OperationKind::Detach, later), ..base() },
            Decision::WaitUntil(later),
        ),
        (
            "AD-064 the detach failed",
            Facts {
                running: seen(OperationKind::Detach, later),
                view: View::There(There { leaving: true, detach_error: Some("no".into()), ..there() }),
                ..base()
            },
            Decision::Failed(Failed::Answer("no".into())),
        ),
    ];
    for (name, facts, wanted) in table {
        assert_eq!(decide(&facts), wanted, "{name}: {facts:?}");
    }
}

#[test]
fn attachments_that_block_other_nodes() {
    use Presence::{Absent, Confirmed, Uncertain};
    let view = |attached, leaving, attach_error: bool, detach_error: bool| {
        let text = |set: bool| set.then(|| "no".to_owned());
        View::There(There {
            attached,
            leaving,
            attach_error: text(attach_error),
            detach_error: text(detach_error),
        })
    };
    let table = [
        ("nothing is there", Absent, view(true, false, false, false), false),
        ("attached", Confirmed, view(true, false, false, false), true),
        ("attached by what its node lists", Confirmed, View::Absent, true),
        ("perhaps, and nothing says so", Uncertain, View::Absent, false),
        ("asked for, and not seen", Presence::Asked, View::Absent, true),
        ("asked for, and could not be attached", Presence::Asked, view(false, false, true, false), false),
        ("attached, and left by another controller", Uncertain, view(true, false, false, false), true),
        ("NEW-AD-UNANSWERED", Uncertain, view(false, false, false, false), true),
        ("AD-055 could not be attached", Uncertain, view(false, false, true, false), false),
        ("AD-064 could not be detached", Uncertain, view(true, true, false, true), false),
        ("is being detached", Uncertain, view(true, true, false, false), true),
        ("could not be attached and is being detached", Uncertain, view(false, true, true, false), true),
    ];
    for (name, presence, view, wanted) in table {
        assert_eq!(holds(presence, &view, false), wanted, "{name}");
        // Use by the node matters only if a failed attach would otherwise permit other nodes.
        let failed = matches!(&view, View::There(t) if !t.leaving && !t.attached && t.attach_error.is_some());
        assert_eq!(holds(presence, &view, true), wanted || failed, "{name}, in use");
    }
}

#[tokio::test(start_paused = true)]
async fn delays_double_for_each_kind_separately() {
    let (key, mut operations) = (Key::new("v", "n"), Operations::default());
    let now = Instant::now();
    let mut delays = Vec::new();
    for _ in 0..10 {
        operations.begin(&key, OperationKind::Attach, None, Vec::new(), now);
        operations.fail(&key, FailureCause::Attacher, now).unwrap();
        delays.push((operations.failure(&key).unwrap().until - now).as_millis());
    }
    assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
    operations.begin(&key, OperationKind::Detach, None, Vec::new(), now);
    assert_eq!(operations.failure(&key), None, "another kind forgets it");
    assert!(operations.elsewhere(&Key::new("v", "other")) && !operations.elsewhere(&key));
}
