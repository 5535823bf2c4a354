//! Volumes as the attach/detach controller names them: the unique name, the name of the VolumeAttachment, and whether only
//! one node may attach the volume. Pure.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, Volume};

use orlop_volume::attachment;
use orlop_volume::csi::handle::{self, of_unique_name, unique_name};
use orlop_volume::translate::{inline_to_csi, to_csi};

/// A volume on a node: the unit of reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    /// Unique name of the volume.
    pub(super) volume: Arc<str>,
    /// Name of the node.
    pub(super) node: Arc<str>,
}

impl Key {
    #[cfg(test)]
    pub(super) fn new(volume: &str, node: &str) -> Self {
        Self { volume: volume.into(), node: node.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.volume, self.node)
    }
}

/// The way in which a volume is attached to its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// By a VolumeAttachment that the attacher of this driver answers.
    Csi {
        /// The driver.
        driver: Box<str>,
        /// The driver's name of the volume.
        handle: Box<str>,
    },
    /// The node attaches it (iSCSI, Fibre Channel); the controller only permits it.
    NodeAlone,
}

/// A volume that can be attached.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    /// Unique name, see [`unique_name`].
    pub(super) unique: Arc<str>,
    /// Its name in events: the PersistentVolume, or the inline volume.
    pub(super) title: Box<str>,
    /// The way in which it is attached.
    pub(super) means: Means,
    /// One node at a time: the volume's access modes contain neither ReadWriteMany nor ReadOnlyMany. A volume without modes and
    /// an inline volume may be on several nodes.
    pub(super) exclusive: bool,
    /// The source of an inline volume, for its VolumeAttachment; none for a PersistentVolume.
    pub(super) inline: Option<Box<PersistentVolumeSpec>>,
}

/// The unique name of a PersistentVolume, as in `volumesInUse` of nodes; `None` for a kind that is not attached.
pub fn unique_name_of(volume: &PersistentVolume) -> Option<String> {
    Spec::of_volume(volume).map(|spec| spec.unique.to_string())
}

impl Spec {
    /// Name of the PersistentVolume; none for an inline volume.
    pub(super) fn persistent_volume(&self) -> Option<&str> {
        self.inline.is_none().then_some(&*self.title)
    }

    /// The CSI driver.
    pub(super) fn driver(&self) -> Option<&str> {
        match &self.means {
            Means::Csi { driver, .. } => Some(driver),
            Means::NodeAlone => None,
        }
    }

    /// The attachable part of a PersistentVolume; `None` for a kind that is not attached.
    // Tests: AD-011, AD-013, AD-049, AD-103, AD-104
    pub(super) fn of_volume(volume: &PersistentVolume) -> Option<Self> {
        let spec = volume.spec.as_ref()?;
        let title = volume.metadata.name.as_deref()?;
        let exclusive = is_exclusive(spec);
        let node_alone = |unique: String| Self {
            unique: unique.into(),
            title: title.into(),
            means: Means::NodeAlone,
            exclusive,
            inline: None,
        };
        if let Some(source) = &spec.iscsi {
            return Some(node_alone(iscsi_name(&source.target_portal, &source.iqn, source.lun)));
        }
        if let Some(source) = &spec.fc {
            return fc_name(source.target_wwns.as_deref(), source.lun, source.wwids.as_deref())
                .map(node_alone);
        }
        let translated;
        let csi = match handle::source(volume) {
            Some(csi) => csi,
            None => {
                translated = to_csi(volume)?;
                handle::source(&translated)?
            }
        };
        let means =
            Means::Csi { driver: csi.driver.as_str().into(), handle: csi.volume_handle.as_str().into() };
        let unique = unique_name(&csi.driver, &csi.volume_handle).into();
        Some(Self { unique, title: title.into(), means, exclusive, inline: None })
    }

    /// The attachable part of a volume in the pod's spec. Inline CSI volumes are never attached.
    // Tests: AD-010, AD-012, AD-023
    pub(super) fn of_inline(volume: &Volume, namespace: &str) -> Option<Self> {
        let node_alone = |unique: String| Self {
            unique: unique.into(),
            title: volume.name.as_str().into(),
            means: Means::NodeAlone,
            exclusive: false,
            inline: Some(Box::default()),
        };
        if let Some(source) = &volume.iscsi {
            return Some(node_alone(iscsi_name(&source.target_portal, &source.iqn, source.lun)));
        }
        if let Some(source) = &volume.fc {
            return fc_name(source.target_wwns.as_deref(), source.lun, source.wwids.as_deref())
                .map(node_alone);
        }
        let translated = inline_to_csi(volume, namespace)?;
        let mut spec = Self::of_volume(&translated)?;
        // Upstream: IsMultiAttachAllowed names these two.
        spec.exclusive = volume.cinder.is_some() || volume.azure_disk.is_some();
        let mut source = translated.spec?;
        // The API refuses it in an inline source.
        source.capacity = None;
        spec.inline = Some(Box::new(source));
        Some(spec)
    }
}

/// The PersistentVolume's modes decide, not the claim's. Upstream: IsMultiAttachAllowed.
fn is_exclusive(spec: &PersistentVolumeSpec) -> bool {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    !modes.is_empty() && !modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}

fn iscsi_name(portal: &str, iqn: &str, lun: i32) -> String {
    format!("kubernetes.io/iscsi/{portal}:{iqn}:{lun}")
}

/// As Go prints lists: `[a b]`.
fn fc_name(wwns: Option<&[String]>, lun: Option<i32>, wwids: Option<&[String]>) -> Option<String> {
    match (wwns.filter(|names| !names.is_empty()), lun, wwids.filter(|ids| !ids.is_empty())) {
        (Some(names), Some(lun), _) => Some(format!("kubernetes.io/fc/[{}]:{lun}", names.join(" "))),
        (Some(_) | None, _, Some(ids)) => Some(format!("kubernetes.io/fc/[{}]", ids.join(" "))),
        (Some(_) | None, _, None) => None,
    }
}

/// The digest in the name of the VolumeAttachment of a volume on a node: SHA-256 over handle, driver and node without separators. None for
/// a volume that needs no VolumeAttachment.
// Tests: AD-101
pub(super) fn digest(key: &Key) -> Option<[u8; 32]> {
    let (driver, handle) = of_unique_name(&key.volume)?;
    Some(attachment::digest(driver, handle, &key.node))
}

/// The digest in the name of a VolumeAttachment; `None` if the name has no digest.
pub(super) fn digest_of_name(name: &str) -> Option<[u8; 32]> {
    let hex = name.strip_prefix(attachment::PREFIX)?;
    let mut digest = [0; 32];
    if hex.len() != 2 * digest.len() || !hex.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
