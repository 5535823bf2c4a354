//! Construction of recycler pods: the built-in template or one from a file, the volume's source and the time
//! limit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PersistentVolume, Pod, PodSpec, Volume, VolumeMount};
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_client::api::Json as _;

use crate::{fit, object};

/// The namespace of recycler pods.
pub const NAMESPACE: &str = "default";
/// The name prefix of recycler pods; the volume's name follows.
pub const NAME_PREFIX: &str = "recycler-for-";
/// Upstream's image; any image with a shell, coreutils and findutils works.
const IMAGE: &str = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6";
/// Fails unless the volume is mounted, all of its content was deleted, and nothing is left.
const SCRIPT: &str =
    "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";
/// Bytes in a GiB.
const GIB: i64 = 1 << 30;

/// Settings of a recycler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecyclerOptions {
    /// `--pv-recycler-pod-template-filepath-nfs`, `-hostpath`: file with a pod to use instead of the built-in one.
    pub pod_template_filepath: Option<PathBuf>,
    /// `--pv-recycler-minimum-timeout-nfs`, `-hostpath`.
    pub minimum_timeout: Duration,
    /// `--pv-recycler-increment-timeout-nfs`, `--pv-recycler-timeout-increment-hostpath`: per GiB of the volume.
    pub increment_timeout: Duration,
}

impl RecyclerOptions {
    /// Upstream's defaults for NFS volumes.
    pub fn nfs() -> Self {
        Self::with_minimum(Duration::from_secs(300))
    }

    /// Upstream's defaults for host path volumes.
    pub fn host_path() -> Self {
        Self::with_minimum(Duration::from_secs(60))
    }

    fn with_minimum(minimum_timeout: Duration) -> Self {
        Self { pod_template_filepath: None, minimum_timeout, increment_timeout: Duration::from_secs(30) }
    }
}

/// The template of recycler pods for one kind of volume.
#[derive(Clone, Debug)]
pub struct PodRecipe {
    template: Pod,
    minimum: Duration,
    per_gib: Duration,
}

/// Why a pod template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read the recycler pod template {path}: {message}")]
    Read {
        /// The file.
        path: String,
        /// The error message.
        message: String,
    },
    /// The file does not contain a pod.
    #[error("the recycler pod template {path} is no pod in YAML or JSON: {message}")]
    Parse {
        /// The file.
        path: String,
        /// The error message.
        message: String,
    },
    /// The pod has no volume to scrub.
    #[error("the recycler pod template {path} has no volume; it needs one, whose source will be replaced")]
    NoVolume {
        /// The file.
        path: String,
    },
}

impl PodRecipe {
    /// The recipe for these options.
    pub fn new(options: &RecyclerOptions) -> Result<Self, RecipeError> {
        let template = match options.pod_template_filepath.as_deref() {
            Some(path) => read_template(path)?,
            None => standard_pod(),
        };
        Ok(Self { template, minimum: options.minimum_timeout, per_gib: options.increment_timeout })
    }

    /// The pod that scrubs `volume`. `set_source` writes the volume's source into the pod's first volume.
    pub fn pod(&self, volume: &PersistentVolume, set_source: impl FnOnce(&mut Volume)) -> Pod {
        let mut pod = self.template.clone();
        pod.metadata.name = Some(format!("{NAME_PREFIX}{}", object::name(&volume.metadata)));
        pod.metadata.generate_name = None;
        pod.metadata.namespace = Some(pod.metadata.namespace.unwrap_or_else(|| NAMESPACE.to_owned()));
        let spec = pod.spec.get_or_insert_default();
        spec.active_deadline_seconds =
            Some(i64::try_from(self.timeout(volume).as_secs()).unwrap_or(i64::MAX));
        let volumes = spec.volumes.get_or_insert_default();
        if let Some(first) = volumes.first_mut() {
            *first = Volume { name: std::mem::take(&mut first.name), ..Volume::default() };
            set_source(first);
        }
        pod
    }

    /// The time limit of the pod: grows with the size, never below the minimum.
    fn timeout(&self, volume: &PersistentVolume) -> Duration {
        let bytes = fit::capacity(volume).map_or(0, |capacity| capacity.value());
        let gib = u32::try_from(bytes / GIB).unwrap_or(0);
        self.per_gib.saturating_mul(gib).max(self.minimum)
    }
}

fn read_template(path: &Path) -> Result<Pod, RecipeError> {
    let shown = || path.display().to_string();
    let text = input_file::read_text(path, MAX_CONFIG)
        .map_err(|error| RecipeError::Read { path: shown(), message: error.to_string() })?;
    let unreadable = |message| RecipeError::Parse { path: shown(), message };
    let pod: serde_json::Value =
        serde_saphyr::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    let pod = Pod::from_value(&pod).map_err(|error| unreadable(error.to_string()))?;
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).map_or(0, Vec::len);
    if volumes == 0 {
        return Err(RecipeError::NoVolume { path: shown() });
    }
    Ok(pod)
}

/// The built-in template; its volume has no source yet.
pub fn standard_pod() -> Pod {
    let container = Container {
        name: "pv-recycler".to_owned(),
        image: Some(IMAGE.to_owned()),
        command: Some(vec!["/bin/sh".to_owned()]),
        args: Some(vec!["-c".to_owned(), SCRIPT.to_owned()]),
        volume_mounts: Some(vec![VolumeMount {
            name: "vol".to_owned(),
            mount_path: "/scrub".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    Pod {
        metadata: kube::core::ObjectMeta { namespace: Some(NAMESPACE.to_owned()), ..Default::default() },
        spec: Some(PodSpec {
            restart_policy: Some("Never".to_owned()),
            containers: vec![container],
            volumes: Some(vec![Volume { name: "vol".to_owned(), ..Volume::default() }]),
            ..PodSpec::default()
        }),
        status: None,
    }
}
