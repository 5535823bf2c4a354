//! The hostPath plugin, for single-node clusters and tests: recycles volumes with a pod, deletes only below /tmp,
//! and provisions only if a flag allows it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolume, PersistentVolumeSpec};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::plugin::{DeleteError, Deleter, Order, Provisioner, Recycler, VolumePlugin};
use super::recycle::PodRunner;
use orlop_client::names;
use orlop_volume::object::{VolumeMode, name};
use orlop_volume::recycle::PodRecipe;

/// The only directory below which the plugin deletes or creates.
const ROOT: &str = "/tmp";
/// The parent of provisioned directories, below [`ROOT`].
const MADE: &str = "/tmp/hostpath_pv";

/// The plugin for hostPath volumes.
pub struct HostPath {
    recipe: PodRecipe,
    may_provision: bool,
}

impl HostPath {
    /// Creates the plugin. `may_provision`: whether the flag for provisioning is on.
    pub fn new(recipe: PodRecipe, may_provision: bool) -> Self {
        Self { recipe, may_provision }
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
    fn delete<'a>(&'a self, volume: &'a PersistentVolume) -> BoxFuture<'a, Result<(), DeleteError>> {
        async move {
            let Some(path) = path_of(volume) else {
                return Err(DeleteError::Create {
                    volume: name(&volume.metadata).to_owned(),
                    message: "spec does not reference a HostPath volume type".to_owned(),
                });
            };
            let path = path.to_owned();
            match tokio::task::spawn_blocking(move || delete_below_tmp(&path)).await {
                Ok(result) => result.map_err(DeleteError::Failed),
                Err(error) => Err(DeleteError::Failed(format!("deleting was interrupted: {error}"))),
            }
        }
        .boxed()
    }
}

/// The path components of `path` below [`ROOT`], or `None` if it is not below /tmp, is /tmp itself, or contains
/// `..`.
fn names_below_root(path: &str) -> Option<Vec<String>> {
    let below = Path::new(path).strip_prefix(ROOT).ok()?;
    let mut names = Vec::new();
    for component in below.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str()?.to_owned()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Deletes `path`, which must be below /tmp, recursively. Symbolic links are not followed, neither in the path
/// nor inside; a link is removed and its target stays. A mount point stops the deletion: the mounted file system
/// is not part of the volume. A missing path counts as deleted.
fn delete_below_tmp(path: &str) -> Result<(), String> {
    let refused = || format!("host_path deleter only supports /tmp/.+ but received provided {path}");
    let mut names = names_below_root(path).ok_or_else(refused)?;
    let last = names.pop().ok_or_else(refused)?;
    let told = |error: Errno| format!("cannot delete {path}: {error}");
    let mut at = rustix::fs::open(ROOT, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(told)?;
    for name in &names {
        at = match openat(&at, name, DIRECTORY, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(format!("cannot delete {path}: {name} on the way is no directory"));
            }
            Err(error) => return Err(told(error)),
        };
    }
    let device = fstat(&at).map_err(told)?.st_dev;
    remove(&at, &last, device).map_err(told)
}

/// Flags for opening directories: never through a symbolic link.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes `name` in the directory `at`, recursively for directories.
fn remove(at: &impl std::os::fd::AsFd, name: &str, device: u64) -> Result<(), Errno> {
    let stat = match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return gone_is_fine(unlinkat(at, name, AtFlags::empty()));
    }
    if stat.st_dev != device {
        return Err(Errno::BUSY);
    }
    let directory = match openat(at, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut children = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        // File names are bytes; one that is not UTF-8 stops the deletion.
        let child = entry.file_name().to_str().map_err(|_| Errno::ILSEQ)?.to_owned();
        if child != "." && child != ".." {
            children.push(child);
        }
    }
    for child in children {
        remove(&directory, &child, device)?;
    }
    gone_is_fine(unlinkat(at, name, AtFlags::REMOVEDIR))
}

fn gone_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

// === making ===

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
            let result = tokio::task::spawn_blocking(move || std::fs::create_dir_all(&made)).await;
            match result {
                Ok(Ok(())) => Ok(described(order, &path)),
                Ok(Err(error)) => Err(format!("mkdir {}: {error}", path.display())),
                Err(error) => Err(format!("making {} was interrupted: {error}", path.display())),
            }
        }
        .boxed()
    }
}

fn described(order: &Order, path: &Path) -> PersistentVolume {
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
