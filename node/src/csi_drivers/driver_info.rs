//! Facts that a CSI driver reports about its node, and the Node and CSINode that follow from them (upstream:
//! pkg/volume/csi/nodeinfomanager). Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use orlop_client::meta::annotation;
use orlop_client::names::{ANN_CSI_NODE_IDS, ANN_MIGRATED_PLUGINS, MIGRATED_PLUGINS};
use orlop_csi::v1::NodeGetInfoResponse;
use serde_json::{Value, json};

/// Maximum size of the keys and values of a topology, bytes: four times the maximum of the specification (CSI: Size Limits). They
/// become labels of the Node.
const TOPOLOGY_MAX: usize = 16 << 10;

/// The facts that a driver reports about its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriverInfo {
    /// The driver's id of the node.
    pub(super) node_id: String,
    /// The maximum number of volumes on the node; none for no limit.
    pub(super) limit: Option<i32>,
    /// The topology segments of the node.
    pub(super) topology: BTreeMap<String, String>,
}

/// Why a driver cannot be used on this node.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DriverError {
    #[error("error adding CSI driver node info: driverNodeID must not be empty")]
    NoNodeId,
    #[error("the topology of the node has {0} bytes, the maximum is {TOPOLOGY_MAX}")]
    LargeTopology(usize),
    #[error(
        "detected topology value collision: driver reported {key:?}:{reported:?} but existing label is {key:?}:{there:?}"
    )]
    Collision { key: String, reported: String, there: String },
    #[error(
        "failed to parse node's {ANN_CSI_NODE_IDS:?} annotation value ({value:?}): {why}; correct or remove it"
    )]
    Annotation { value: String, why: String },
}

impl DriverInfo {
    /// Reads the answer of a driver. A negative limit counts as none, one that is too large as the largest.
    pub(super) fn of(answer: NodeGetInfoResponse) -> Result<Self, DriverError> {
        if answer.node_id.is_empty() {
            return Err(DriverError::NoNodeId);
        }
        let max = answer.max_volumes_per_node;
        let topology: BTreeMap<String, String> =
            answer.accessible_topology.map(|t| t.segments.into_iter().collect()).unwrap_or_default();
        let bytes = topology.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > TOPOLOGY_MAX {
            return Err(DriverError::LargeTopology(bytes));
        }
        Ok(Self {
            node_id: answer.node_id,
            limit: (max > 0).then(|| i32::try_from(max).unwrap_or(i32::MAX)),
            topology,
        })
    }

    fn entry(&self, driver: &str) -> CSINodeDriver {
        CSINodeDriver {
            name: driver.to_owned(),
            node_id: self.node_id.clone(),
            topology_keys: Some(self.topology.keys().cloned().collect()),
            allocatable: self.limit.map(|count| VolumeNodeResources { count: Some(count) }),
        }
    }
}

/// Builds the CSINode of a node without drivers.
pub(super) fn new_csi_node(node: &Node) -> CSINode {
    let name = node.metadata.name.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.clone(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let mut csi_node = CSINode {
        metadata: ObjectMeta {
            name: Some(name),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: CSINodeSpec { drivers: Vec::new() },
    };
    annotate(&mut csi_node);
    csi_node
}

/// Adds the annotation of the in-tree plugins that were migrated to CSI drivers. Returns false if it was there
/// already.
fn annotate(csi_node: &mut CSINode) -> bool {
    let wanted: BTreeSet<&str> = MIGRATED_PLUGINS.iter().map(|(plugin, _)| *plugin).collect();
    let given: BTreeSet<&str> =
        annotation(csi_node, ANN_MIGRATED_PLUGINS).unwrap_or_default().split(',').collect();
    if given == wanted {
        return false;
    }
    let value = wanted.into_iter().collect::<Vec<_>>().join(",");
    csi_node.metadata.annotations.get_or_insert_default().insert(ANN_MIGRATED_PLUGINS.to_owned(), value);
    true
}

/// The CSINode with the annotation of the migrated plugins; none if it already has it.
pub(super) fn annotated(csi_node: &CSINode) -> Option<CSINode> {
    let mut next = csi_node.clone();
    annotate(&mut next).then_some(next)
}

/// The next CSINode to write so that it lists a driver; none if it already does. Only the limit of an entry can
/// change in place: an entry with other differences is removed first, and the CSINode is then checked again.
pub(super) fn installed(csi_node: &CSINode, driver: &str, facts: &DriverInfo) -> Option<CSINode> {
    let mut next = csi_node.clone();
    let entry = facts.entry(driver);
    let annotated = annotate(&mut next);
    match next.spec.drivers.iter().position(|there| there.name == driver) {
        Some(at) if is_same(&next.spec.drivers[at], &entry) => {
            if next.spec.drivers[at].allocatable.as_ref().and_then(|a| a.count) == facts.limit && !annotated {
                return None;
            }
            next.spec.drivers[at].allocatable = entry.allocatable;
        }
        Some(at) => {
            next.spec.drivers.remove(at);
        }
        None => next.spec.drivers.push(entry),
    }
    Some(next)
}

/// Whether two entries are equal except for the limit.
fn is_same(there: &CSINodeDriver, entry: &CSINodeDriver) -> bool {
    let keys = |driver: &CSINodeDriver| -> BTreeSet<String> {
        driver.topology_keys.iter().flatten().cloned().collect()
    };
    there.node_id == entry.node_id && keys(there) == keys(entry)
}

/// The CSINode without a driver; none if it does not list the driver.
pub(super) fn removed(csi_node: &CSINode, driver: &str) -> Option<CSINode> {
    let mut next = csi_node.clone();
    next.spec.drivers.retain(|there| there.name != driver);
    (next.spec.drivers.len() < csi_node.spec.drivers.len()).then_some(next)
}

/// The patch that a Node needs for a driver; none if it needs no change.
pub(super) fn node_patch(
    node: &Node,
    driver: &str,
    facts: &DriverInfo,
) -> Result<Option<Value>, DriverError> {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut missing = BTreeMap::new();
    for (key, reported) in &facts.topology {
        match labels.get(key) {
            Some(there) if there == reported => {}
            Some(there) => {
                return Err(DriverError::Collision {
                    key: key.clone(),
                    reported: reported.clone(),
                    there: there.clone(),
                });
            }
            None => {
                missing.insert(key, reported);
            }
        }
    }
    let mut ids = node_ids(node)?;
    let known = ids.insert(driver.to_owned(), facts.node_id.clone());
    let mut patch = json!({});
    if !missing.is_empty() {
        patch["labels"] = json!(missing);
    }
    if known.as_ref() != Some(&facts.node_id) {
        patch["annotations"] = json!({ANN_CSI_NODE_IDS: text(&ids)});
    }
    Ok(with_version(node, patch))
}

/// The patch that a Node needs after a driver is removed. The topology labels stay: volumes may still need them
/// (upstream: the same).
pub(super) fn node_patch_removed(node: &Node, driver: &str) -> Result<Option<Value>, DriverError> {
    let mut ids = node_ids(node)?;
    if ids.remove(driver).is_none() {
        return Ok(None);
    }
    let value = if ids.is_empty() { Value::Null } else { json!(text(&ids)) };
    Ok(with_version(node, json!({"annotations": {ANN_CSI_NODE_IDS: value}})))
}

fn node_ids(node: &Node) -> Result<BTreeMap<String, String>, DriverError> {
    match annotation(node, ANN_CSI_NODE_IDS) {
        None | Some("") => Ok(BTreeMap::new()),
        Some(value) => serde_json::from_str(value)
            .map_err(|error| DriverError::Annotation { value: value.to_owned(), why: error.to_string() }),
    }
}

fn text(ids: &BTreeMap<String, String>) -> String {
    json!(ids).to_string()
}

/// A merge patch of the metadata, conditional on the resource version that was read.
fn with_version(node: &Node, mut metadata: Value) -> Option<Value> {
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    metadata["resourceVersion"] = json!(node.metadata.resource_version);
    Some(json!({"metadata": metadata}))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn facts(id: &str, max: i64, topology: &[(&str, &str)]) -> DriverInfo {
        let segments = topology.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let accessible_topology = Some(orlop_csi::v1::Topology { segments });
        DriverInfo::of(NodeGetInfoResponse {
            node_id: id.to_owned(),
            max_volumes_per_node: max,
            accessible_topology,
        })
        .unwrap()
    }

    fn node(metadata: Value) -> Node {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn negative_and_huge_limits_are_normalized() {
        for (max, expected) in [(0, None), (-1, None), (5, Some(5)), (i64::MAX, Some(i32::MAX))] {
            assert_eq!(facts("n", max, &[]).limit, expected, "{max}");
        }
        assert_eq!(DriverInfo::of(NodeGetInfoResponse::default()), Err(DriverError::NoNodeId));
    }

    #[test]
    fn large_topologies_are_refused() {
        for (count, is_large) in [(1024, false), (1025, true)] {
            let segments = (0..count).map(|n| (format!("{n:08}"), "12345678".to_owned())).collect();
            let answer = NodeGetInfoResponse {
                node_id: "n".to_owned(),
                accessible_topology: Some(orlop_csi::v1::Topology { segments }),
                ..NodeGetInfoResponse::default()
            };
            assert_eq!(
                matches!(DriverInfo::of(answer), Err(DriverError::LargeTopology(_))),
                is_large,
                "{count}"
            );
        }
    }

    #[test]
    fn changed_driver_entry_is_removed_before_it_is_added_again() {
        let empty = new_csi_node(&node(json!({"name": "n", "uid": "u"})));
        assert_eq!(empty.metadata.owner_references.as_ref().unwrap()[0].uid, "u");
        assert!(annotation(&empty, ANN_MIGRATED_PLUGINS).unwrap().contains("kubernetes.io/aws-ebs,"));
        let first = installed(&empty, "d", &facts("id", 3, &[("zone", "a")])).unwrap();
        assert_eq!(
            json!(first.spec.drivers),
            json!([{"name": "d", "nodeID": "id", "topologyKeys": ["zone"], "allocatable": {"count": 3}}])
        );
        assert_eq!(installed(&first, "d", &facts("id", 3, &[("zone", "b")])), None, "values are in labels");
        // Only the limit can change in place.
        let limit = installed(&first, "d", &facts("id", 4, &[("zone", "a")])).unwrap();
        assert_eq!(limit.spec.drivers[0].allocatable.as_ref().unwrap().count, Some(4));
        let unlimited = installed(&first, "d", &facts("id", 0, &[("zone", "a")])).unwrap();
        assert_eq!(unlimited.spec.drivers[0].allocatable, None);
        // Any other change removes the entry and adds it again.
        for other in [facts("other", 3, &[("zone", "a")]), facts("id", 3, &[])] {
            let gone = installed(&first, "d", &other).unwrap();
            assert_eq!(gone.spec.drivers, []);
            assert_eq!(installed(&gone, "d", &other).unwrap().spec.drivers[0].node_id, other.node_id);
        }
        let two = installed(&first, "e", &facts("id", 0, &[])).unwrap();
        assert_eq!(removed(&two, "d").unwrap().spec.drivers[0].name, "e");
        assert_eq!(removed(&two, "f"), None);
        let mut bare = first.clone();
        bare.metadata.annotations = None;
        assert_eq!(installed(&bare, "d", &facts("id", 3, &[("zone", "a")])), Some(first));
    }

    #[test]
    fn node_patch_sets_and_removes_a_driver() {
        let zone = facts("id", 0, &[("zone", "a")]);
        let patch = |metadata: Value| node_patch(&node(metadata), "d", &zone);
        let ids = r#"{"d":"id"}"#;
        assert_eq!(
            patch(json!({"resourceVersion": "7"})),
            Ok(Some(json!({"metadata": {"labels": {"zone": "a"}, "resourceVersion": "7",
                "annotations": {ANN_CSI_NODE_IDS: ids}}})))
        );
        let there = json!({"labels": {"zone": "a"}, "annotations": {ANN_CSI_NODE_IDS: ids}});
        assert_eq!(patch(there.clone()), Ok(None));
        let error = patch(json!({"labels": {"zone": "b"}})).unwrap_err().to_string();
        assert_eq!(
            error,
            "detected topology value collision: driver reported \"zone\":\"a\" but existing label is \"zone\":\"b\""
        );
        assert!(patch(json!({"annotations": {ANN_CSI_NODE_IDS: "{"}})).is_err());
        let other = json!({"annotations": {ANN_CSI_NODE_IDS: r#"{"d":"id","e":"x"}"#}});
        let left = node_patch_removed(&node(other), "d").unwrap().unwrap();
        assert_eq!(left["metadata"]["annotations"][ANN_CSI_NODE_IDS], r#"{"e":"x"}"#);
        let last = node_patch_removed(&node(there), "d").unwrap().unwrap();
        assert_eq!(last["metadata"]["annotations"][ANN_CSI_NODE_IDS], Value::Null);
        assert_eq!(node_patch_removed(&node(json!({})), "d"), Ok(None));
    }
}
