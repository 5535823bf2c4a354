//! Decides the next action for one volume on one node. Pure: [`Facts`] contains all input.
//!
//! Detach before attach (I7): a volume that only one node may use is not attached while it is or may be attached to another node,
//! and an operation on one node ends before another node's begins.

use std::time::Duration;

use tokio::time::Instant;

use super::attachment::View;
use super::operation::{Failure, FailureCause, OperationKind, Phase};

/// Whether the volume is on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// No.
    Absent,
    /// An operation failed, or a previous process of the controller was interrupted.
    Uncertain,
    /// Its VolumeAttachment was requested, and neither a response nor the cache shows whether it was created.
    Asked,
    /// The attacher confirmed it.
    Confirmed,
}

/// The running operation on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// None that conflicts.
    Nothing,
    /// An operation on another node, for a volume that only one node may use.
    Elsewhere,
    /// This operation on this node.
    Here {
        kind: OperationKind,
        phase: Phase,
        deadline: Instant,
        /// The VolumeAttachment has existed since it began.
        seen: bool,
        /// The VolumeAttachment no longer exists.
        gone: bool,
    },
}

/// Another node with a volume that only one node may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// No other node has it.
    None,
    /// Another node that can release it immediately.
    CanDetach,
    /// Another node that cannot release it yet.
    Stays,
}

/// The input of a decision.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// A pod of the node needs the volume.
    pub(super) wanted: bool,
    pub(super) presence: Presence,
    pub(super) running: Running,
    /// The last failure on this node.
    pub(super) failure: Option<Failure>,
    pub(super) holder: Holder,
    /// The VolumeAttachment as it is cached.
    pub(super) view: View,
    /// Attached volumes are compared with their VolumeAttachments.
    pub(super) verified: bool,
    /// The node has it in use, or may have.
    pub(super) in_use: bool,
    /// The node exists and is Ready.
    pub(super) healthy: bool,
    /// The node has the taint.
    pub(super) out_of_service: bool,
    /// Since when it is unwanted.
    pub(super) unwanted_since: Option<Instant>,
    /// Timeout of a forced detach from an unhealthy node; `None` means never.
    pub(super) force_after: Option<Duration>,
    pub(super) now: Instant,
}

/// The reason of a forced detach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Force {
    /// The node is unhealthy, and the timeout has expired.
    Timeout,
    /// A user has marked the node with the taint as out of service.
    OutOfService,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// None; a relevant change queues the key again.
    Rest,
    /// None: the actual state equals the desired one.
    Keep,
    /// Nothing before this time.
    WaitUntil(Instant),
    /// The node has to unmount it; at the deadline, the controller detaches it by force.
    WaitForNode { deadline: Option<Instant> },
    /// Its VolumeAttachment was deleted: the volume is not on the node. Or it is no longer reported as attached: its location is
    /// unknown.
    Lost,
    /// Detach it from the node. Without force, the node's status is checked first.
    Detach { force: Option<Force> },
    /// Attach it to the node.
    Attach,
    /// First check the node that can release it.
    HolderFirst,
    /// Report that another node uses it.
    Refuse,
    /// The running operation succeeded.
    Succeeded,
    /// The running operation failed.
    Failed(Failed),
}

/// The failure of the running operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The error of the attacher.
    Answer(String),
    /// The VolumeAttachment is being deleted.
    Leaving,
    /// The VolumeAttachment was deleted while the attacher was working on it.
    TakenAway,
    /// The attacher did not respond.
    Timeout,
    /// No pod needs it any more.
    GivenUp,
}

impl Failed {
    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Failed::Answer(_) | Failed::Timeout | Failed::TakenAway | Failed::GivenUp => {
                FailureCause::Attacher
            }
            Failed::Leaving => FailureCause::Leaving,
        }
    }
}

/// Decides.
pub(super) fn decide(facts: &Facts) -> Decision {
    match &facts.running {
        // Tests: NEW-AD-BUSY
        Running::Elsewhere => return Decision::Rest,
        Running::Here { phase: Phase::Asking, .. } => return Decision::Rest,
        Running::Here { kind: OperationKind::Attach, phase: Phase::Waiting, deadline, seen, gone } => {
            return attaching(facts, *deadline, *seen || *gone);
        }
        Running::Here { kind: OperationKind::Detach, phase: Phase::Waiting, deadline, seen, gone } => {
            return detaching(facts, *deadline, *seen, *gone);
        }
        Running::Nothing => {}
    }
    match (facts.presence, facts.wanted) {
        // Tests: AD-002, AD-003, AD-006, AD-010, AD-015, AD-029, AD-030, AD-093, AD-094
        (Presence::Absent, false) => Decision::Rest,
        // Tests: AD-097, AD-098, AD-099, NEW-AD-TURNED, NEW-AD-TURNED-FREE, NEW-AD-TURNED-LEFT
        (Presence::Confirmed, true | false) if facts.verified && is_lost(&facts.view) => Decision::Lost,
        // Tests: AD-073, AD-081
        (Presence::Confirmed, true) => Decision::Keep,
        (Presence::Absent | Presence::Uncertain | Presence::Asked, true) => attach(facts),
        (Presence::Confirmed | Presence::Uncertain | Presence::Asked, false) => detach(facts),
    }
}

fn is_lost(view: &View) -> bool {
    match view {
        View::NotNeeded => false,
        View::Absent => true,
        View::There(there) => !there.attached,
    }
}

/// Whether a VolumeAttachment of another node blocks the volume for this one: it does until its attacher has reported that it
/// could not attach, or could not detach. Upstream ignores one whose attacher has not responded. A volume that its node
/// uses was attached, so a later failure to attach it does not prove that it is detached.
// Tests: AD-055, AD-064, NEW-AD-UNANSWERED, NEW-AD-LEFT, NEW-AD-TURNED-FAILED
pub(super) fn holds(presence: Presence, view: &View, in_use: bool) -> bool {
    match (presence, view) {
        (Presence::Absent, _) => false,
        (Presence::Confirmed, _) | (Presence::Asked, View::Absent) => true,
        (Presence::Asked, View::NotNeeded) => false,
        (Presence::Uncertain, View::NotNeeded | View::Absent) => false,
        (Presence::Uncertain | Presence::Asked, View::There(there)) => match there.leaving {
            true => there.detach_error.is_none(),
            false => there.attached || there.attach_error.is_none() || in_use,
        },
    }
}

/// Decides on a volume that is wanted and not attached.
fn attach(facts: &Facts) -> Decision {
    match facts.holder {
        Holder::None => {}
        // Tests: AD-040, AD-095, NEW-AD-MOVED
        Holder::CanDetach => return Decision::HolderFirst,
        // Tests: AD-043, AD-051, AD-052, AD-054, NEW-AD-RWOP
        Holder::Stays => return Decision::Refuse,
    }
    if let Some(failure) =
        facts.failure.filter(|failure| failure.kind == OperationKind::Attach && failure.until > facts.now)
    {
        let news = match (failure.cause, &facts.view) {
            // Tests: AD-057
            (FailureCause::Attacher, View::There(there)) => there.attached && !there.leaving,
            // Tests: NEW-AD-LEAVING
            (FailureCause::Leaving, View::Absent) => true,
            (FailureCause::Request | FailureCause::Attacher | FailureCause::Leaving, _) => false,
        };
        if !news {
            return Decision::WaitUntil(failure.until);
        }
    }
    // Tests: AD-004, AD-007, AD-008, AD-018, AD-021, AD-023, AD-026, AD-027, AD-047, AD-048, AD-049, AD-091, AD-101
    Decision::Attach
}

/// Decides on a volume that is attached and unwanted.
fn detach(facts: &Facts) -> Decision {
    if let Some(failure) =
        facts.failure.filter(|failure| failure.kind == OperationKind::Detach && failure.until > facts.now)
    {
        let news = failure.cause == FailureCause::Attacher && facts.view == View::Absent;
        if !news {
            return Decision::WaitUntil(failure.until);
        }
    }
    // Tests: AD-070, AD-071, AD-074
    if facts.out_of_service {
        return Decision::Detach { force: Some(Force::OutOfService) };
    }
    let since = facts.unwanted_since.unwrap_or(facts.now);
    // Tests: AD-067, AD-069, AD-080, NEW-AD-NODE-WINS
    let deadline = facts.force_after.filter(|_| !facts.healthy).map(|patience| since + patience);
    if deadline.is_some_and(|deadline| facts.now >= deadline) {
        return Decision::Detach { force: Some(Force::Timeout) };
    }
    if facts.in_use {
        // Tests: AD-038, AD-075, AD-087, NEW-AD-NEVER, NEW-AD-NEVER-FLAG, NEW-AD-CLASS
        return Decision::WaitForNode { deadline };
    }
    // Tests: AD-031, AD-035, AD-039, AD-042, AD-058, AD-069, AD-078, AD-086, AD-088, AD-089, AD-096, AD-100
    Decision::Detach { force: None }
}

/// The attacher must attach it. `known`: the VolumeAttachment has existed since the operation began.
fn attaching(facts: &Facts, deadline: Instant, known: bool) -> Decision {
    let waiting = match &facts.view {
        View::NotNeeded => return Decision::Succeeded,
        View::There(there) if there.leaving => return Decision::Failed(Failed::Leaving),
        View::There(there) if there.attached => return Decision::Succeeded,
        View::There(there) => match &there.attach_error {
            // Tests: AD-055, AD-056
            Some(message) => return Decision::Failed(Failed::Answer(message.clone())),
            // Tests: AD-092
            None => Decision::WaitUntil(deadline),
        },
        // Upstream continues to wait for two minutes.
        // Tests: NEW-AD-TAKEN-AWAY
        View::Absent if known => return Decision::Failed(Failed::TakenAway),
        View::Absent => Decision::WaitUntil(deadline),
    };
    // Tests: NEW-AD-GIVEN-UP
    if !facts.wanted {
        return Decision::Failed(Failed::GivenUp);
    }
    if facts.now >= deadline { Decision::Failed(Failed::Timeout) } else { waiting }
}

/// The attacher has to detach it.
fn detaching(facts: &Facts, deadline: Instant, seen: bool, gone: bool) -> Decision {
    if gone {
        return Decision::Succeeded;
    }
    match &facts.view {
        View::NotNeeded => return Decision::Succeeded,
        View::Absent if seen => return Decision::Succeeded,
        // The VolumeAttachment may not be in the cache yet, or was deleted before it was.
        View::Absent => {}
        View::There(there) => {
            if let Some(message) = &there.detach_error {
                return Decision::Failed(Failed::Answer(message.clone()));
            }
        }
    }
    if facts.now >= deadline { Decision::Failed(Failed::Timeout) } else { Decision::WaitUntil(deadline) }
}
