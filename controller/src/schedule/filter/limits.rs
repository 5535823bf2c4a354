//! How many volumes of a CSI driver a node takes, as its CSINode says.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::storage::v1::CSINode;

use super::super::volumes::CsiDisk;
use super::{Misfit, Rule};

const REASON: &str = "node(s) exceed max volume count";

/// The limits that a node has, by driver. A driver without one takes any number.
pub fn limits(node: Option<&CSINode>) -> BTreeMap<String, usize> {
    let drivers = node.into_iter().flat_map(|node| &node.spec.drivers);
    let limit = |count: i32| usize::try_from(count).unwrap_or(0);
    drivers
        .filter_map(|driver| Some((driver.name.clone(), limit(driver.allocatable.as_ref()?.count?))))
        .collect()
}

/// The rule: `new` volumes beside those that are `there`, each counted once.
pub fn check(
    new: &BTreeSet<CsiDisk>,
    there: &BTreeSet<CsiDisk>,
    limits: &BTreeMap<String, usize>,
) -> Result<(), Misfit> {
    let of = |disks: &mut dyn Iterator<Item = &CsiDisk>, driver: &str| {
        disks.filter(|(name, _)| name == driver).count()
    };
    let exceeded = limits.iter().any(|(driver, limit)| {
        let more = of(&mut new.difference(there), driver);
        more > 0 && of(&mut there.iter(), driver) + more > *limit
    });
    if exceeded { Err(Misfit::passing(Rule::Limits, REASON)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn disks(of: &[(&str, &str)]) -> BTreeSet<CsiDisk> {
        of.iter().map(|(driver, handle)| ((*driver).to_owned(), (*handle).to_owned())).collect()
    }

    #[test]
    fn how_many_volumes_a_node_takes() {
        let node: CSINode = serde_json::from_value(json!({"metadata": {}, "spec": {"drivers": [
            {"name": "d", "nodeID": "n", "allocatable": {"count": 2}},
            {"name": "e", "nodeID": "n"}, {"name": "f", "nodeID": "n", "allocatable": {}},
            {"name": "z", "nodeID": "n", "allocatable": {"count": 0}}]}}))
        .unwrap();
        let limits = limits(Some(&node));
        assert_eq!(limits.len(), 2);
        type Disks<'a> = &'a [(&'a str, &'a str)];
        let table: [(&str, Disks, Disks, bool); 8] = [
            ("room", &[("d", "1")], &[("d", "2")], true),
            ("full", &[("d", "3")], &[("d", "1"), ("d", "2")], false),
            ("full, but it is there", &[("d", "2")], &[("d", "1"), ("d", "2")], true),
            ("more than the limit there, nothing new", &[], &[("d", "1"), ("d", "2"), ("d", "3")], true),
            ("two at once", &[("d", "2"), ("d", "3")], &[("d", "1")], false),
            ("another driver", &[("e", "1")], &[("d", "1"), ("d", "2")], true),
            ("no count", &[("f", "1")], &[], true),
            ("none at all", &[("z", "1")], &[], false),
        ];
        for (name, new, there, fits) in table {
            let wanted = if fits { Ok(()) } else { Err(Misfit::passing(Rule::Limits, REASON)) };
            assert_eq!(check(&disks(new), &disks(there), &limits), wanted, "{name}");
        }
        assert_eq!(super::limits(None), BTreeMap::new());
    }
}
