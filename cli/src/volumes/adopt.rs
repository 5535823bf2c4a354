//! Builds the PersistentVolume of a volume that the API does not know. Pure.

use orlop_apimachinery::names::dns_subdomain;
use orlop_csi::v1::list_volumes_response::Entry;
use orlop_csi::v1::{Topology, Volume};
use serde_json::{Value, json};

use crate::args::VolumeMode;

/// How the volume is used; a driver's list does not contain that.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) access_modes: Vec<String>,
    pub(super) mode: VolumeMode,
}

/// The PersistentVolume: without a claim, and with policy Retain.
pub(super) fn persistent_volume(driver: &str, entry: &Entry, how: &Use) -> Value {
    let volume = entry.volume.clone().unwrap_or_default();
    let mode = match how.mode {
        VolumeMode::Filesystem => "Filesystem",
        VolumeMode::Block => "Block",
    };
    let mut csi = json!({"driver": driver, "volumeHandle": volume.volume_id});
    if !volume.volume_context.is_empty() {
        csi["volumeAttributes"] = json!(volume.volume_context);
    }
    let mut object = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name(&volume), "annotations": {orlop_client::names::ANN_PROVISIONED_BY: driver}},
        "spec": {
            "capacity": {"storage": volume.capacity_bytes.to_string()},
            "accessModes": how.access_modes,
            "volumeMode": mode,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": csi,
        },
    });
    if let Some(affinity) = affinity(&volume.accessible_topology) {
        object["spec"]["nodeAffinity"] = affinity;
    }
    object
}

/// The node affinity: one of these topologies, each with all of its segments.
fn affinity(places: &[Topology]) -> Option<Value> {
    let terms: Vec<Value> = places
        .iter()
        .filter(|place| !place.segments.is_empty())
        .map(|place| {
            let mut segments: Vec<_> = place.segments.iter().collect();
            segments.sort();
            let expressions: Vec<Value> = segments
                .into_iter()
                .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
                .collect();
            json!({"matchExpressions": expressions})
        })
        .collect();
    (!terms.is_empty()).then(|| json!({"required": {"nodeSelectorTerms": terms}}))
}

/// The handle, or if the handle is not a valid name, its valid characters and a hash that keeps two of them
/// apart.
fn name(volume: &Volume) -> String {
    let handle = &volume.volume_id;
    if dns_subdomain(handle).is_empty() {
        return handle.clone();
    }
    let clean = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let clean: String = handle.chars().map(clean).take(200).collect();
    format!("volume-{}-{:016x}", clean.trim_matches('-'), sum(handle)).replace("--", "-")
}

/// FNV-1a, which is stable across platforms and versions.
fn sum(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(handle: &str) -> Volume {
        Volume { volume_id: handle.to_owned(), capacity_bytes: 1024, ..Volume::default() }
    }

    #[test]
    fn names_are_valid_and_unique() {
        assert_eq!(name(&volume("vol-1")), "vol-1");
        for handle in ["Projects/P", "projects/p", "", "--", "ä", &"x/".repeat(300)] {
            let made = name(&volume(handle));
            assert!(dns_subdomain(&made).is_empty(), "{handle:?}: {made}");
        }
        assert_ne!(name(&volume("a/b")), name(&volume("a_b")));
    }

    #[test]
    fn adopted_volume_is_retained_and_unclaimed() {
        let mut given = volume("vol-1");
        given.volume_context = [("a".to_owned(), "1".to_owned())].into();
        let segments = [("zone".to_owned(), "z".to_owned()), ("rack".to_owned(), "r".to_owned())].into();
        given.accessible_topology = vec![Topology { segments }];
        let entry = Entry { volume: Some(given), status: None };
        let how = Use { access_modes: vec!["ReadWriteOnce".to_owned()], mode: VolumeMode::Filesystem };
        let made = persistent_volume("d", &entry, &how);
        let wanted = json!({"capacity": {"storage": "1024"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "d", "volumeHandle": "vol-1", "volumeAttributes": {"a": "1"}},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "rack", "operator": "In", "values": ["r"]},
                {"key": "zone", "operator": "In", "values": ["z"]}]}]}}});
        assert_eq!((&made["spec"], &made["metadata"]["name"]), (&wanted, &json!("vol-1")));
    }
}
