//! Sources of volumes that were part of Kubernetes, as those of the CSI drivers that took them over, and back.
//!
//! Kubernetes has no code of its own for these sources any more: whoever attaches, mounts, provisions or counts such a volume
//! looks at it as the driver knows it. Nothing here is written anywhere; objects keep the source they have. One file
//! per plugin says how its fields map; `topology` has what zones and regions have in common, `parameters` the same for classes.
//!
//! Pure functions. Upstream: k8s.io/csi-translation-lib.

mod aws_ebs;
mod azure_disk;
mod azure_file;
mod cinder;
mod gce_pd;
mod parameters;
mod portworx;
mod topology;
mod vsphere;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A plugin that a driver took over.
struct Plugin {
    /// Its name, as classes have it.
    name: &'static str,
    driver: &'static str,
    /// The field of a volume's source.
    field: &'static str,
    /// The field of that source that identifies the volume.
    id_field: &'static str,
    /// The volume is one of its own.
    is_source: fn(&PersistentVolumeSpec) -> bool,
    /// `None` for a volume of another source, too.
    to_csi: fn(&PersistentVolume) -> Option<PersistentVolume>,
    inline_to_csi: fn(&Volume, &str) -> Option<PersistentVolume>,
    from_csi: fn(&PersistentVolume, &CSIPersistentVolumeSource) -> Option<PersistentVolume>,
    class_to_csi: fn(&StorageClass) -> Option<StorageClass>,
}

const PLUGINS: [Plugin; 7] = [
    aws_ebs::PLUGIN,
    gce_pd::PLUGIN,
    azure_disk::PLUGIN,
    azure_file::PLUGIN,
    cinder::PLUGIN,
    vsphere::PLUGIN,
    portworx::PLUGIN,
];

/// Where an in-tree source keeps the identifier of its volume, and the driver that replaced its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTreeSource {
    /// The driver.
    pub driver: &'static str,
    /// The field of the source, in the spec of a PersistentVolume and in a volume of a pod.
    pub field: &'static str,
    /// The field of the source that identifies the volume.
    pub id_field: &'static str,
}

/// The in-tree sources that drivers have replaced.
pub fn in_tree_sources() -> impl Iterator<Item = InTreeSource> {
    PLUGINS.iter().map(|plugin| InTreeSource {
        driver: plugin.driver,
        field: plugin.field,
        id_field: plugin.id_field,
    })
}

/// The driver that has taken over the source of a volume; `None` for any other source, a CSI one among them.
pub fn driver_of(volume: &PersistentVolume) -> Option<&'static str> {
    let spec = volume.spec.as_ref()?;
    PLUGINS.iter().find(|plugin| (plugin.is_source)(spec)).map(|plugin| plugin.driver)
}

/// The volume with the CSI source that stands for its own, and with its zones as the driver calls them. `None` if no driver
/// took its source over ([`driver_of`] tells), or if the driver has no way to name what the source says.
pub fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    PLUGINS.iter().find_map(|plugin| (plugin.to_csi)(volume))
}

/// A volume that a pod in `namespace` names itself, as a PersistentVolume with the CSI source that stands for it. Its name
/// is one for all pods that name the same storage. `None` as with [`to_csi`].
pub fn inline_to_csi(volume: &Volume, namespace: &str) -> Option<PersistentVolume> {
    PLUGINS.iter().find_map(|plugin| (plugin.inline_to_csi)(volume, namespace))
}

/// The volume with the source that its CSI source stands for, for classes whose provisioner a driver took over: what
/// they provision looks as it always has. `None` if its driver took nothing over, or if the handle is none of the source's.
pub fn from_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    let plugin = PLUGINS.iter().find(|plugin| plugin.driver == csi.driver)?;
    (plugin.from_csi)(volume, csi)
}

/// The class with parameters and topologies as the driver understands them. The provisioner stays as it is but for Portworx:
/// whoever asks the driver knows its name ([`orlop_client::names::migrated_driver`]). `None` if no driver took the provisioner over, or
/// if the class contradicts itself (zones in its parameters and in its topologies).
pub fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let plugin = PLUGINS.iter().find(|plugin| plugin.name == class.provisioner)?;
    (plugin.class_to_csi)(class)
}

/// A copy of a volume with another source; `change` takes the old one away and puts the new one in.
fn with_source(
    volume: &PersistentVolume,
    change: impl FnOnce(&mut PersistentVolumeSpec),
) -> PersistentVolume {
    let mut volume = volume.clone();
    change(volume.spec.get_or_insert_default());
    volume
}

/// The PersistentVolume of a volume in a pod. Such volumes are file systems.
fn inline_volume(name: String, source: CSIPersistentVolumeSource, mode: &str) -> PersistentVolume {
    PersistentVolume {
        metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeSpec {
            csi: Some(source),
            access_modes: Some(vec![mode.to_owned()]),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// Attributes of a CSI source; none at all if there are none.
fn attributes<const N: usize>(pairs: [(&str, Option<String>); N]) -> Option<BTreeMap<String, String>> {
    let there = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Some(there.collect()).filter(|map: &BTreeMap<_, _>| !map.is_empty())
}

/// The attribute of a CSI source.
fn attribute<'s>(source: &'s CSIPersistentVolumeSource, key: &str) -> Option<&'s str> {
    source.volume_attributes.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;
