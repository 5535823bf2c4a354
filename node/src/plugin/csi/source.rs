//! The CSI source of a volume: driver, handle, access mode, secrets. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use orlop_csi::capabilities::{NodeCapabilities, NodeRpc};
use orlop_csi::v1::VolumeCapability;
use orlop_csi::v1::volume_capability::AccessType;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use orlop_volume::csi::modes::Access;
use sha2::{Digest, Sha256};

use crate::paths::hex;
use crate::plugin::PluginError;
use crate::volume::{Source, VolumeSpec};

/// Separates driver and handle.
pub(super) const SEPARATOR: char = '^';

/// The lifecycle mode of a volume (upstream: storage.VolumeLifecycleMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeLifecycle {
    /// A PersistentVolume.
    Persistent,
    /// An inline volume, which exists as long as its pod.
    Ephemeral,
}

impl VolumeLifecycle {
    /// The name in the API and in the record on disk.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            VolumeLifecycle::Persistent => "Persistent",
            VolumeLifecycle::Ephemeral => "Ephemeral",
        }
    }
}

/// The CSI source of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CsiSource {
    /// The driver. A single path component.
    pub(super) driver: String,
    /// The handle of a PersistentVolume; none for an inline volume, whose handle depends on the pod.
    handle: Option<String>,
    pub(super) life: VolumeLifecycle,
    pub(super) access: Access,
    /// The first access mode.
    mode: Option<String>,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) stage_secret: Option<SecretReference>,
    pub(super) expand_secret: Option<SecretReference>,
    /// Without a namespace, the secret is in the pod's namespace.
    publish_secret: Option<SecretReference>,
}

impl CsiSource {
    /// Reads the CSI source of a volume.
    ///
    /// # Errors
    /// The volume has none, or names no driver.
    pub(super) fn of(spec: &VolumeSpec) -> Result<Self, PluginError> {
        let none = || PluginError::plain("kubernetes.io/csi: volume source not found in volume.Spec");
        let source = match &spec.source {
            Source::Persistent(volume) => {
                let stored = volume.spec.as_ref().ok_or_else(none)?;
                let csi = stored.csi.clone().ok_or_else(none)?;
                let access = match spec.block {
                    true => Access::Block,
                    false => Access::Mount {
                        fs_type: csi.fs_type.unwrap_or_default(),
                        options: stored.mount_options.clone().unwrap_or_default(),
                    },
                };
                Self {
                    driver: csi.driver,
                    handle: Some(csi.volume_handle),
                    life: VolumeLifecycle::Persistent,
                    access,
                    mode: stored.access_modes.iter().flatten().next().cloned(),
                    attributes: csi.volume_attributes.unwrap_or_default(),
                    stage_secret: csi.node_stage_secret_ref,
                    expand_secret: csi.node_expand_secret_ref,
                    publish_secret: csi.node_publish_secret_ref,
                }
            }
            Source::Inline(volume) => {
                let csi = volume.csi.clone().ok_or_else(none)?;
                let secret = csi.node_publish_secret_ref;
                Self {
                    driver: csi.driver,
                    handle: None,
                    life: VolumeLifecycle::Ephemeral,
                    access: Access::Mount { fs_type: csi.fs_type.unwrap_or_default(), options: Vec::new() },
                    mode: None,
                    attributes: csi.volume_attributes.unwrap_or_default(),
                    stage_secret: None,
                    expand_secret: None,
                    publish_secret: secret
                        .map(|secret| SecretReference { name: Some(secret.name), namespace: None }),
                }
            }
        };
        // The driver's name becomes a directory name.
        if source.driver.is_empty()
            || source.driver.contains(['/', SEPARATOR])
            || source.driver.starts_with('.')
        {
            let message = format!("kubernetes.io/csi: {:?} is no name of a CSI driver", source.driver);
            return Err(PluginError::plain(message));
        }
        Ok(source)
    }

    /// The handle of a PersistentVolume.
    ///
    /// # Errors
    /// It is an inline volume.
    pub(super) fn persistent_handle(&self) -> Result<&str, PluginError> {
        let inline = || PluginError::plain("kubernetes.io/csi: a volume of a pod has no global mount");
        self.handle.as_deref().ok_or_else(inline)
    }

    /// The handle of the volume in this pod.
    pub(super) fn handle(&self, pod_uid: &str, name_in_pod: &str) -> String {
        self.handle.clone().unwrap_or_else(|| inline_handle(pod_uid, name_in_pod))
    }

    /// The secret of NodePublishVolume.
    pub(super) fn publish_secret(&self, namespace: &str) -> Option<SecretReference> {
        let mut secret = self.publish_secret.clone()?;
        secret.namespace.get_or_insert_with(|| namespace.to_owned());
        Some(secret)
    }

    /// The file system type; empty for the driver's default and for devices.
    pub(super) fn fs_type(&self) -> &str {
        match &self.access {
            Access::Block => "",
            Access::Mount { fs_type, .. } => fs_type,
        }
    }

    /// The capability to request from the driver. `group` is passed to drivers that apply it themselves.
    pub(super) fn capability(&self, can: &NodeCapabilities, group: Option<i64>) -> VolumeCapability {
        let single = can.can(NodeRpc::SingleNodeMultiWriter);
        let mut capability = self.access.capability(mode_of(self.mode.as_deref(), single));
        if let (Some(AccessType::Mount(mount)), Some(group)) = (&mut capability.access_type, group)
            && can.can(NodeRpc::VolumeMountGroup)
        {
            mount.volume_mount_group = group.to_string();
        }
        capability
    }
}

/// The first access mode of a volume in the form for node services; none counts as ReadWriteOnce (upstream:
/// csi_client.go, asCSIAccessModeV1 and asSingleNodeMultiWriterCapableCSIAccessModeV1).
fn mode_of(mode: Option<&str>, single_node_modes: bool) -> Mode {
    match (mode, single_node_modes) {
        (None | Some("ReadWriteOnce"), true) => Mode::SingleNodeMultiWriter,
        (None | Some("ReadWriteOnce"), false) => Mode::SingleNodeWriter,
        (Some("ReadWriteOncePod"), true) => Mode::SingleNodeSingleWriter,
        (Some("ReadWriteOncePod"), false) => Mode::SingleNodeWriter,
        (Some("ReadOnlyMany"), _) => Mode::MultiNodeReaderOnly,
        (Some("ReadWriteMany"), _) => Mode::MultiNodeMultiWriter,
        (Some(_), _) => Mode::Unknown,
    }
}

/// The handle of an inline volume (upstream: makeVolumeHandle).
fn inline_handle(pod_uid: &str, name_in_pod: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(pod_uid);
    hash.update(name_in_pod);
    format!("csi-{}", hex(&hash.finalize()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn persistent(spec: Value, block: bool) -> VolumeSpec {
        let volume = json!({"metadata": {"name": "pv"}, "spec": spec});
        let source = Source::Persistent(Arc::new(serde_json::from_value(volume).unwrap()));
        VolumeSpec { name: "v".to_owned(), source, claim: None, read_only: false, block }
    }

    #[test]
    fn first_access_mode_is_used() {
        for (modes, old, new) in [
            (json!(null), Mode::SingleNodeWriter, Mode::SingleNodeMultiWriter),
            (json!(["ReadWriteOnce", "ReadWriteMany"]), Mode::SingleNodeWriter, Mode::SingleNodeMultiWriter),
            (json!(["ReadWriteOncePod"]), Mode::SingleNodeWriter, Mode::SingleNodeSingleWriter),
            (json!(["ReadOnlyMany"]), Mode::MultiNodeReaderOnly, Mode::MultiNodeReaderOnly),
            (json!(["ReadWriteMany"]), Mode::MultiNodeMultiWriter, Mode::MultiNodeMultiWriter),
            (json!(["Odd"]), Mode::Unknown, Mode::Unknown),
        ] {
            let spec = json!({"accessModes": modes, "csi": {"driver": "d", "volumeHandle": "h"}});
            let csi = CsiSource::of(&persistent(spec, false)).unwrap();
            let access_mode = |rpcs: &[NodeRpc]| {
                let capability = csi.capability(&NodeCapabilities::of(rpcs), None);
                capability.access_mode.unwrap().mode()
            };
            assert_eq!(
                (access_mode(&[]), access_mode(&[NodeRpc::SingleNodeMultiWriter])),
                (old, new),
                "{modes}"
            );
        }
    }

    #[test]
    fn group_is_passed_to_drivers_that_apply_it() {
        let spec = json!({"mountOptions": ["noatime"], "csi": {"driver": "d", "volumeHandle": "h", "fsType": "xfs"}});
        let group = |block, rpcs: &[NodeRpc]| {
            let csi = CsiSource::of(&persistent(spec.clone(), block)).unwrap();
            match csi.capability(&NodeCapabilities::of(rpcs), Some(7)).access_type.unwrap() {
                AccessType::Mount(mount) => {
                    assert_eq!(
                        (mount.fs_type.as_str(), mount.mount_flags.as_slice()),
                        ("xfs", &["noatime".to_owned()][..])
                    );
                    Some(mount.volume_mount_group)
                }
                AccessType::Block(_) => None,
            }
        };
        assert_eq!(group(false, &[]).as_deref(), Some(""));
        assert_eq!(group(false, &[NodeRpc::VolumeMountGroup]).as_deref(), Some("7"));
        assert_eq!(group(true, &[NodeRpc::VolumeMountGroup]), None);
    }

    #[test]
    fn invalid_sources_are_rejected() {
        let errors = [
            json!({"nfs": {"server": "s", "path": "/"}}),
            json!({"csi": {"driver": "../x", "volumeHandle": "h"}}),
            json!({"csi": {"driver": "", "volumeHandle": "h"}}),
            json!({"csi": {"driver": "..", "volumeHandle": "h"}}),
        ]
        .map(|spec| CsiSource::of(&persistent(spec, false)).unwrap_err().to_string());
        assert!(errors[0].contains("volume source not found"), "{errors:?}");
        assert!(errors[1..].iter().all(|error| error.contains("is no name of a CSI driver")), "{errors:?}");
    }

    #[test]
    fn inline_volume_handle_is_a_hash_of_pod_and_name() {
        // sha256("uidvol")
        let expected = "csi-".to_owned() + &hex(&Sha256::digest("uidvol"));
        assert_eq!(inline_handle("uid", "vol"), expected);
    }
}
