//! Surge and unavailability of a Deployment as numbers of pods. Pure functions.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a Deployment replaces the pods of one template with those of the next.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Strategy {
    /// Delete all old pods before creating the first new one.
    Recreate,
    /// Stay within these limits above and below the desired number of pods.
    RollingUpdate {
        /// The number of pods allowed above the desired number.
        surge: i32,
        /// The number of pods allowed below the desired number.
        unavailable: i32,
    },
}

/// The direction in which to round a fraction of a pod.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Round {
    /// Up, to more pods.
    Up,
    /// Down, to fewer pods.
    Down,
}

/// Resolves a number, or a percentage of `total`. A malformed value counts as 0; the server admits none.
pub fn scaled(amount: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    let percent = match amount {
        None => return 0,
        Some(IntOrString::Int(number)) => return *number,
        Some(IntOrString::String(text)) => {
            text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok())
        }
    };
    let hundredths = percent.unwrap_or(0).saturating_mul(i64::from(total));
    let amount = match round {
        Round::Up => hundredths.saturating_add(99).div_euclid(100),
        Round::Down => hundredths.div_euclid(100),
    };
    i32::try_from(amount).unwrap_or(i32::MAX)
}

/// The desired number of pods. The server's default is 1.
pub fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The strategy, with its limits as numbers of pods. Upstream: ResolveFenceposts.
pub fn strategy(deployment: &Deployment) -> Strategy {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return Strategy::Recreate;
    }
    let (total, rolling) =
        (wanted(deployment), strategy.and_then(|strategy| strategy.rolling_update.as_ref()));
    let surge = scaled(rolling.and_then(|rolling| rolling.max_surge.as_ref()), total, Round::Up);
    let unavailable =
        scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), total, Round::Down);
    match (surge, unavailable) {
        // Both can round to 0, which would block every rollout.
        (0, 0) => Strategy::RollingUpdate { surge, unavailable: 1 },
        _ => Strategy::RollingUpdate { surge, unavailable },
    }
}

/// The number of pods allowed above the desired number.
pub fn max_surge(deployment: &Deployment) -> i32 {
    match strategy(deployment) {
        Strategy::Recreate => 0,
        Strategy::RollingUpdate { surge, .. } => surge,
    }
}

/// The number of pods that may be unavailable.
pub fn max_unavailable(deployment: &Deployment) -> i32 {
    match strategy(deployment) {
        Strategy::RollingUpdate { unavailable, .. } if wanted(deployment) > 0 => {
            unavailable.min(wanted(deployment))
        }
        Strategy::RollingUpdate { .. } | Strategy::Recreate => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        let rolling = |surge: Value, unavailable: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let table = [
            ("numbers", 10, rolling(json!(3), json!(2)), 3, 2),
            ("the default", 10, rolling(json!("25%"), json!("25%")), 3, 2),
            ("the default of one", 1, rolling(json!("25%"), json!("25%")), 1, 0),
            ("both round to nothing", 1, rolling(json!(0), json!("25%")), 0, 1),
            ("more than all", 2, rolling(json!(0), json!(5)), 0, 2),
            ("all", 3, rolling(json!(0), json!("100%")), 0, 3),
            ("of nothing", 0, rolling(json!("50%"), json!("50%")), 0, 0),
            ("recreate", 5, json!({"type": "Recreate"}), 0, 0),
        ];
        for (name, replicas, strategy, surge, unavailable) in table {
            let deployment = json!({"metadata": {}, "spec": {"replicas": replicas, "strategy": strategy, "selector": {},
                "template": {}}});
            let deployment: Deployment = serde_json::from_value(deployment).unwrap();
            assert_eq!(
                (max_surge(&deployment), max_unavailable(&deployment)),
                (surge, unavailable),
                "{name}"
            );
        }
    }
}
