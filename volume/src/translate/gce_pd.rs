//! `gcePersistentDisk` and the driver `pd.csi.storage.gke.io`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, GCEPersistentDiskVolumeSource, PersistentVolume, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::{Plugin, attribute, attributes, inline_volume, parameters, topology, with_source};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/gce-pd",
    driver: DRIVER,
    field: "gcePersistentDisk",
    id_field: "pdName",
    is_source: |spec| spec.gce_persistent_disk.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "pd.csi.storage.gke.io";
const ZONE: &str = "topology.gke.io/zone";
const PARTITION: &str = "partition";
/// Placeholder in a handle for a part that the source does not specify; the driver determines it from the node.
const UNSPECIFIED: &str = "UNSPECIFIED";
/// Number of parts in `projects/P/zones/Z/disks/D`.
const PARTS: usize = 6;

fn csi(source: &GCEPersistentDiskVolumeSource, handle: String) -> CSIPersistentVolumeSource {
    let partition = source.partition.filter(|number| *number != 0).map(|number| number.to_string());
    CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: handle,
        read_only: source.read_only,
        fs_type: source.fs_type.clone(),
        volume_attributes: attributes([(PARTITION, Some(partition.unwrap_or_default()))]),
        ..CSIPersistentVolumeSource::default()
    }
}

fn zonal(zone: &str, disk: &str) -> String {
    format!("projects/{UNSPECIFIED}/zones/{zone}/disks/{disk}")
}

fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let source = volume.spec.as_ref()?.gce_persistent_disk.as_ref()?;
    let zones = topology::zones_of_label(volume);
    let handle = match zones.len() {
        0 => zonal(UNSPECIFIED, &source.pd_name),
        1 => zonal(zones.first()?, &source.pd_name),
        _ => format!("projects/{UNSPECIFIED}/regions/{}/disks/{}", region(&zones)?, source.pd_name),
    };
    let source = csi(source, handle);
    let mut volume = with_source(volume, |spec| {
        spec.gce_persistent_disk = None;
        spec.csi = Some(source);
        spec.access_modes = spec.access_modes.take().map(|modes| vec![mode(&modes).to_owned()]);
    });
    topology::to_csi(&mut volume, ZONE);
    Some(volume)
}

/// The access mode for the driver. The plugin accepted all modes and attached the volume for writing to one node;
/// the driver rejects modes that it does not support.
fn mode(modes: &[String]) -> &'static str {
    let has = |mode: &str| modes.iter().any(|known| known == mode);
    let only_reads = has("ReadOnlyMany") && !has("ReadWriteOnce") && !has("ReadWriteMany");
    if only_reads { "ReadOnlyMany" } else { "ReadWriteOnce" }
}

fn inline_to_csi(volume: &Volume, _namespace: &str) -> Option<PersistentVolume> {
    let source = volume.gce_persistent_disk.as_ref()?;
    let mode = if source.read_only == Some(true) { "ReadOnlyMany" } else { "ReadWriteOnce" };
    let name = format!("{DRIVER}-{}", source.pd_name);
    Some(inline_volume(name, csi(source, zonal(UNSPECIFIED, &source.pd_name)), mode))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    let parts: Vec<&str> = csi.volume_handle.split('/').collect();
    if parts.len() < PARTS {
        return None;
    }
    let partition = attribute(csi, PARTITION).filter(|text| !text.is_empty());
    let source = GCEPersistentDiskVolumeSource {
        pd_name: parts[PARTS - 1].to_owned(),
        fs_type: csi.fs_type.clone(),
        read_only: csi.read_only,
        partition: partition.map(str::parse).transpose().ok()?,
    };
    let mut volume = with_source(volume, |spec| {
        spec.csi = None;
        spec.gce_persistent_disk = Some(source);
    });
    topology::from_csi(&mut volume, ZONE, Some(region))?;
    Some(volume)
}

fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let mut class = class.clone();
    parameters::map(&mut class, parameters::fs_type);
    parameters::zones(&mut class, ZONE)?;
    Some(class)
}

/// The region of the zones: `us-central1` for `us-central1-a`.
fn region(zones: &BTreeSet<String>) -> Option<String> {
    topology::one_region(zones, |zone| match zone.split('-').collect::<Vec<_>>().as_slice() {
        [place, region, _] => Some(format!("{place}-{region}")),
        _ => None,
    })
}
