//! The number of volumes of a CSI driver that a node can attach, from its CSINode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::disk::CsiDisk;
use super::super::disks::NodeDisks;
use super::{Misfit, Rule};

const REASON: &str = "node(s) exceed max volume count";

/// A pod's disks, by driver.
pub type Brought = BTreeMap<String, BTreeSet<Arc<CsiDisk>>>;

/// The rule: the pod's disks plus those on the node, each counted once, must not exceed the limit.
pub fn check(brought: &Brought, there: Option<&NodeDisks>) -> Result<(), Misfit> {
    let Some(there) = there else { return Ok(()) };
    let exceeds = |(driver, disks): (&String, &BTreeSet<Arc<CsiDisk>>)| {
        let Some(of) = there.of(driver) else { return false };
        let Some(limit) = of.limit() else { return false };
        let more = disks.iter().filter(|disk| !of.has(disk)).count();
        more > 0 && of.count() + more > limit
    };
    if brought.iter().any(exceeds) { Err(Misfit::passing(Rule::Limits, REASON)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
    use serde_json::json;

    use super::super::super::disk::volume_limits;
    use super::super::super::disks::Disks;
    use super::*;

    fn brought(of: &[(&str, &str)]) -> Brought {
        let mut brought = Brought::new();
        for (driver, handle) in of {
            let disk = Arc::new(((*driver).to_owned(), (*handle).to_owned()));
            brought.entry((*driver).to_owned()).or_default().insert(disk);
        }
        brought
    }

    fn attached((driver, handle): &(&str, &str)) -> VolumeAttachment {
        serde_json::from_value(json!({"metadata": {}, "spec": {"attacher": driver, "nodeName": "n", "source":
            {"inlineVolumeSpec": {"csi": {"driver": driver, "volumeHandle": handle}}}}}))
        .unwrap()
    }

    #[test]
    fn volume_limit_counts_each_disk_once() {
        let node: CSINode = serde_json::from_value(json!({"metadata": {}, "spec": {"drivers": [
            {"name": "d", "nodeID": "n", "allocatable": {"count": 2}},
            {"name": "e", "nodeID": "n"}, {"name": "f", "nodeID": "n", "allocatable": {}},
            {"name": "z", "nodeID": "n", "allocatable": {"count": 0}}]}}))
        .unwrap();
        let limits = volume_limits(Some(&node));
        assert_eq!(limits.len(), 2);
        type Named<'a> = &'a [(&'a str, &'a str)];
        let table: [(&str, Named, Named, bool); 8] = [
            ("below the limit", &[("d", "1")], &[("d", "2")], true),
            ("full", &[("d", "3")], &[("d", "1"), ("d", "2")], false),
            ("full, but it is there", &[("d", "2")], &[("d", "1"), ("d", "2")], true),
            ("more than the limit there, nothing new", &[], &[("d", "1"), ("d", "2"), ("d", "3")], true),
            ("two together", &[("d", "2"), ("d", "3")], &[("d", "1")], false),
            ("another driver", &[("e", "1")], &[("d", "1"), ("d", "2")], true),
            ("no count", &[("f", "1")], &[], true),
            ("none at all", &[("z", "1")], &[], false),
        ];
        for (name, new, there, fits) in table {
            let wanted = if fits { Ok(()) } else { Err(Misfit::passing(Rule::Limits, REASON)) };
            let mut disks = Disks::default();
            assert!(disks.put_csi_node("n", Some(&node)), "{name}");
            for disk in there {
                disks.put_attachment(disk.1, Some(&attached(disk)));
            }
            assert_eq!(check(&brought(new), disks.on("n")), wanted, "{name}");
            assert_eq!(check(&brought(new), disks.on("m")), Ok(()), "{name}, where nothing is known");
        }
        assert_eq!(volume_limits(None), BTreeMap::new());
    }
}
