//! Computes one step of a rollout: either the new ReplicaSet grows or the old ones shrink, within surge and
//! unavailability. Pure functions. Upstream: rolling.go, recreate.go.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::amounts::{Strategy, max_surge, max_unavailable, strategy, wanted};
use super::sets::{age, available, replicas, resize, total};

/// The number of pods that the new ReplicaSet may have now.
pub fn size_of_new(deployment: &Deployment, sets: &[ReplicaSet], new: &ReplicaSet) -> i32 {
    let wanted = wanted(deployment);
    match strategy(deployment) {
        Strategy::Recreate => wanted,
        Strategy::RollingUpdate { .. } => {
            let room = wanted.saturating_add(max_surge(deployment)).saturating_sub(total(sets, replicas));
            if room <= 0 { replicas(new) } else { replicas(new) + room.min(wanted - replicas(new)) }
        }
    }
}

/// Resizes the ReplicaSet at index `new`. Returns false if its size is unchanged.
pub fn grow_new(deployment: &Deployment, sets: &mut [ReplicaSet], new: usize) -> bool {
    let size = match replicas(&sets[new]) {
        size if size == wanted(deployment) => return false,
        size if size > wanted(deployment) => wanted(deployment),
        _ => size_of_new(deployment, sets, &sets[new]),
    };
    let changes = size != replicas(&sets[new]);
    if changes {
        resize(&mut sets[new], deployment, size);
    }
    changes
}

/// Shrinks the old ReplicaSets of a rolling update: first by their unavailable pods, then by the number that
/// the available pods of the new ReplicaSet replace.
pub fn shrink_old(deployment: &Deployment, sets: &mut [ReplicaSet], new: usize) -> bool {
    let mut old: Vec<usize> = (0..sets.len()).filter(|at| *at != new && replicas(&sets[*at]) > 0).collect();
    if old.is_empty() {
        return false;
    }
    old.sort_by_key(|at| age(&sets[*at]));
    let least = wanted(deployment).saturating_sub(max_unavailable(deployment));
    let not_yet = replicas(&sets[new]).saturating_sub(available(&sets[new]));
    let mut may_go = total(&*sets, replicas).saturating_sub(least).saturating_sub(not_yet);
    if may_go <= 0 {
        return false;
    }
    let mut changes = false;
    for at in &old {
        let broken = replicas(&sets[*at]).saturating_sub(available(&sets[*at]));
        let step = broken.min(may_go);
        if step > 0 {
            let size = replicas(&sets[*at]) - step;
            resize(&mut sets[*at], deployment, size);
            (may_go, changes) = (may_go - step, true);
        }
    }
    let mut spare = total(&*sets, available).saturating_sub(least);
    for at in &old {
        let step = replicas(&sets[*at]).min(spare);
        if step > 0 {
            let size = replicas(&sets[*at]) - step;
            resize(&mut sets[*at], deployment, size);
            (spare, changes) = (spare - step, true);
        }
    }
    changes
}

/// Recreate: scales all old ReplicaSets to 0 in one step.
pub fn end_old(deployment: &Deployment, sets: &mut [ReplicaSet], new: Option<usize>) -> bool {
    let old: Vec<usize> = (0..sets.len()).filter(|at| Some(*at) != new && replicas(&sets[*at]) > 0).collect();
    old.iter().for_each(|at| resize(&mut sets[*at], deployment, 0));
    !old.is_empty()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn deployment(replicas: i32, surge: Value, unavailable: Value) -> Deployment {
        serde_json::from_value(
            json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": {},
            "template": {}, "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}}),
        )
        .unwrap()
    }

    /// ReplicaSets with these sizes and numbers of available pods, oldest first.
    fn sets(sizes: &[(i32, i32)]) -> Vec<ReplicaSet> {
        let made = sizes.iter().enumerate().map(|(at, (size, available))| {
            serde_json::from_value(json!({"metadata": {"name": format!("web-{at}"),
                "creationTimestamp": format!("2026-01-01T00:00:0{at}Z")}, "spec": {"replicas": size, "selector": {}},
                "status": {"replicas": size, "availableReplicas": available}}))
            .unwrap()
        });
        made.collect()
    }

    fn sizes(sets: &[ReplicaSet]) -> Vec<i32> {
        sets.iter().map(replicas).collect()
    }

    #[test]
    fn new_set_grows_within_the_surge() {
        // Desired number, surge, size of the old set, size of the new set, expected size of the new set.
        let table = [
            (10, json!(0), 10, 0, 0),
            (10, json!(2), 10, 0, 2),
            (10, json!(2), 5, 0, 7),
            (10, json!(2), 10, 2, 2),
            (5, json!("40%"), 5, 0, 2),
            (5, json!(5), 5, 3, 5),
            (2, json!(1), 0, 5, 2),
        ];
        for (wanted, surge, old, new, after) in table {
            let mut sets = sets(&[(old, old), (new, new)]);
            let grew = grow_new(&deployment(wanted, surge.clone(), json!(1)), &mut sets, 1);
            assert_eq!(
                (sizes(&sets), grew),
                (vec![old, after], new != after),
                "{wanted} {surge} {old} {new}"
            );
        }
    }

    #[test]
    fn numbers_beyond_the_type_do_not_overflow() {
        let most = i32::MAX;
        let mut all = sets(&[(most, most), (most, 0), (1, 0)]);
        assert!(!grow_new(&deployment(most, json!("100%"), json!(1)), &mut all, 2));
        assert!(shrink_old(&deployment(0, json!(1), json!(most)), &mut all, 2));
    }

    #[test]
    fn old_sets_shrink_as_the_new_set_becomes_available() {
        // Name, desired number, unavailable, sets, expected sizes.
        type Case<'a> = (&'a str, i32, i32, &'a [(i32, i32)], &'a [i32]);
        let table: [Case<'_>; 9] = [
            ("nothing is spare", 10, 0, &[(10, 10), (0, 0)], &[10, 0]),
            ("two may be missing", 10, 2, &[(10, 10), (0, 0)], &[8, 0]),
            ("the new ones do not work yet", 10, 0, &[(10, 10), (3, 0)], &[10, 3]),
            ("the new ones work", 10, 0, &[(10, 10), (3, 3)], &[7, 3]),
            ("broken old ones go first, the oldest set first", 10, 2, &[(8, 4), (4, 3), (2, 0)], &[4, 4, 2]),
            ("a broken one blocks nothing", 10, 2, &[(8, 5), (0, 0)], &[8, 0]),
            ("after an undo the broken ones go", 10, 2, &[(5, 0), (8, 7)], &[1, 8]),
            ("the oldest set shrinks first", 3, 1, &[(2, 2), (2, 2), (1, 1)], &[0, 1, 1]),
            ("nothing is left to shrink", 3, 1, &[(0, 0), (3, 3)], &[0, 3]),
        ];
        for (name, wanted, unavailable, before, after) in table {
            let mut sets = sets(before);
            let changed =
                shrink_old(&deployment(wanted, json!(1), json!(unavailable)), &mut sets, before.len() - 1);
            assert_eq!(sizes(&sets), after, "{name}");
            assert_eq!(changed, before.iter().map(|(size, _)| *size).ne(after.iter().copied()), "{name}");
        }
    }
}
