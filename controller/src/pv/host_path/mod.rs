//! The hostPath plugin, for single-node clusters and tests: recycles volumes with a pod, deletes only in directories that the
//! operator allows, and provisions only if a flag allows it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolume, PersistentVolumeSpec};

use super::plugin::{DeleteError, Deleter, Order, Provisioner, Recycler, VolumePlugin};
use super::recycle::PodRunner;
use orlop_client::names;
use orlop_volume::file_location::FileIds;
use orlop_volume::host_path_roots::HostPathRoots;
use orlop_volume::object::{VolumeMode, name};
use orlop_volume::recycle::PodRecipe;
use orlop_volume::rooted_fs::{self, RootedFsError};

/// The only directory in which upstream's plugin deletes.
const TMP: &str = "/tmp";
/// The parent of provisioned directories, in [`TMP`].
const MADE: &str = "/tmp/hostpath_pv";
/// The mode of provisioned directories and of their parent.
const MODE: u32 = 0o750;

/// The plugin for hostPath volumes.
pub struct HostPath {
    recipe: PodRecipe,
    may_provision: bool,
    roots: HostPathRoots,
}

impl HostPath {
    /// Creates the plugin. `may_provision`: whether the flag for provisioning is on. The plugin deletes below `roots`, and what it
    /// has provisioned.
    pub fn new(recipe: PodRecipe, may_provision: bool, roots: HostPathRoots) -> Self {
        let roots = if may_provision { roots.with(PathBuf::from(MADE)) } else { roots };
        Self { recipe, may_provision, roots }
    }
}

fn path_of(volume: &PersistentVolume) -> Option<&str> {
    volume.spec.as_ref()?.host_path.as_ref().map(|source| source.path.as_str())
}

impl VolumePlugin for HostPath {
    fn name(&self) -> &str {
        names::PLUGIN_HOST_PATH
    }

    fn supports(&self, volume: &PersistentVolume) -> bool {
        path_of(volume).is_some()
    }

    fn deleter(&self) -> Option<&dyn Deleter> {
        Some(self)
    }

    fn recycler(&self) -> Option<&dyn Recycler> {
        Some(self)
    }

    fn provisioner(&self) -> Option<&dyn Provisioner> {
        Some(self)
    }
}

impl Recycler for HostPath {
    fn recycle<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        pods: &'a PodRunner,
    ) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let Some(path) = path_of(volume) else {
                return Err("spec does not reference a HostPath volume type".to_owned());
            };
            let source = HostPathVolumeSource { path: path.to_owned(), type_: None };
            let pod = self.recipe.pod(volume, |vol| vol.host_path = Some(source));
            pods.run(volume, &pod).await
        }
        .boxed()
    }
}

// === deleting ===

impl Deleter for HostPath {
    // Tests: PV-8-1, PV-8-2, PV-8-9, OWN-REC-5, OWN-REC-13
    fn delete<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        others: Arc<FileIds>,
    ) -> BoxFuture<'a, Result<(), DeleteError>> {
        async move {
            let Some(path) = path_of(volume) else {
                return Err(DeleteError::Create {
                    volume: name(&volume.metadata).to_owned(),
                    message: "spec does not reference a HostPath volume type".to_owned(),
                });
            };
            let (path, roots) = (path.to_owned(), self.roots.clone());
            match tokio::task::spawn_blocking(move || delete(&path, &roots, &others)).await {
                Ok(result) => result.map_err(DeleteError::Failed),
                Err(error) => Err(DeleteError::Failed(format!("deleting was interrupted: {error}"))),
            }
        }
        .boxed()
    }
}

/// Deletes the directory of a volume recursively. Symbolic links are not followed, neither in the path nor inside; a link is
/// removed and its target stays. A mount on the path or below it stops the deletion, also a bind mount: what is mounted is not
/// part of the volume. The directories of `others` and of orlop itself stop it too, wherever they are found. A missing path counts
/// as deleted. The depth is unlimited, and a deletion that failed or was interrupted is continued by the next one.
fn delete(path: &str, roots: &HostPathRoots, others: &FileIds) -> Result<(), String> {
    let target = Path::new(path);
    let failed = |error: RootedFsError| format!("cannot delete {path}: {error}");
    if let Some(root) = roots.containing(target) {
        let protected: FileIds = roots.protected_ids().union(others).copied().collect();
        rooted_fs::ensure_outside(root, target, &protected).map_err(failed)?;
        return rooted_fs::remove_unprotected_below(root, target, &protected).map_err(failed);
    }
    if !is_below_tmp(target) {
        return Err(format!("host_path deleter only supports {TMP}/.+ but received provided {path}"));
    }
    match rooted_fs::kind_below(Path::new(TMP), target) {
        Ok(None) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        // It must not advise the user to delete it.
        Ok(Some(_)) if roots.protects(target) => {
            Err(format!("cannot delete {path}: a directory of orlop is in it, or it is in that"))
        }
        Ok(Some(_)) => Err(format!(
            "cannot delete {path}: it is not in a directory that --host-path-roots allows; delete it yourself, or start the \
             controllers with --host-path-roots={TMP}"
        )),
        Err(error) => Err(failed(error)),
    }
}

/// Whether the path is in /tmp. Upstream's deleter accepts only such paths.
fn is_below_tmp(path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(TMP) else { return false };
    below.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        && below.components().any(|part| matches!(part, Component::Normal(_)))
}

// === creating ===

impl Provisioner for HostPath {
    // Tests: OWN-PROV-6
    fn accept(&self, _order: &Order) -> Result<(), String> {
        match self.may_provision {
            true => Ok(()),
            false => Err(format!("provisioning in volume plugin {:?} is disabled", names::PLUGIN_HOST_PATH)),
        }
    }

    fn provision<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<PersistentVolume, String>> {
        async move {
            if VolumeMode::of_claim(&order.claim) == VolumeMode::Block {
                let plugin = names::PLUGIN_HOST_PATH;
                return Err(format!("{plugin} does not support block volume provisioning"));
            }
            let path = PathBuf::from(MADE).join(uuid::Uuid::new_v4().to_string());
            let made = path.clone();
            let make = move || rooted_fs::make_dir_below(Path::new(TMP), &made, MODE);
            let result = tokio::task::spawn_blocking(make).await;
            match result {
                Ok(Ok(())) => Ok(persistent_volume(order, &path)),
                Ok(Err(error)) => Err(format!("mkdir {}: {error}", path.display())),
                Err(error) => Err(format!("making {} was interrupted: {error}", path.display())),
            }
        }
        .boxed()
    }
}

fn persistent_volume(order: &Order, path: &Path) -> PersistentVolume {
    let requests = order.claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get("storage").cloned()).unwrap_or_default();
    PersistentVolume {
        metadata: kube::core::ObjectMeta {
            annotations: Some(BTreeMap::from([(
                "kubernetes.io/createdby".to_owned(),
                "hostpath-dynamic-provisioner".to_owned(),
            )])),
            ..Default::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            capacity: Some(BTreeMap::from([("storage".to_owned(), storage)])),
            host_path: Some(HostPathVolumeSource { path: path.display().to_string(), type_: None }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests;
