//! The permits of priority levels. Pure.
//!
//! A level has a part of the permits in proportion to its shares (nominal). It lends a part of those to other levels if it does not
//! use them (`lendablePercent`); the rest is guaranteed. It borrows at most `borrowingLimitPercent` of its nominal permits.
//!
//! Upstream: apiserver `pkg/util/flowcontrol/apf_controller.go` and `fairqueuing/queueset`. There, a loop adjusts the limits every
//! ten seconds; here, each arrival and each end of a request decides ([`super::super::level_pool`]).

use serde_json::Value;

use crate::limits::fair_queue::Bounds;
use crate::limits::level_pool::LevelBounds;

/// A PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PriorityLevel {
    pub(super) name: String,
    pub(super) uid: String,
    shares: u64,
    response: LimitResponse,
    /// Percent of the nominal permits.
    lendable: u64,
    /// Percent of the nominal permits; `None` is no limit.
    borrowing: Option<u64>,
}

/// What happens to a request for which no permit is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitResponse {
    /// It needs no permit.
    Exempt,
    Reject,
    Queue {
        /// Maximum number of waiting requests of a flow.
        per_flow: usize,
        /// Maximum number of waiting requests.
        total: usize,
    },
}

impl PriorityLevel {
    /// Reads a stored PriorityLevelConfiguration.
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let number = |of: &Value, field: &str| of[field].as_u64();
        let is_exempt = spec["type"] == "Exempt";
        let limits = if is_exempt { &spec["exempt"] } else { &spec["limited"] };
        let response = &limits["limitResponse"];
        let queuing = &response["queuing"];
        // The numbers have 32 bits, so the products have 64.
        let count = |field: &str| number(queuing, field).unwrap_or_default().min(u32::MAX.into());
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let response = match response["type"].as_str() {
            _ if is_exempt => LimitResponse::Exempt,
            Some("Queue") => LimitResponse::Queue {
                per_flow: size(count("queueLengthLimit")),
                total: size(count("queues") * count("queueLengthLimit")),
            },
            _ => LimitResponse::Reject,
        };
        PriorityLevel {
            name: text("name"),
            uid: text("uid"),
            shares: number(limits, "nominalConcurrencyShares").unwrap_or_default().min(u32::MAX.into()),
            response,
            lendable: number(limits, "lendablePercent").unwrap_or_default().min(100),
            borrowing: number(limits, "borrowingLimitPercent").map(|percent| percent.min(u32::MAX.into())),
        }
    }

    /// Whether its requests need no permits.
    pub(super) fn is_exempt(&self) -> bool {
        self.response == LimitResponse::Exempt
    }

    /// The nominal permits of a server. Rounded up, as in upstream.
    fn nominal(&self, permits: usize, all_shares: u64) -> usize {
        if all_shares == 0 {
            return 0;
        }
        size((permits as u128 * u128::from(self.shares)).div_ceil(u128::from(all_shares)))
    }

    /// The permits that no other level can take. Rounded down, so that those of all levels together are not more than there are.
    fn guaranteed(&self, permits: usize, all_shares: u64) -> usize {
        if self.is_exempt() || all_shares == 0 {
            return 0;
        }
        let part = u128::from(self.shares) * u128::from(100 - self.lendable);
        size(permits as u128 * part / (u128::from(all_shares) * 100))
    }

    fn queue(&self, most: usize, permits: usize) -> Bounds {
        let all = Bounds::of_permits(permits).waiting;
        match self.response {
            LimitResponse::Exempt => Bounds { permits: usize::MAX, per_client: 0, waiting: 0 },
            LimitResponse::Reject => Bounds { permits: most, per_client: 0, waiting: 0 },
            LimitResponse::Queue { per_flow, total } => {
                Bounds { permits: most, per_client: per_flow, waiting: total.min(all) }
            }
        }
    }
}

fn size(number: u128) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The sum of the shares of the levels.
fn all_shares(levels: &[PriorityLevel]) -> u64 {
    levels.iter().map(|level| level.shares).sum()
}

/// The nominal permits of each level in classes with these permits together. Classes without a limit do not count.
pub(super) fn nominal<'l>(levels: &'l [PriorityLevel], classes: &[usize]) -> Vec<(&'l str, usize)> {
    let shares = all_shares(levels);
    let permits = classes.iter().filter(|permits| **permits < usize::MAX);
    let permits = permits.fold(0_usize, |sum, permits| sum.saturating_add(*permits));
    levels.iter().map(|level| (level.name.as_str(), level.nominal(permits, shares))).collect()
}

/// Divides the permits of a class of requests among the levels. `usize::MAX` permits are no limit.
pub(super) fn divide(levels: &[PriorityLevel], permits: usize) -> Vec<LevelBounds> {
    let shares = all_shares(levels);
    if permits == usize::MAX {
        let bounds = |level: &PriorityLevel| LevelBounds {
            is_exempt: level.is_exempt(),
            ..LevelBounds::sole(level.queue(permits, permits))
        };
        return levels.iter().map(bounds).collect();
    }
    let all: usize = levels.iter().map(|level| level.guaranteed(permits, shares)).sum();
    let bounds = |level: &PriorityLevel| {
        let nominal = level.nominal(permits, shares);
        let guaranteed = level.guaranteed(permits, shares);
        let borrowed = match level.borrowing {
            Some(percent) => size(nominal as u128 * u128::from(percent) / 100),
            None => usize::MAX,
        };
        let most = nominal.saturating_add(borrowed).min(permits - (all - guaranteed));
        let queue = level.queue(most, permits);
        LevelBounds { queue, guaranteed, nominal, is_exempt: level.is_exempt() }
    };
    levels.iter().map(bounds).collect()
}

#[cfg(test)]
mod tests {
    use orlop_api::registry::flow_control::bootstrap::priority_levels;
    use serde_json::json;

    use super::*;

    fn limited(shares: u64, lendable: u64, borrowing: Option<u64>, response: &Value) -> PriorityLevel {
        let limited = json!({
            "nominalConcurrencyShares": shares, "lendablePercent": lendable, "borrowingLimitPercent": borrowing,
            "limitResponse": response,
        });
        PriorityLevel::of(
            &json!({"metadata": {"name": "l", "uid": "u"}, "spec": {"type": "Limited", "limited": limited}}),
        )
    }

    fn shown(levels: &[PriorityLevel], permits: usize) -> Vec<(usize, usize, usize)> {
        let divided = divide(levels, permits);
        divided.iter().map(|level| (level.nominal, level.guaranteed, level.queue.permits)).collect()
    }

    #[test]
    fn permits_follow_shares_and_percentages() {
        let reject = json!({"type": "Reject"});
        let level = |shares, lendable, borrowing| limited(shares, lendable, borrowing, &reject);
        for (case, levels, permits, want) in [
            ("1 nothing is lent", vec![level(1, 0, None), level(3, 0, None)], 8, vec![(2, 2, 2), (6, 6, 6)]),
            ("2 half is lent", vec![level(1, 50, None), level(3, 50, None)], 8, vec![(2, 1, 5), (6, 3, 7)]),
            ("3 all is lent", vec![level(1, 100, None), level(3, 100, None)], 8, vec![(2, 0, 8), (6, 0, 8)]),
            (
                "4 borrows nothing",
                vec![level(1, 0, Some(0)), level(1, 100, None)],
                8,
                vec![(4, 4, 4), (4, 0, 4)],
            ),
            (
                "5 borrows half",
                vec![level(1, 0, Some(50)), level(1, 100, None)],
                8,
                vec![(4, 4, 6), (4, 0, 4)],
            ),
            ("6 rounded", vec![level(1, 0, None), level(2, 0, None)], 4, vec![(2, 1, 2), (3, 2, 3)]),
            ("7 fewer permits than levels", vec![level(1, 0, None); 3], 1, vec![(1, 0, 1); 3]),
            ("8 no shares", vec![level(0, 0, Some(0)), level(1, 0, None)], 4, vec![(0, 0, 0), (4, 4, 4)]),
            ("9 no shares at all", vec![level(0, 0, None)], 4, vec![(0, 0, 4)]),
        ] {
            assert_eq!(shown(&levels, permits), want, "{case}");
        }
    }

    #[test]
    fn default_levels_divide_the_default_permits() {
        let levels: Vec<_> = priority_levels().iter().map(|level| PriorityLevel::of(&level.object)).collect();
        let found = shown(&levels, 400);
        let named: Vec<_> = levels.iter().map(|level| level.name.as_str()).zip(found).collect();
        let want = [
            ("catch-all", (9, 8, 240)),
            ("exempt", (0, 0, usize::MAX)),
            ("system", (49, 32, 264)),
            ("node-high", (66, 48, 280)),
            ("leader-election", (17, 16, 248)),
            ("workload-high", (66, 32, 264)),
            ("workload-low", (164, 16, 248)),
            ("global-default", (33, 16, 248)),
        ];
        assert_eq!(named, want);
        let seats = nominal(&levels, &[400, 200, usize::MAX]);
        assert_eq!(seats.last(), Some(&("global-default", 49)), "of both classes");
        let guaranteed: usize = divide(&levels, 400).iter().map(|level| level.guaranteed).sum();
        assert!(guaranteed <= 400);
    }

    #[test]
    fn responses_bound_the_queues() {
        let queue = |queues: u64, length: u64| json!({"type": "Queue", "queuing": {"queues": queues, "queueLengthLimit": length, "handSize": 1}});
        for (case, response, permits, per_client, waiting) in [
            ("1 reject", json!({"type": "Reject"}), 100, 0, 0),
            ("2 queue", queue(2, 10), 100, 10, 20),
            ("3 all queues are bounded", queue(128, 50), 100, 50, 400),
            ("4 with a minimum", queue(128, 50), 1, 50, 50),
            ("5 large numbers", queue(u64::MAX, u64::MAX), 100, u32::MAX as usize, 400),
        ] {
            let bounds = divide(&[limited(1, 0, None, &response)], permits)[0];
            assert_eq!((bounds.queue.per_client, bounds.queue.waiting), (per_client, waiting), "{case}");
        }
        let unlimited = divide(&[limited(1, 0, None, &queue(1, 1))], usize::MAX)[0];
        assert_eq!((unlimited.guaranteed, unlimited.queue.permits), (usize::MAX, usize::MAX));
    }
}
