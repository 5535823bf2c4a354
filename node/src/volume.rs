//! Volumes of pods, as plugins see them. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};

/// The source of a volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// An inline volume of the pod.
    Inline(Arc<Volume>),
    /// The volume to which a claim of the pod is bound. Migrated in-tree volumes are already translated to their CSI
    /// driver.
    Persistent(Arc<PersistentVolume>),
}

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// Its name in the pod.
    pub name: String,
    /// Its source.
    pub source: Source,
    /// The claim through which the pod refers to it; `None` for an inline volume.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// Whether the pod has read-only access, because its claim reference or the source requests it.
    pub read_only: bool,
    /// Whether the pod requests a block device instead of a file system (`volumeMode: Block`).
    pub block: bool,
}

impl VolumeSpec {
    /// The name of its directory: the PersistentVolume, or the volume in the pod (upstream: volume.Spec.Name).
    pub fn dir_name(&self) -> &str {
        match &self.source {
            Source::Inline(_) => &self.name,
            Source::Persistent(volume) => volume.metadata.name.as_deref().unwrap_or_default(),
        }
    }

    /// Mount options of the PersistentVolume.
    pub fn mount_options(&self) -> &[String] {
        match &self.source {
            Source::Inline(_) => &[],
            Source::Persistent(volume) => {
                volume.spec.as_ref().and_then(|spec| spec.mount_options.as_deref()).unwrap_or_default()
            }
        }
    }
}

/// The identity of a pod in the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: distinguishes it from other pods of the same name.
    pub uid: String,
}

impl PodKey {
    /// The key of a pod from the API.
    pub fn of(pod: &Pod) -> Self {
        Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} ({})", self.namespace, self.name, self.uid)
    }
}
