//! `cinder` and the driver `cinder.csi.openstack.org`.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, CinderPersistentVolumeSource, PersistentVolume, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::{Plugin, inline_volume, parameters, topology, with_source};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/cinder",
    driver: DRIVER,
    field: "cinder",
    id_field: "volumeID",
    is_source: |spec| spec.cinder.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "cinder.csi.openstack.org";
const ZONE: &str = "topology.cinder.csi.openstack.org/zone";

fn csi(id: &str, fs_type: Option<&String>, read_only: Option<bool>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: id.to_owned(),
        read_only,
        fs_type: fs_type.cloned(),
        ..CSIPersistentVolumeSource::default()
    }
}

fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let source = volume.spec.as_ref()?.cinder.as_ref()?;
    let source = csi(&source.volume_id, source.fs_type.as_ref(), source.read_only);
    let mut volume = with_source(volume, |spec| {
        spec.cinder = None;
        spec.csi = Some(source);
    });
    topology::to_csi(&mut volume, ZONE);
    Some(volume)
}

fn inline_to_csi(volume: &Volume, _namespace: &str) -> Option<PersistentVolume> {
    let source = volume.cinder.as_ref()?;
    let name = format!("{DRIVER}-{}", source.volume_id);
    let source = csi(&source.volume_id, source.fs_type.as_ref(), source.read_only);
    Some(inline_volume(name, source, "ReadWriteOnce"))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    let source = CinderPersistentVolumeSource {
        volume_id: csi.volume_handle.clone(),
        fs_type: csi.fs_type.clone(),
        read_only: csi.read_only,
        secret_ref: None,
    };
    let mut volume = with_source(volume, |spec| {
        spec.csi = None;
        spec.cinder = Some(source);
    });
    // A zone's name does not contain its region.
    topology::from_csi(&mut volume, ZONE, None)?;
    Some(volume)
}

/// The driver accepts the plugin's parameters, including `availability`.
fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let mut class = class.clone();
    parameters::map(&mut class, parameters::fs_type);
    parameters::topologies(&mut class, ZONE);
    Some(class)
}
