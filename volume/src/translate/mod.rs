//! Translation of in-tree volume sources to the sources of the CSI drivers that replaced them, and back.
//!
//! Kubernetes no longer has its own code for these sources: code that attaches, mounts, provisions or counts such
//! a volume uses its CSI form. The translation writes nothing; objects keep their source. One file per plugin
//! maps its fields; `topology` contains the common code for zones and regions, `parameters` that for classes.
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

/// An in-tree plugin that a driver replaced.
struct Plugin {
    /// The plugin's name in storage classes.
    name: &'static str,
    driver: &'static str,
    /// The field of a volume that contains the source.
    field: &'static str,
    /// The field of that source that identifies the volume.
    id_field: &'static str,
    /// Whether the volume has this plugin's source.
    is_source: fn(&PersistentVolumeSpec) -> bool,
    /// Also `None` for a volume with another source.
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

/// The field with a volume's identifier in an in-tree source, and the driver that replaced its plugin.
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

/// The driver that replaced the in-tree source of a volume; `None` for any other source, including CSI.
pub fn driver_of(volume: &PersistentVolume) -> Option<&'static str> {
    let spec = volume.spec.as_ref()?;
    PLUGINS.iter().find(|plugin| (plugin.is_source)(spec)).map(|plugin| plugin.driver)
}

/// The volume with its source translated to CSI, and its zones under the driver's key. `None` if no driver
/// replaced its source (see [`driver_of`]), or if the source has no equivalent in the driver.
pub fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    PLUGINS.iter().find_map(|plugin| (plugin.to_csi)(volume))
}

/// An inline volume of a pod in `namespace`, as a PersistentVolume with the equivalent CSI source. All pods that
/// use the same storage get the same name. `None` as for [`to_csi`].
pub fn inline_to_csi(volume: &Volume, namespace: &str) -> Option<PersistentVolume> {
    PLUGINS.iter().find_map(|plugin| (plugin.inline_to_csi)(volume, namespace))
}

/// The volume with its CSI source translated back, for classes of a provisioner that a driver replaced: their
/// volumes keep the in-tree form. `None` if the driver replaced no plugin, or if the handle is invalid for the
/// in-tree source.
pub fn from_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    let plugin = PLUGINS.iter().find(|plugin| plugin.driver == csi.driver)?;
    (plugin.from_csi)(volume, csi)
}

/// The class with its parameters and topologies translated for the driver. The provisioner is unchanged except
/// for Portworx: a caller of the driver knows its name ([`orlop_client::names::migrated_driver`]). `None` if no
/// driver replaced the provisioner, or if the class contradicts itself (zones in its parameters and in its
/// topologies).
pub fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let plugin = PLUGINS.iter().find(|plugin| plugin.name == class.provisioner)?;
    (plugin.class_to_csi)(class)
}

/// A copy of a volume with another source; `change` removes the old source and sets the new one.
fn with_source(
    volume: &PersistentVolume,
    change: impl FnOnce(&mut PersistentVolumeSpec),
) -> PersistentVolume {
    let mut volume = volume.clone();
    change(volume.spec.get_or_insert_default());
    volume
}

/// The PersistentVolume for an inline volume of a pod. Such volumes are file systems.
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

/// The attributes of a CSI source; `None` if all are absent.
fn attributes<const N: usize>(pairs: [(&str, Option<String>); N]) -> Option<BTreeMap<String, String>> {
    let there = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Some(there.collect()).filter(|map: &BTreeMap<_, _>| !map.is_empty())
}

/// An attribute of a CSI source.
fn attribute<'s>(source: &'s CSIPersistentVolumeSource, key: &str) -> Option<&'s str> {
    source.volume_attributes.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;
