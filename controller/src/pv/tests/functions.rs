//! Tests of the pure functions, one small table each. `FN-NODE-13` of the verified cases is omitted: it needs a
//! feature gate that is always on in 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::ObjectMeta;
use serde_json::json;

use super::notation::{canonical, parse, render};
use super::own_index::WIDE;
use crate::pv::cache::may_replace;
use crate::pv::index::VolumeIndex;
use crate::pv::migration::{correct_claim_mark, correct_deletion_finalizers, correct_volume_mark};
use orlop_client::names::migrated_driver;
use orlop_client::packed_object::PackedObject;
use orlop_volume::affinity::accepts_node;
use orlop_volume::class::delays_binding;
use orlop_volume::modes::ModeSet;
use orlop_volume::object;

pub(super) fn volume(line: &str) -> PersistentVolume {
    serde_json::from_value(parse(line)).unwrap()
}

pub(super) fn claim(line: &str) -> PersistentVolumeClaim {
    serde_json::from_value(parse(line)).unwrap()
}

fn class(line: &str) -> StorageClass {
    serde_json::from_value(parse(line)).unwrap()
}

pub(super) fn index(lines: &[&str]) -> VolumeIndex {
    let mut index = VolumeIndex::default();
    for line in lines {
        let volume = Arc::new(volume(line));
        index.insert(PackedObject::new(Arc::clone(&volume)), &volume);
    }
    index
}

/// id, volume, resulting finalizers, whether something changed
const FINALIZERS: &[(&str, &str, &[&str], bool)] = &[
    (
        "FN-FINAL-13-1",
        "pv a 1Gi RWO Bound policy=Delete fin=external-provisioner.volume.kubernetes.io/finalizer @provisioned-by=rbd.csi.ceph.com",
        &["external-provisioner.volume.kubernetes.io/finalizer"],
        false,
    ),
    (
        "FN-FINAL-13-3",
        "pv a 1Gi RWO Bound policy=Delete fin=test.volume.kubernetes.io/finalizer @provisioned-by=kubernetes.io/mock-volume",
        &["test.volume.kubernetes.io/finalizer", "kubernetes.io/pv-controller"],
        true,
    ),
    (
        "FN-FINAL-13-8",
        "pv a 1Gi RWO Bound policy=Delete fin=external-provisioner.volume.kubernetes.io/finalizer @provisioned-by=kubernetes.io/mock-volume",
        &["kubernetes.io/pv-controller"],
        true,
    ),
    (
        "FN-FINAL-13-9",
        "pv a 1Gi RWO Bound policy=Delete fin=external-provisioner.volume.kubernetes.io/finalizer fin=test.volume.kubernetes.io/finalizer @provisioned-by=kubernetes.io/mock-volume",
        &["test.volume.kubernetes.io/finalizer", "kubernetes.io/pv-controller"],
        true,
    ),
    (
        "FN-FINAL-13-10",
        "pv a 1Gi RWO Bound policy=Delete fin=external-provisioner.volume.kubernetes.io/finalizer",
        &["external-provisioner.volume.kubernetes.io/finalizer"],
        false,
    ),
    ("FN-FINAL-13-11", "pv a 1Gi RWO Bound policy=Delete", &[], false),
    ("FN-FINAL-13-12", "pv a 1Gi RWO Bound @provisioned-by=kubernetes.io/mock-volume", &[], false),
    (
        "FN-FINAL-13-14",
        "pv a 1Gi RWO Bound fin=kubernetes.io/pv-controller @provisioned-by=kubernetes.io/mock-volume",
        &[],
        true,
    ),
    ("FN-FINAL-13-15", "pv a 1Gi RWO Available policy=Delete", &[], false),
    (
        "NEW-FINAL-MIGRATED",
        "pv a 1Gi RWO Bound policy=Delete fin=kubernetes.io/pv-controller fin=external-provisioner.volume.kubernetes.io/finalizer @provisioned-by=kubernetes.io/gce-pd",
        &["external-provisioner.volume.kubernetes.io/finalizer"],
        true,
    ),
];

#[test]
fn deletion_finalizers_follow_policy_and_provisioner() {
    for (id, line, finalizers, changed) in FINALIZERS {
        let mut volume = volume(line);
        assert_eq!(correct_deletion_finalizers(&mut volume, migrated_driver), *changed, "{id}");
        assert_eq!(volume.metadata.finalizers.unwrap_or_default(), *finalizers, "{id}");
    }
}

/// id, annotations of the volume, annotations of the claim, and both afterwards
const MIGRATION: &[(&str, [&str; 2], [&str; 2])] = &[
    (
        "FN-MIGANN-ON",
        ["@provisioned-by=kubernetes.io/gce-pd", "@provisioner=kubernetes.io/gce-pd"],
        [
            "@provisioned-by=kubernetes.io/gce-pd @migrated-to=pd.csi.storage.gke.io",
            "@provisioner=kubernetes.io/gce-pd @migrated-to=pd.csi.storage.gke.io",
        ],
    ),
    (
        "FN-MIGANN-ON-BETA",
        ["@provisioned-by=kubernetes.io/gce-pd", "@beta-provisioner=kubernetes.io/gce-pd"],
        [
            "@provisioned-by=kubernetes.io/gce-pd @migrated-to=pd.csi.storage.gke.io",
            "@beta-provisioner=kubernetes.io/gce-pd @migrated-to=pd.csi.storage.gke.io",
        ],
    ),
    (
        "FN-MIGANN-OFF",
        ["@provisioned-by=kubernetes.io/rbd", "@provisioner=kubernetes.io/rbd"],
        ["@provisioned-by=kubernetes.io/rbd", "@provisioner=kubernetes.io/rbd"],
    ),
    (
        "FN-MIGANN-ROLLBACK",
        [
            "@provisioned-by=kubernetes.io/rbd @migrated-to=rbd.csi.ceph.com",
            "@provisioner=kubernetes.io/rbd @migrated-to=rbd.csi.ceph.com",
        ],
        ["@provisioned-by=kubernetes.io/rbd", "@provisioner=kubernetes.io/rbd"],
    ),
    (
        "FN-MIGANN-ROLLBACK-BETA",
        [
            "@provisioned-by=kubernetes.io/rbd @migrated-to=rbd.csi.ceph.com",
            "@beta-provisioner=kubernetes.io/rbd @migrated-to=rbd.csi.ceph.com",
        ],
        ["@provisioned-by=kubernetes.io/rbd", "@beta-provisioner=kubernetes.io/rbd"],
    ),
];

#[test]
fn migration_marks_follow_the_migrated_driver() {
    for (id, before, after) in MIGRATION {
        let [pv, pvc] = before;
        let mut volume = volume(&format!("pv a 1Gi RWO Bound {pv}"));
        let mut claim = claim(&format!("pvc ns/c u 1Gi RWO Bound {pvc}"));
        assert_eq!(correct_volume_mark(&mut volume, migrated_driver), before[0] != after[0], "{id}");
        assert_eq!(correct_claim_mark(&mut claim, migrated_driver), before[1] != after[1], "{id}");
        let mut have = [serde_json::to_value(&volume).unwrap(), serde_json::to_value(&claim).unwrap()];
        let [pv, pvc] = after;
        let want = [format!("pv a 1Gi RWO Bound {pv}"), format!("pvc ns/c u 1Gi RWO Bound {pvc}")];
        for (have, want) in have.iter_mut().zip(want) {
            assert_eq!(render(have), canonical(&want), "{id}");
        }
        // The correction is idempotent.
        assert!(!correct_volume_mark(&mut volume, migrated_driver), "{id}");
        assert!(!correct_claim_mark(&mut claim, migrated_driver), "{id}");
    }
}

/// Volumes with node affinity: `key1=value1` and so on. The test sets the attributes class.
const ON_NODES: &[&str] = &[
    "pv small 5G RWO,ROX Available",
    "pv large-200e 200E RWO,ROX Available class=large",
    "pv n1-100g 100G RWO,ROX Available class=wait node=value1",
    "pv n1-150g 150G RWO,ROX Available class=wait node=value1",
    "pv n1-100g-for-c2 100G RWO,ROX Available class=wait ref=default/claim02 node=value1",
    "pv n3-200g 200G RWO,ROX Available class=wait node=value3",
    "pv n4-200g-pending 200G RWO,ROX Pending class=wait node=value4",
];

/// id, claim, its attributes class, that of the volumes, node, excluded, found
type OnNode = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
);

const FOR_NODE: &[OnNode] = &[
    ("FN-NODE-1", "claim01", "", "", "value1", &[], Some("n1-100g")),
    ("FN-NODE-2", "claim02", "", "", "value1", &[], Some("n1-100g-for-c2")),
    ("FN-NODE-6", "claim01", "", "", "value2", &[], None),
    ("FN-NODE-7", "claim02", "", "", "value3", &[], None),
    ("FN-NODE-9", "claim03", "", "", "value3", &[], Some("n3-200g")),
    ("FN-NODE-10", "claim01", "gold", "gold", "value1", &[], Some("n1-100g")),
    ("FN-NODE-11", "claim01", "gold", "", "value1", &[], None),
    ("FN-NODE-12", "claim02", "silver", "gold", "value1", &[], None),
    ("NEW-NODE-EXCLUDED", "claim01", "", "", "value1", &["n1-100g"], Some("n1-150g")),
    ("NEW-NODE-PENDING", "claim01", "", "", "value4", &[], None),
];

#[test]
fn search_for_a_node_respects_affinity_and_reservations() {
    for (id, name, wants, have, node, excluded, expected) in FOR_NODE {
        let lines: Vec<String> = ON_NODES
            .iter()
            .map(|line| {
                let (line, node) = line.split_once(" node=").unwrap_or((line, ""));
                let vac = if have.is_empty() { String::new() } else { format!(" vac={have}") };
                let required = json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
                    [{"key": "key1", "operator": "In", "values": [node]}]}]}});
                let affinity = if node.is_empty() { String::new() } else { format!(" affinity={required}") };
                format!("{line}{vac}{affinity}")
            })
            .collect();
        let index = index(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let vac = if wants.is_empty() { String::new() } else { format!("vac={wants}") };
        let claim = claim(&format!("pvc default/{name} uid-{name} 100G RWO Pending class=wait {vac}"));
        let labels = BTreeMap::from([("key1".to_owned(), (*node).to_owned())]);
        let excluded: BTreeSet<String> = excluded.iter().map(|name| (*name).to_owned()).collect();
        let mut by_label = VolumeIndex::for_nodes();
        for name in index.names() {
            let kept = index.get_kept(name).unwrap();
            by_label.insert(kept.clone(), &kept.get());
        }
        for index in [&index, &by_label] {
            let search = index.search(&claim);
            let found = search
                .as_ref()
                .and_then(|search| index.find_for_node(search, &labels, |name| !excluded.contains(name)));
            assert_eq!(found.map(|kept| kept.key().as_ref()), *expected, "{id}");
        }
    }
}

#[test]
fn node_affinity_matches_labels_per_operator() {
    let term = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let table = [
        ("FN-AFF-2", json!({}), true),
        ("FN-AFF-4", json!({"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}}), false),
        (
            "FN-AFF-5",
            json!({"required": {"nodeSelectorTerms": [
                {"matchExpressions": [term("test-key3", "In", &["test-value1", "test-value3"])]},
                {"matchExpressions": [term("test-key2", "In", &["test-value0", "test-value2"])]}]}}),
            true,
        ),
        (
            "FN-AFF-8",
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                term("test-key1", "In", &["test-value3", "test-value4"]),
                term("test-key2", "In", &["test-value0", "test-value2"])]}]}}),
            false,
        ),
        (
            "NEW-AFF-NOTIN",
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                term("absent", "NotIn", &["x"]), term("number", "Gt", &["4"]), term("number", "Lt", &["6"])]}]}}),
            true,
        ),
        (
            "NEW-AFF-UNKNOWN",
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [term("number", "Near", &["5"])]}]}}),
            false,
        ),
    ];
    let labels = [("test-key1", "test-value1"), ("test-key2", "test-value2"), ("number", "5")];
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    for (id, affinity, expected) in table {
        let volume = volume(&format!("pv a 1Gi RWO Available affinity={affinity}"));
        assert_eq!(accepts_node(&volume, &labels), expected, "{id}");
    }
}

#[test]
fn older_or_invalid_versions_do_not_replace_cached_objects() {
    let table = [
        ("FN-CACHE-3", "1", "2", Some(true)),
        ("FN-CACHE-4", "2", "1", Some(false)),
        ("FN-CACHE-5", "2", "10", Some(true)),
        ("FN-CACHE-6", "1", "xxx", None),
        ("NEW-CACHE-EQUAL", "2", "2", Some(true)),
    ];
    let meta =
        |version: &str| ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() };
    for (id, cached, incoming, expected) in table {
        assert_eq!(may_replace(&meta(cached), &meta(incoming)).ok(), expected, "{id}");
    }
}

#[test]
fn binding_mode_of_the_class_decides_about_the_delay() {
    let table = [
        ("FN-DELAY-MISSING", None, Some(false)),
        ("FN-DELAY-NOMODE", Some("sc no-mode kubernetes.io/no-provisioner mode=-"), None),
        ("FN-DELAY-WAIT", Some("sc wait kubernetes.io/no-provisioner mode=WaitForFirstConsumer"), Some(true)),
        ("NEW-DELAY-IMMEDIATE", Some("sc imm kubernetes.io/no-provisioner"), Some(false)),
    ];
    for (id, line, expected) in table {
        assert_eq!(delays_binding(line.map(class).as_ref()).ok(), expected, "{id}");
    }
}

#[test]
fn search_leaves_a_delayed_claim_to_the_scheduler() {
    let claim = claim("pvc default/c-1 uid-c-1 8G ROX,RWO Pending");
    let found = index(WIDE).find(&claim, true).is_some();
    assert!(!found, "IDX-DELAYED");
}

#[test]
fn volumes_of_all_modes_are_ordered_by_size() {
    let mut index = index(WIDE);
    let mut found = Vec::new();
    for class in ["", "class=large"] {
        let claim = claim(&format!("pvc default/c uid-c 0 RWO,ROX,RWX Pending {class}"));
        while let Some(volume) = index.find(&claim, false) {
            let name = object::name(&volume.metadata).to_owned();
            index.remove(&name);
            found.push(name);
        }
    }
    let expected = ["all-1g", "all-5g", "all-10g", "all-200e-large", "all-800e-large"];
    assert_eq!(found, expected, "IDX-LIST-2");
}

#[test]
fn only_supersets_of_the_requested_modes_qualify() {
    let sets: BTreeSet<ModeSet> =
        WIDE.iter().map(|line| ModeSet::offered(orlop_volume::fit::offered_modes(&volume(line)))).collect();
    let wanted = ModeSet::requested(&["ReadWriteMany".to_owned()]).unwrap();
    let serving =
        (0..=4).flat_map(|count| ModeSet::supersets(wanted, count)).filter(|set| sets.contains(set));
    assert_eq!(serving.count(), 1, "IDX-POSSIBLE-2");
}
