//! Time of a node's last heartbeat, and whether the node is lost. Pure: the caller passes the current time, and
//! only the time between two calls counts, never the nodes' clocks (upstream: tryUpdateNodeHealth).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use tokio::time::Instant;

/// The Ready condition of a node.
pub fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// The status of a node's Ready condition, written by the node or by this controller after a silent grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// No Ready condition: the node has not reported yet.
    Unsaid,
    /// True.
    Ready,
    /// False: the agent reports that the node is not ready.
    NotReady,
    /// Unknown, or an unrecognized value.
    Unknown,
}

impl Readiness {
    /// The readiness that the Node object shows.
    pub fn of(node: &Node) -> Self {
        match ready(node).map(|condition| condition.status.as_str()) {
            None => Self::Unsaid,
            Some("True") => Self::Ready,
            Some("False") => Self::NotReady,
            Some(_) => Self::Unknown,
        }
    }
}

/// How long a node may be silent before it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// For a node that has reported its status.
    pub monitor: Duration,
    /// For a node that has not reported its status yet.
    pub startup: Duration,
}

/// `lastHeartbeatTime` of the Ready condition; the outer `Option` is `None` without that condition.
type Beat = Option<Option<Timestamp>>;

/// The last heartbeat of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    beat: Beat,
    renewed: Option<Timestamp>,
    at: Instant,
}

impl Heartbeat {
    /// Counts a newly seen node as heard now, regardless of its age: a controller that just started does not know the
    /// node's past.
    pub fn first(node: &Node, now: Instant) -> Self {
        Self { beat: beat(node), renewed: None, at: now }
    }

    /// Records a heartbeat if the node's status has a new one.
    pub fn status(&mut self, node: &Node, now: Instant) {
        let beat = beat(node);
        if beat != self.beat {
            (self.beat, self.at) = (beat, now);
        }
    }

    /// Records the renewal time of the node's Lease. Returns true if the time changed. An earlier time counts too:
    /// the node is alive and its clock was set back. (Upstream declares such a node lost.)
    pub fn renewed(&mut self, time: Option<Timestamp>, now: Instant) -> bool {
        let news = time.is_some() && time != self.renewed;
        if news {
            (self.renewed, self.at) = (time, now);
        }
        news
    }

    /// Counts the node as heard now, because no heartbeat could have arrived before.
    pub fn forgive(&mut self, now: Instant) {
        self.at = now;
    }

    /// Whether its Lease was seen at least once.
    pub fn has_renewed(&self) -> bool {
        self.renewed.is_some()
    }

    /// The remaining time that the node may be silent; `None` if that time is over.
    pub fn left(&self, grace: Grace, now: Instant) -> Option<Duration> {
        let allowed = if self.beat.is_some() { grace.monitor } else { grace.startup };
        allowed.checked_sub(now.saturating_duration_since(self.at)).filter(|left| !left.is_zero())
    }
}

fn beat(node: &Node) -> Beat {
    ready(node).map(|condition| condition.last_heartbeat_time.as_ref().map(|time| time.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const GRACE: Grace = Grace { monitor: Duration::from_secs(50), startup: Duration::from_secs(60) };

    fn node(beat: Option<u32>) -> Node {
        let conditions = match beat {
            Some(second) => {
                json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:00:{second:02}Z")}])
            }
            None => json!([]),
        };
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    fn second(second: i64) -> Option<Timestamp> {
        Some(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn status_changes_and_lease_renewals_restart_the_grace_period() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        type Step = fn(&mut Heartbeat, Instant);
        // The event at second 30, and the seconds left after it.
        let table: [(&str, Option<u32>, Step, u64); 9] = [
            ("nothing", Some(1), |_, _| {}, 20),
            ("no event, and no status yet", None, |_, _| {}, 30),
            ("the same status", Some(1), |heard, now| heard.status(&node(Some(1)), now), 20),
            ("a newer heartbeat", Some(1), |heard, now| heard.status(&node(Some(2)), now), 50),
            ("its first status", None, |heard, now| heard.status(&node(Some(1)), now), 50),
            ("its status is removed", Some(1), |heard, now| heard.status(&node(None), now), 60),
            ("a newer Lease", Some(1), |heard, now| assert!(heard.renewed(second(6), now)), 50),
            ("the same Lease", Some(1), |heard, now| assert!(!heard.renewed(second(5), now)), 20),
            (
                "a Lease of a clock that was set back",
                Some(1),
                |heard, now| assert!(heard.renewed(second(4), now)),
                50,
            ),
        ];
        for (name, beat, step, left) in table {
            let mut heard = Heartbeat::first(&node(beat), began);
            heard.renewed(second(5), began);
            step(&mut heard, at(30));
            assert_eq!(heard.left(GRACE, at(30)), Some(Duration::from_secs(left)), "{name}");
            assert_eq!(heard.left(GRACE, at(30 + left)), None, "{name}");
        }
    }

    #[test]
    fn lease_without_a_renew_time_is_not_a_renewal() {
        let began = Instant::now();
        let mut heard = Heartbeat::first(&node(None), began);
        assert!(!heard.renewed(None, began + Duration::from_secs(9)));
        assert!(!heard.has_renewed());
    }

    #[test]
    fn readiness_follows_the_ready_condition() {
        for (status, wanted) in [
            (json!([]), Readiness::Unsaid),
            (json!([{"type": "DiskPressure", "status": "False"}]), Readiness::Unsaid),
            (json!([{"type": "Ready", "status": "True"}]), Readiness::Ready),
            (json!([{"type": "Ready", "status": "False"}]), Readiness::NotReady),
            (json!([{"type": "Ready", "status": "Unknown"}]), Readiness::Unknown),
        ] {
            let node = json!({"metadata": {"name": "n"}, "status": {"conditions": status}});
            assert_eq!(Readiness::of(&serde_json::from_value(node).unwrap()), wanted, "{status}");
        }
    }
}
