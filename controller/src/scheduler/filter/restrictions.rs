//! The rule for disks that the pods of a node cannot share, and claims that only one pod may use.

use super::super::cluster::NodeState;
use super::super::inline_disks::InlineDisks;
use super::{Misfit, Rule};

const DISK: &str = "node(s) had no available disk";
const ONE_POD: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

/// The rule. `claim_in_use`: an existing pod uses a ReadWriteOncePod claim of this pod.
pub fn check(disks: &InlineDisks, claim_in_use: bool, node: &NodeState) -> Result<(), Misfit> {
    if node.inline_disks.conflicts(disks) {
        return Err(Misfit::passing(Rule::Restrictions, DISK));
    }
    if claim_in_use { Err(Misfit::passing(Rule::Restrictions, ONE_POD)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::super::pod::PodFacts;
    use super::*;

    fn pod(mut volume: Value) -> PodFacts {
        volume["name"] = json!("v");
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": [volume]}});
        PodFacts::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn conflicting_disks_reject_the_node() {
        let gce = |reads: bool| json!({"gcePersistentDisk": {"pdName": "d", "readOnly": reads}});
        let aws = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}});
        let iscsi = |lun: i32, reads: bool| json!({"iscsi": {"iqn": "i", "lun": lun, "targetPortal": "t", "readOnly": reads}});
        let rbd = |monitor: &str, pool: Value, reads: bool| json!({"rbd": {"monitors": [monitor, "m"], "image": "i", "pool": pool, "readOnly": reads}});
        let table = [
            ("nothing in common", json!({"emptyDir": {}}), gce(false), true),
            ("gce", gce(false), gce(false), false),
            ("gce, one writes", gce(true), gce(false), false),
            ("gce, both read", gce(true), gce(true), true),
            ("aws, never twice", aws("a"), aws("a"), false),
            ("aws, another one", aws("a"), aws("b"), true),
            ("iscsi, any lun", iscsi(0, false), iscsi(1, false), false),
            ("iscsi, both read", iscsi(0, true), iscsi(0, true), true),
            ("rbd, one monitor in common", rbd("x", json!("p"), false), rbd("y", json!("p"), false), false),
            ("rbd, the usual pool", rbd("x", json!(null), false), rbd("y", json!("rbd"), false), false),
            ("rbd, another pool", rbd("x", json!("p"), false), rbd("y", json!("q"), false), true),
            ("rbd, both read", rbd("x", json!("p"), true), rbd("y", json!("p"), true), true),
        ];
        for (name, there, new, fits) in table {
            let there = Arc::new(pod(there));
            let mut node = NodeState::default();
            node.insert(there);
            let wanted = if fits { Ok(()) } else { Err(Misfit::passing(Rule::Restrictions, DISK)) };
            assert_eq!(check(&pod(new).disks, false, &node), wanted, "{name}");
        }
    }

    #[test]
    fn many_monitors_and_disks_are_compared_in_linear_time() {
        let monitors = |count: usize, prefix: &str| {
            let monitors: Vec<String> = (0..count).map(|n| format!("{prefix}{n}")).collect();
            pod(json!({"rbd": {"monitors": monitors, "image": "i"}}))
        };
        let disks = |count: usize, prefix: &str| {
            let disk =
                |n: usize| json!({"name": "v", "gcePersistentDisk": {"pdName": format!("{prefix}{n}")}});
            let volumes: Vec<Value> = (0..count).map(disk).collect();
            let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": volumes}});
            PodFacts::of(&serde_json::from_value(pod).unwrap())
        };
        let work = |(node, new): &(NodeState, PodFacts)| assert_eq!(check(&new.disks, false, node), Ok(()));
        let input = |there: PodFacts, new: PodFacts| {
            let mut node = NodeState::default();
            node.insert(Arc::new(there));
            (node, new)
        };
        let of_monitors = |count: usize| input(monitors(count, "a"), monitors(count, "b"));
        orlop_apimachinery::thread_time::assert_linear("monitors", 1_000, of_monitors, work);
        let of_disks = |count: usize| input(disks(count, "a"), disks(count, "b"));
        orlop_apimachinery::thread_time::assert_linear("disks", 1_000, of_disks, work);
    }

    #[test]
    fn disk_is_free_when_all_its_pods_have_left() {
        let disk = |reads: bool| pod(json!({"gcePersistentDisk": {"pdName": "d", "readOnly": reads}})).disks;
        let mut node = NodeState::default();
        [true, true, false].into_iter().for_each(|reads| node.inline_disks.add(&disk(reads)));
        assert!(check(&disk(true), false, &node).is_err(), "one writes");
        node.inline_disks.take(&disk(false));
        assert_eq!(check(&disk(true), false, &node), Ok(()));
        assert!(check(&disk(false), false, &node).is_err(), "two read");
        [true, true].into_iter().for_each(|reads| node.inline_disks.take(&disk(reads)));
        assert_eq!((check(&disk(false), false, &node), node.inline_disks), (Ok(()), InlineDisks::default()));
    }

    #[test]
    fn read_write_once_pod_claim_is_exclusive() {
        let node = NodeState::default();
        assert_eq!(
            check(&InlineDisks::default(), true, &node),
            Err(Misfit::passing(Rule::Restrictions, ONE_POD))
        );
        assert_eq!(check(&InlineDisks::default(), false, &node), Ok(()));
    }
}
