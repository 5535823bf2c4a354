//! Numbers of a Deployment: how many pods there may be above the wanted number and below it. Pure functions.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a Deployment comes from one template to the next.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Strategy {
    /// All old pods go before the first new one comes.
    Recreate,
    /// At no time more than this many too many, or this many too few.
    RollingUpdate {
        /// Pods above the wanted number.
        surge: i32,
        /// Pods below it.
        unavailable: i32,
    },
}

/// Which way to round a part of a pod.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Round {
    /// To more pods.
    Up,
    /// To fewer pods.
    Down,
}

/// A number, or a percentage of `total`. What cannot be read counts as 0; the server admits none.
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

/// How many pods are asked for. The server's default is 1.
pub fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The strategy, with its amounts in pods. Upstream: ResolveFenceposts.
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
        // Both can round to nothing, and then nothing could ever move.
        (0, 0) => Strategy::RollingUpdate { surge, unavailable: 1 },
        _ => Strategy::RollingUpdate { surge, unavailable },
    }
}

/// Pods that may be there above the wanted number.
pub fn max_surge(deployment: &Deployment) -> i32 {
    match strategy(deployment) {
        Strategy::Recreate => 0,
        Strategy::RollingUpdate { surge, .. } => surge,
    }
}

/// Pods that may be missing.
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
    fn amounts_of_strategies() {
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
