//! `vsphereVolume` and the driver `csi.vsphere.vmware.com`.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, PersistentVolume, Volume, VsphereVirtualDiskVolumeSource,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::parameters::{self, Becomes};
use super::{Plugin, attribute, attributes, inline_volume, topology, with_source};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/vsphere-volume",
    driver: DRIVER,
    field: "vsphereVolume",
    id_field: "volumePath",
    is_source: |spec| spec.vsphere_volume.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "csi.vsphere.vmware.com";
const ZONE: &str = "topology.csi.vmware.com/zone";
const REGION: &str = "topology.csi.vmware.com/region";
const POLICY: &str = "storagepolicyname";
/// Informs the driver that it replaces the plugin; the driver then returns the path of the file ([`FILE`]).
const MIGRATION: &str = "csimigration";
const FILE: &str = "initialvolumefilepath";

fn csi(source: &VsphereVirtualDiskVolumeSource) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: source.volume_path.clone(),
        fs_type: source.fs_type.clone(),
        volume_attributes: attributes([(
            POLICY,
            source.storage_policy_name.clone().filter(|name| !name.is_empty()),
        )]),
        ..CSIPersistentVolumeSource::default()
    }
}

fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let source = csi(volume.spec.as_ref()?.vsphere_volume.as_ref()?);
    let mut volume = with_source(volume, |spec| {
        spec.vsphere_volume = None;
        spec.csi = Some(source);
    });
    topology::to_csi_with_region(&mut volume, ZONE, REGION);
    Some(volume)
}

fn inline_to_csi(volume: &Volume, _namespace: &str) -> Option<PersistentVolume> {
    let source = csi(volume.vsphere_volume.as_ref()?);
    let name = format!("{DRIVER}-{}", source.volume_handle);
    Some(inline_volume(name, source, "ReadWriteOnce"))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    let source = VsphereVirtualDiskVolumeSource {
        fs_type: csi.fs_type.clone(),
        volume_path: attribute(csi, FILE).unwrap_or_default().to_owned(),
        ..VsphereVirtualDiskVolumeSource::default()
    };
    let mut volume = with_source(volume, |spec| {
        spec.csi = None;
        spec.vsphere_volume = Some(source);
    });
    topology::from_csi_with_region(&mut volume, ZONE, REGION);
    Some(volume)
}

fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let mut class = class.clone();
    parameters::map(&mut class, |name| match name {
        "fstype" => parameters::fs_type(name),
        POLICY => Becomes::Names(&[POLICY]),
        "datastore" => Becomes::Names(&["datastore-migrationparam"]),
        "diskformat" => Becomes::Names(&["diskformat-migrationparam"]),
        "hostfailurestotolerate" => Becomes::Names(&["hostfailurestotolerate-migrationparam"]),
        "forceprovisioning" => Becomes::Names(&["forceprovisioning-migrationparam"]),
        "cachereservation" => Becomes::Names(&["cachereservation-migrationparam"]),
        "diskstripes" => Becomes::Names(&["diskstripes-migrationparam"]),
        "objectspacereservation" => Becomes::Names(&["objectspacereservation-migrationparam"]),
        "iopslimit" => Becomes::Names(&["iopslimit-migrationparam"]),
        _ => Becomes::Nothing,
    });
    class.parameters.get_or_insert_default().insert(MIGRATION.to_owned(), "true".to_owned());
    parameters::topologies(&mut class, ZONE);
    Some(class)
}
