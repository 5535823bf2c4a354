//! Checks whether a pod is the recycler of a volume and whether the volume may be emptied. Pure. Any difference
//! from what the binder creates fails the check.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, PersistentVolume, Pod, Volume, VolumeMount};
use orlop_volume::object::{self, VolumePhase};
use orlop_volume::recycle::{NAME_PREFIX, standard_pod};

use super::{Recycler, ScrubTarget};

/// The mount path of the service account token in every pod, including the recycler.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const ACCOUNT_VOLUME: &str = "kube-api-access-";

/// The name of the volume that a pod recycles, if the pod is exactly the one that the binder creates. Pure; the
/// volume is not checked.
///
/// # Errors
/// The failed check.
pub fn volume_of(pod: &Pod) -> Result<&str, &'static str> {
    let standard = standard_pod();
    let meta = &pod.metadata;
    if meta.namespace != standard.metadata.namespace {
        return Err("it is in another namespace");
    }
    let name = meta.name.as_deref().unwrap_or_default().strip_prefix(NAME_PREFIX).unwrap_or_default();
    if name.is_empty() || meta.generate_name.is_some() {
        return Err("its name is not that of a recycler");
    }
    if meta.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()) {
        return Err("something else owns it");
    }
    if meta.deletion_timestamp.is_some() {
        return Err("it is being deleted");
    }
    let (Some(spec), Some(like)) = (&pod.spec, &standard.spec) else { return Err("it has no spec") };
    if spec.restart_policy != like.restart_policy || spec.active_deadline_seconds.is_none() {
        return Err("it does not end as a recycler does");
    }
    let has_more = spec.init_containers.as_ref().is_some_and(|list| !list.is_empty())
        || spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty());
    let ([own], [wanted], false) = (spec.containers.as_slice(), like.containers.as_slice(), has_more) else {
        return Err("it has other containers");
    };
    if !is_same_container(own, wanted) {
        return Err("its container is not the recycler's");
    }
    let volumes = spec.volumes.iter().flatten();
    let mut others = volumes.filter(|volume| !is_account(volume));
    match (others.next(), others.next()) {
        (Some(volume), None) if mounted(wanted).any(|mount| mount.name == volume.name) => Ok(name),
        _ => Err("its volumes are not the recycler's"),
    }
}

fn is_same_container(own: &Container, wanted: &Container) -> bool {
    let is_account =
        |mount: &&VolumeMount| mount.name.starts_with(ACCOUNT_VOLUME) && mount.mount_path == ACCOUNT;
    let is_plain = |mount: &VolumeMount| {
        let empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        mount.read_only != Some(true) && empty(&mount.sub_path) && empty(&mount.sub_path_expr)
    };
    let mut rest = mounted(own).filter(|mount| !is_account(mount));
    let mount = (rest.next(), rest.next(), mounted(wanted).next());
    let is_mounted = match mount {
        (Some(own), None, Some(wanted)) => {
            own.name == wanted.name && own.mount_path == wanted.mount_path && is_plain(own)
        }
        _ => false,
    };
    let devices = own.volume_devices.as_ref().is_some_and(|list| !list.is_empty());
    is_mounted
        && !devices
        && own.name == wanted.name
        && own.image == wanted.image
        && own.command == wanted.command
        && own.args == wanted.args
}

fn mounted(container: &Container) -> impl Iterator<Item = &VolumeMount> {
    container.volume_mounts.iter().flatten()
}

fn is_account(volume: &Volume) -> bool {
    volume.name.starts_with(ACCOUNT_VOLUME) && volume.projected.is_some()
}

/// The directory that a recycler pod empties, according to the current volume. Pure.
///
/// # Errors
/// The failed check.
pub fn decide(pod: &Pod, volume: &PersistentVolume) -> Result<Recycler, String> {
    let name = volume_of(pod)?;
    if object::name(&volume.metadata) != name {
        return Err("it is for another volume".to_owned());
    }
    if object::is_terminating(&volume.metadata) {
        return Err(format!("volume {name} is being deleted"));
    }
    // Failed: an earlier attempt failed. The volume keeps this phase during the next attempt.
    if !matches!(VolumePhase::of(volume), VolumePhase::Released | VolumePhase::Failed) {
        return Err(format!("volume {name} is {}, not Released", VolumePhase::of(volume).as_str()));
    }
    if object::reclaim_policy(volume) != "Recycle" {
        return Err(format!("volume {name} has policy {}, not Recycle", object::reclaim_policy(volume)));
    }
    if object::claim_ref(volume).is_none() {
        return Err(format!("volume {name} was never bound"));
    }
    let spec = pod.spec.as_ref();
    let own = spec.and_then(|spec| spec.volumes.iter().flatten().find(|volume| !is_account(volume)));
    let source = volume.spec.as_ref();
    let host_path =
        (own.and_then(|own| own.host_path.as_ref()), source.and_then(|source| source.host_path.as_ref()));
    let nfs = (own.and_then(|own| own.nfs.as_ref()), source.and_then(|source| source.nfs.as_ref()));
    let target = match (host_path, nfs) {
        ((Some(own), Some(wanted)), (None, None)) if own.path == wanted.path => {
            if !own.type_.as_deref().unwrap_or_default().is_empty() || !is_plain(Path::new(&own.path)) {
                return Err(format!("the path of volume {name} is not one to be emptied: {}", own.path));
            }
            ScrubTarget::HostPath(PathBuf::from(&own.path))
        }
        ((None, None), (Some(own), Some(wanted))) => {
            let is_same = own.server == wanted.server && own.path == wanted.path;
            if !is_same || own.read_only == Some(true) || own.server.is_empty() {
                return Err(format!("its volume is not the source of {name}"));
            }
            ScrubTarget::Nfs { server: own.server.clone(), path: own.path.clone() }
        }
        _ => return Err(format!("its volume is not the source of {name}")),
    };
    Ok(Recycler { volume: name.to_owned(), target })
}

/// Whether a path is absolute, of normal components, and not the root.
pub(super) fn is_plain(path: &Path) -> bool {
    let mut components = path.components();
    let names: Vec<_> = match components.next() {
        Some(Component::RootDir) => components.collect(),
        _ => return false,
    };
    !names.is_empty() && names.iter().all(|name| matches!(name, Component::Normal(_)))
}
