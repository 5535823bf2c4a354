//! The rule for disks that the pods of a node cannot share, and claims that only one pod may use.

use super::super::cluster::NodeState;
use super::super::pod::Disk;
use super::{Misfit, Rule};

const DISK: &str = "node(s) had no available disk";
const ONE_POD: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

/// The rule. `claim_in_use`: an existing pod uses a ReadWriteOncePod claim of this pod.
pub fn check(disks: &[Disk], claim_in_use: bool, node: &NodeState) -> Result<(), Misfit> {
    let used = |disk: &Disk| node.pods.values().flat_map(|pod| &pod.disks).any(|other| other.conflicts(disk));
    if disks.iter().any(used) {
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
            node.pods.insert(Arc::clone(&there.key), there);
            let wanted = if fits { Ok(()) } else { Err(Misfit::passing(Rule::Restrictions, DISK)) };
            assert_eq!(check(&pod(new).disks, false, &node), wanted, "{name}");
        }
    }

    #[test]
    fn read_write_once_pod_claim_is_exclusive() {
        let node = NodeState::default();
        assert_eq!(check(&[], true, &node), Err(Misfit::passing(Rule::Restrictions, ONE_POD)));
        assert_eq!(check(&[], false, &node), Ok(()));
    }
}
