//! Scales a Deployment. During a rollout, the change is spread over the ReplicaSets in proportion to their
//! sizes, so that neither the new nor the old template gains. Upstream: sync.go, scale;
//! GetReplicaSetProportion.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::amounts::{Strategy, max_surge, strategy, wanted};
use super::sets::{ANN_DESIRED, ANN_MAX, age, available, number, replicas, resize, total};

/// Whether the Deployment's desired number differs from the one that its ReplicaSets were last scaled to.
pub fn is_due(deployment: &Deployment, sets: &[ReplicaSet]) -> bool {
    let active = sets.iter().filter(|set| replicas(set) > 0);
    active.filter_map(|set| number(set, ANN_DESIRED)).any(|desired| desired != wanted(deployment))
}

/// Resizes the ReplicaSets. `new` is the index of the one with the Deployment's template.
pub fn scale(deployment: &Deployment, sets: &mut [ReplicaSet], new: Option<usize>) {
    let wanted = wanted(deployment);
    let mut active: Vec<usize> = (0..sets.len()).filter(|at| replicas(&sets[*at]) > 0).collect();
    match active.as_slice() {
        [] => {
            let latest = (0..sets.len()).max_by_key(|at| age(&sets[*at]));
            if let Some(at) = new.or(latest)
                && replicas(&sets[at]) != wanted
            {
                resize(&mut sets[at], deployment, wanted);
            }
            return;
        }
        [one] => {
            if replicas(&sets[*one]) != wanted {
                resize(&mut sets[*one], deployment, wanted);
            }
            return;
        }
        _ => {}
    }
    if new.is_some_and(|at| is_saturated(deployment, &sets[at])) {
        for at in active.into_iter().filter(|at| Some(*at) != new) {
            resize(&mut sets[at], deployment, 0);
        }
        return;
    }
    if strategy(deployment) == Strategy::Recreate {
        return;
    }
    let most = if wanted > 0 { wanted.saturating_add(max_surge(deployment)) } else { 0 };
    let to_add = most.saturating_sub(total(active.iter().map(|at| &sets[*at]), replicas));
    // Largest first. Among equal sizes, the newer grow first and the older shrink first.
    active.sort_by(|a, b| {
        let (a, b) = (&sets[*a], &sets[*b]);
        let by_age = if to_add > 0 { age(b).cmp(&age(a)) } else { age(a).cmp(&age(b)) };
        replicas(b).cmp(&replicas(a)).then(by_age)
    });
    let mut added = 0;
    let mut sizes: Vec<(usize, i32)> = Vec::new();
    for at in active {
        let share = proportion(deployment, &sets[at], to_add, added);
        added = added.saturating_add(share);
        sizes.push((at, replicas(&sets[at]).saturating_add(share)));
    }
    if let Some((_, largest)) = sizes.first_mut() {
        *largest = largest.saturating_add(to_add.saturating_sub(added)).max(0);
    }
    for (at, size) in sizes {
        resize(&mut sets[at], deployment, size);
    }
}

/// Whether the ReplicaSet alone provides all pods of the Deployment, and all are available.
fn is_saturated(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let wanted = wanted(deployment);
    replicas(set) == wanted && number(set, ANN_DESIRED) == Some(wanted) && available(set) == wanted
}

/// The share of a ReplicaSet in the pods to add (to remove, if negative). `added` pods are already distributed.
fn proportion(deployment: &Deployment, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if replicas(set) == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let (share, left) = (fraction(deployment, set), to_add.saturating_sub(added));
    if to_add > 0 { share.min(left) } else { share.max(left) }
}

/// By how much the ReplicaSet would grow if all ReplicaSets grew in proportion.
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    let (own, wanted) = (i64::from(replicas(set)), wanted(deployment));
    if wanted == 0 {
        return -replicas(set);
    }
    let most = i64::from(wanted) + i64::from(max_surge(deployment));
    let before = number(set, ANN_MAX).filter(|most| *most != 0);
    // A ReplicaSet without the annotation was not created by a Deployment; the Deployment's status is the best
    // substitute.
    let before = before.or_else(|| deployment.status.as_ref()?.replicas).unwrap_or(0);
    if before <= 0 {
        return 0;
    }
    // Round to the nearest integer, halves away from zero.
    let before = i64::from(before);
    let size = (2 * own * most + before).div_euclid(2 * before);
    i32::try_from(size - own).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn deployment(replicas: i32, surge: i32) -> Deployment {
        serde_json::from_value(
            json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": {},
            "template": {}, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}}}),
        )
        .unwrap()
    }

    /// ReplicaSets with these sizes, named by their index, oldest first.
    fn sets(sizes: &[i32], desired: i32, most: i32) -> Vec<ReplicaSet> {
        let made = sizes.iter().enumerate().map(|(at, size)| {
            serde_json::from_value(json!({"metadata": {"name": format!("web-{at}"),
                "creationTimestamp": format!("2026-01-01T00:00:0{at}Z"),
                "annotations": {ANN_DESIRED: desired.to_string(), ANN_MAX: most.to_string()}},
                "spec": {"replicas": size, "selector": {}}}))
            .unwrap()
        });
        made.collect()
    }

    #[test]
    fn scaling_is_spread_over_sets_in_proportion() {
        // Name, sizes, previous desired number, new desired number and surge, expected sizes. The last set is the new
        // one.
        type Case<'a> = (&'a str, &'a [i32], i32, (i32, i32), &'a [i32]);
        let table: [Case<'_>; 12] = [
            ("one active set takes all", &[0, 10], 10, (12, 0), &[0, 12]),
            ("none is active: the new one", &[0, 0], 0, (5, 0), &[0, 5]),
            ("up, in proportion", &[5, 5], 10, (20, 0), &[10, 10]),
            ("up, the newer first", &[5, 5], 10, (11, 0), &[5, 6]),
            ("down, the older first", &[5, 5], 10, (9, 0), &[4, 5]),
            ("up, the largest gets the remainder", &[8, 1, 1], 10, (11, 0), &[9, 1, 1]),
            ("up by a half", &[3, 2, 1], 6, (9, 0), &[5, 3, 1]),
            ("down to nothing", &[3, 2, 1], 6, (0, 0), &[0, 0, 0]),
            ("down to one", &[3, 2, 1], 6, (1, 0), &[1, 0, 0]),
            ("up with surge", &[8, 2], 10, (10, 2), &[10, 2]),
            ("two thirds", &[6, 3], 9, (6, 0), &[4, 2]),
            ("the same", &[6, 3], 9, (9, 0), &[6, 3]),
        ];
        for (name, before, old, (now, surge), after) in table {
            let mut sets = sets(before, old, old);
            scale(&deployment(now, surge), &mut sets, Some(before.len() - 1));
            let found: Vec<i32> = sets.iter().map(replicas).collect();
            assert_eq!(found, after, "{name}");
            let total: i32 = found.iter().sum();
            assert_eq!(total, if now > 0 { now + surge } else { 0 }, "{name}: the total is exact");
        }
    }

    #[test]
    fn saturated_new_set_scales_the_old_sets_to_zero() {
        let mut all = sets(&[2, 3], 3, 3);
        all[1].status = Some(serde_json::from_value(json!({"replicas": 3, "availableReplicas": 3})).unwrap());
        scale(&deployment(3, 0), &mut all, Some(1));
        assert_eq!(all.iter().map(replicas).collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn scaling_is_due_when_an_active_set_has_another_desired_size() {
        assert!(!is_due(&deployment(3, 1), &sets(&[1, 2], 3, 4)));
        assert!(is_due(&deployment(4, 1), &sets(&[1, 2], 3, 4)));
        assert!(!is_due(&deployment(4, 1), &sets(&[0, 0], 3, 4)), "sets without pods do not count");
    }
}
