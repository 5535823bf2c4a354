//! `portworxVolume` and the driver `pxd.portworx.com`.

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, PersistentVolume, PortworxVolumeSource, SecretReference, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;

use super::parameters::{self, Becomes};
use super::{Plugin, inline_volume, with_source};
use orlop_client::meta::annotation;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "kubernetes.io/portworx-volume",
    driver: DRIVER,
    field: "portworxVolume",
    id_field: "volumeID",
    is_source: |spec| spec.portworx_volume.is_some(),
    to_csi,
    inline_to_csi,
    from_csi,
    class_to_csi,
};

const DRIVER: &str = "pxd.portworx.com";
/// The key in the plugin's classes and volumes that names the secret with its token.
const SECRET: &str = "openstorage.io/auth-secret-name";
const SECRET_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
/// The parameters for the secrets of all operations of a driver; all of them get this secret.
const SECRETS: [&str; 6] = [
    "csi.storage.k8s.io/provisioner-secret-name",
    "csi.storage.k8s.io/controller-publish-secret-name",
    "csi.storage.k8s.io/node-publish-secret-name",
    "csi.storage.k8s.io/node-stage-secret-name",
    "csi.storage.k8s.io/controller-expand-secret-name",
    "csi.storage.k8s.io/node-expand-secret-name",
];
const SECRET_NAMESPACES: [&str; 6] = [
    "csi.storage.k8s.io/provisioner-secret-namespace",
    "csi.storage.k8s.io/controller-publish-secret-namespace",
    "csi.storage.k8s.io/node-publish-secret-namespace",
    "csi.storage.k8s.io/node-stage-secret-namespace",
    "csi.storage.k8s.io/controller-expand-secret-namespace",
    "csi.storage.k8s.io/node-expand-secret-namespace",
];

fn csi(source: &PortworxVolumeSource, secret: Option<SecretReference>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: source.volume_id.clone(),
        fs_type: source.fs_type.clone(),
        controller_publish_secret_ref: secret.clone(),
        node_stage_secret_ref: secret.clone(),
        node_publish_secret_ref: secret.clone(),
        controller_expand_secret_ref: secret.clone(),
        node_expand_secret_ref: secret,
        ..CSIPersistentVolumeSource::default()
    }
}

fn to_csi(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let source = volume.spec.as_ref()?.portworx_volume.as_ref()?;
    let secret = annotation(volume, SECRET).zip(annotation(volume, SECRET_NAMESPACE));
    let secret = secret.map(|(name, namespace)| SecretReference {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
    });
    let source = csi(source, secret);
    Some(with_source(volume, |spec| {
        spec.portworx_volume = None;
        spec.csi = Some(source);
    }))
}

fn inline_to_csi(volume: &Volume, _namespace: &str) -> Option<PersistentVolume> {
    let source = volume.portworx_volume.as_ref()?;
    let mode = if source.read_only == Some(true) { "ReadOnlyMany" } else { "ReadWriteOnce" };
    Some(inline_volume(format!("{DRIVER}-{}", source.volume_id), csi(source, None), mode))
}

fn from_csi(volume: &PersistentVolume, csi: &CSIPersistentVolumeSource) -> Option<PersistentVolume> {
    let source = PortworxVolumeSource {
        volume_id: csi.volume_handle.clone(),
        fs_type: csi.fs_type.clone(),
        read_only: csi.read_only,
    };
    Some(with_source(volume, |spec| {
        spec.csi = None;
        spec.portworx_volume = Some(source);
    }))
}

fn class_to_csi(class: &StorageClass) -> Option<StorageClass> {
    let mut class = class.clone();
    parameters::map(&mut class, |name| match name {
        SECRET => Becomes::Names(&SECRETS),
        SECRET_NAMESPACE => Becomes::Names(&SECRET_NAMESPACES),
        _ => Becomes::Itself,
    });
    DRIVER.clone_into(&mut class.provisioner);
    Some(class)
}
