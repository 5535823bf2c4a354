//! When a node was heard last, and whether it is lost. Pure: what is now is told by the caller, and only the time between two calls counts,
//! never the clocks of the nodes (upstream: tryUpdateNodeHealth).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use tokio::time::Instant;

/// The condition Ready of a node.
pub fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// How a node says that it is, or what was written because it said nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// There is no condition Ready: nobody has said anything yet.
    Unsaid,
    /// True.
    Ready,
    /// False: its agent says that it is not ready.
    NotReady,
    /// Unknown, or a value that means nothing.
    Unknown,
}

impl Readiness {
    /// What the Node says.
    pub fn of(node: &Node) -> Self {
        match ready(node).map(|condition| condition.status.as_str()) {
            None => Self::Unsaid,
            Some("True") => Self::Ready,
            Some("False") => Self::NotReady,
            Some(_) => Self::Unknown,
        }
    }
}

/// How long a node may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// One that has said how it is.
    pub monitor: Duration,
    /// One that has not said anything yet.
    pub startup: Duration,
}

/// `lastHeartbeatTime` of the condition Ready; outside: whether there is that condition.
type Beat = Option<Option<Timestamp>>;

/// What was heard of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    beat: Beat,
    renewed: Option<Timestamp>,
    at: Instant,
}

impl Heard {
    /// A node that is seen for the first time counts as heard now, however old it is: who has just started knows nothing about its past.
    pub fn first(node: &Node, now: Instant) -> Self {
        Self { beat: beat(node), renewed: None, at: now }
    }

    /// Its status may have come anew.
    pub fn status(&mut self, node: &Node, now: Instant) {
        let beat = beat(node);
        if beat != self.beat {
            (self.beat, self.at) = (beat, now);
        }
    }

    /// Its Lease says that it was renewed at this time. True if that is news. A time that is earlier than the last one is news too: somebody
    /// lives who has set the clock back. (Upstream takes such a node for lost.)
    pub fn renewed(&mut self, time: Option<Timestamp>, now: Instant) -> bool {
        let news = time.is_some() && time != self.renewed;
        if news {
            (self.renewed, self.at) = (time, now);
        }
        news
    }

    /// It counts as heard now, because nobody could have heard it before.
    pub fn forgive(&mut self, now: Instant) {
        self.at = now;
    }

    /// Its Lease was seen at least once.
    pub fn has_renewed(&self) -> bool {
        self.renewed.is_some()
    }

    /// How long it may go on being silent; none if that time is over.
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
    fn what_counts_as_being_heard() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        type Step = fn(&mut Heard, Instant);
        // What happens at second 30, and how many seconds are left then.
        let table: [(&str, Option<u32>, Step, u64); 9] = [
            ("nothing", Some(1), |_, _| {}, 20),
            ("nothing, and it never said anything", None, |_, _| {}, 30),
            ("the same status", Some(1), |heard, now| heard.status(&node(Some(1)), now), 20),
            ("a newer heartbeat", Some(1), |heard, now| heard.status(&node(Some(2)), now), 50),
            ("its first status", None, |heard, now| heard.status(&node(Some(1)), now), 50),
            ("its status is gone", Some(1), |heard, now| heard.status(&node(None), now), 60),
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
            let mut heard = Heard::first(&node(beat), began);
            heard.renewed(second(5), began);
            step(&mut heard, at(30));
            assert_eq!(heard.left(GRACE, at(30)), Some(Duration::from_secs(left)), "{name}");
            assert_eq!(heard.left(GRACE, at(30 + left)), None, "{name}");
        }
    }

    #[test]
    fn a_lease_without_a_time_says_nothing() {
        let began = Instant::now();
        let mut heard = Heard::first(&node(None), began);
        assert!(!heard.renewed(None, began + Duration::from_secs(9)));
        assert!(!heard.has_renewed());
    }

    #[test]
    fn readiness() {
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
