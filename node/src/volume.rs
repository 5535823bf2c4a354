//! What a volume of a pod is, as plugins need it. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};

/// Where a volume comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// It stands in the pod itself.
    Inline(Arc<Volume>),
    /// A claim of the pod is bound to it. In-tree volumes whose CSI driver took them over are translated before they come here.
    Persistent(Arc<PersistentVolume>),
}

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// Its name in the pod.
    pub name: String,
    /// What it is.
    pub source: Source,
    /// The claim through which the pod has it; none for an inline volume.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// The pod may only read it: its claim reference or the source says so.
    pub read_only: bool,
    /// The pod wants the device, not a file system (`volumeMode: Block`).
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

/// A pod, as rooms of the agent name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: another pod of the same name is another pod.
    pub uid: String,
}

impl PodKey {
    /// The key of a pod that came from the API.
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
