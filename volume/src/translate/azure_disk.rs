//! `azureDisk` and the driver `disk.csi.azure.com`.

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, CSIPersistentVolumeSource, PersistentVolume, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::parameters::{self, Becomes};
use super::{Plugin, attributes, inline_volume, with_source};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/azure-disk",
    driver: DRIVER,
    field: "azureDisk",
    id_field: "diskURI",
    is_source: |spec| spec.azure_disk.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "disk.csi.azure.com";
const ZONE: &str = "topology.disk.csi.azure.com/zone";
/// The only kind of disk that the driver supports.
const MANAGED: &str = "Managed";
const KIND: &str = "kind";
const CACHING: &str = "cachingmode";
const FS_TYPE: &str = "fstype";

fn csi(source: &AzureDiskVolumeSource, caching: Option<String>) -> Option<CSIPersistentVolumeSource> {
    if source.kind.as_ref().is_some_and(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
        return None;
    }
    Some(CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: source.disk_uri.clone(),
        read_only: source.read_only,
        fs_type: source.fs_type.clone(),
        volume_attributes: attributes([
            (KIND, Some(MANAGED.to_owned())),
            (CACHING, caching),
            (FS_TYPE, source.fs_type.clone()),
        ]),
        ..CSIPersistentVolumeSource::default()
    })
}

fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let source = volume.spec.as_ref()?.azure_disk.as_ref()?;
    let source = csi(source, source.caching_mode.clone())?;
    Some(with_source(volume, |spec| {
        spec.azure_disk = None;
        spec.csi = Some(source);
    }))
}

fn inline_to_csi(volume: &Volume, _namespace: &str) -> Option<PersistentVolume> {
    let source = volume.azure_disk.as_ref()?;
    let caching = source.caching_mode.clone().filter(|mode| !mode.is_empty());
    Some(inline_volume(source.disk_uri.clone(), csi(source, caching)?, "ReadWriteOnce"))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    // The driver writes attribute names in upper or lower case.
    let attribute = |name: &str| {
        let mut all = csi.volume_attributes.iter().flatten();
        let (_, value) = all.find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_empty())?;
        Some(value.clone())
    };
    let source = AzureDiskVolumeSource {
        disk_name: disk_name(&csi.volume_handle)?.to_owned(),
        disk_uri: csi.volume_handle.clone(),
        caching_mode: attribute(CACHING),
        fs_type: attribute(FS_TYPE).or_else(|| Some(csi.fs_type.clone().unwrap_or_default())),
        kind: Some(MANAGED.to_owned()),
        read_only: Some(csi.read_only.unwrap_or(false)),
    };
    Some(with_source(volume, |spec| {
        spec.csi = None;
        spec.azure_disk = Some(source);
    }))
}

/// The name in `.../subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/disks/NAME`, or in `http://.../vhds/NAME`.
fn disk_name(uri: &str) -> Option<&str> {
    let is_http = uri.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("http"));
    let name = if is_http {
        let (before, name) = uri.rsplit_once("/vhds/")?;
        (before.starts_with("http") && before.contains("://")).then_some(name)?
    } else {
        let (before, name) = uri.rsplit_once("/providers/Microsoft.Compute/disks/")?;
        let (_, groups) = before.split_once("/subscriptions/")?;
        groups.contains("/resourceGroups/").then_some(name)?
    };
    Some(name).filter(|name| !name.is_empty())
}

fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let mut class = class.clone();
    parameters::map(&mut class, |_| Becomes::Itself);
    parameters::zones(&mut class, ZONE)?;
    // In regions without zones, failure domains are numbers; the driver treats each of them as no zone.
    let ours = parameters::expressions(&mut class).filter(|expression| expression.key == ZONE);
    for value in ours.flat_map(|expression| &mut expression.values) {
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            value.clear();
        }
    }
    Some(class)
}
