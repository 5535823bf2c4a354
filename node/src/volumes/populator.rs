//! Resolves the volumes of a pod: which ones its containers use, and to which PersistentVolumes its claims are
//! bound. The rules are pure functions; every lookup reads from the server, because what is mounted must not
//! depend on the age of a cache.
//!
//! Upstream: pkg/kubelet/volumemanager/populator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use orlop_client::informer::split_key;
use orlop_client::meta::{has_finalizer, is_terminating};
use orlop_client::names::FINALIZER_PVC_PROTECTION;
use orlop_client::pods;
use orlop_volume::affinity::accepts_node;
use orlop_volume::translate;

use super::decide::MountCheck;
use crate::host::Host;
use crate::objects::{ObjectError, Objects};
use crate::plugin::{Place, Plugin, PluginError, Plugins, VolumeCapabilities};
use crate::volume::{Source, VolumeSpec};

/// The maximum length of a directory name on all common file systems.
const LONGEST_NAME: usize = 255;

/// A resolved volume of a pod.
#[derive(Clone)]
pub(super) struct ResolvedVolume {
    /// Its unique name: `<plugin>/<volume name>`; includes the pod if the volume belongs to one pod.
    pub(super) unique: Arc<str>,
    /// Its name within the plugin.
    pub(super) volume_name: String,
    pub(super) plugin: Arc<dyn Plugin>,
    pub(super) abilities: VolumeCapabilities,
    pub(super) spec: Arc<VolumeSpec>,
    pub(super) place: Place,
}

/// Why a volume of a pod cannot be mounted yet. The messages are upstream's; they become events.
#[derive(Debug, thiserror::Error)]
pub(super) enum PopulateError {
    #[error("error processing PVC {claim}: {why}")]
    Claim { claim: String, why: ClaimError },
    #[error("volume {volume} has volumeMode {mode}, but is specified in {place}")]
    Mode { volume: String, mode: String, place: &'static str },
    #[error("failed to get Plugin from volumeSpec for volume {volume:?} err=no volume plugin matched")]
    NoPlugin { volume: String },
    #[error(
        "failed to GetUniqueVolumeNameFromSpec for volumeSpec {volume:?} using volume plugin {plugin:?} err={why}"
    )]
    Name { volume: String, plugin: &'static str, why: PluginError },
    #[error("volume {volume:?}: {name:?} cannot be the name of a directory, so nothing is mounted for it")]
    Unsafe { volume: String, name: String },
}

/// Why a claim cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error("failed to fetch PVC from API server: {0}")]
    Claim(#[source] ObjectError),
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    NotOwner { claim: String, pod: String },
    #[error("PVC is being deleted")]
    Leaving,
    #[error("PVC is not bound")]
    NotBound,
    #[error("PVC has empty pvc.Spec.VolumeName")]
    NoVolume,
    #[error("failed to fetch PV {volume} from API server: {why}")]
    Volume { volume: String, why: ObjectError },
    #[error(
        "found PV object {0} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    Unclaimed(String),
    #[error(
        "found PV object {volume} but its pv.Spec.ClaimRef.UID {theirs} does not point to claim.UID {ours}"
    )]
    Other { volume: String, theirs: String, ours: String },
    #[error("PV {volume} cannot be expressed for the CSI driver {driver} that took its kind over")]
    Untranslatable { volume: String, driver: &'static str },
}

/// Whether a name can be a directory name: one printable path component.
pub(super) fn is_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !matches!(name, "." | "..")
        && !name.chars().any(|c| c == '/' || c.is_control())
}

/// How containers use the volumes of their pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct VolumeUses {
    /// Volumes in `volumeMounts`.
    pub(super) mounts: BTreeSet<String>,
    /// Volumes in `volumeDevices`.
    pub(super) devices: BTreeSet<String>,
}

impl VolumeUses {
    /// The uses by all containers, including init and ephemeral containers.
    pub(super) fn of(pod: &Pod) -> Self {
        let mut uses = Self::default();
        let Some(spec) = &pod.spec else { return uses };
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        for container in containers {
            uses.mounts.extend(container.volume_mounts.iter().flatten().map(|mount| mount.name.clone()));
            uses.devices.extend(container.volume_devices.iter().flatten().map(|device| device.name.clone()));
        }
        for container in spec.ephemeral_containers.iter().flatten() {
            uses.mounts.extend(container.volume_mounts.iter().flatten().map(|mount| mount.name.clone()));
            uses.devices.extend(container.volume_devices.iter().flatten().map(|device| device.name.clone()));
        }
        uses
    }

    fn has(&self, volume: &str) -> bool {
        self.mounts.contains(volume) || self.devices.contains(volume)
    }
}

/// The volumes of a pod that a container uses.
pub(super) fn used_volumes<'p>(pod: &'p Pod, uses: &VolumeUses) -> Vec<&'p Volume> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter(|volume| uses.has(&volume.name)).collect()
}

/// The name of the volume that a claim is bound to.
pub(super) fn volume_of_claim<'c>(
    pod: &Pod,
    claim: &'c PersistentVolumeClaim,
    ephemeral: bool,
) -> Result<&'c str, ClaimError> {
    if ephemeral && !pods::owns_claim(pod, claim) {
        let key = |meta: &kube::core::ObjectMeta| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}/{}", text(&meta.namespace), text(&meta.name))
        };
        return Err(ClaimError::NotOwner { claim: key(&claim.metadata), pod: key(&pod.metadata) });
    }
    // While the finalizer is set, a pod may still use the claim, and it may be this one.
    if is_terminating(claim) && !has_finalizer(claim, FINALIZER_PVC_PROTECTION) {
        return Err(ClaimError::Leaving);
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err(ClaimError::NotBound);
    }
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if volume.is_empty() { Err(ClaimError::NoVolume) } else { Ok(volume) }
}

/// Checks that a volume is bound to the claim.
pub(super) fn check_owner(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<(), ClaimError> {
    let name = || volume.metadata.name.clone().unwrap_or_default();
    let owner = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let Some(owner) = owner else { return Err(ClaimError::Unclaimed(name())) };
    if owner.uid != claim.metadata.uid {
        let text = |uid: &Option<String>| uid.clone().unwrap_or_default();
        let (theirs, ours) = (text(&owner.uid), text(&claim.metadata.uid));
        return Err(ClaimError::Other { volume: name(), theirs, ours });
    }
    Ok(())
}

/// Checks that containers use a volume according to its mode.
pub(super) fn check_mode(volume: &str, mode: &str, uses: &VolumeUses) -> Result<(), PopulateError> {
    let wrong = |place| Err(PopulateError::Mode { volume: volume.to_owned(), mode: mode.to_owned(), place });
    if uses.mounts.contains(volume) && mode != "Filesystem" {
        return wrong("volumeMounts");
    }
    if uses.devices.contains(volume) && mode != "Block" {
        return wrong("volumeDevices");
    }
    Ok(())
}

/// The volume as its plugin expects it: a migrated volume type is translated to its CSI driver.
pub(super) fn as_mounted(volume: PersistentVolume) -> Result<PersistentVolume, ClaimError> {
    match (translate::driver_of(&volume), translate::to_csi(&volume)) {
        (None, _) => Ok(volume),
        (Some(_), Some(translated)) => Ok(translated),
        (Some(driver), None) => {
            let volume = volume.metadata.name.unwrap_or_default();
            Err(ClaimError::Untranslatable { volume, driver })
        }
    }
}

fn is_source_read_only(source: &Source) -> bool {
    let read_only = match source {
        Source::Inline(volume) => [
            volume.nfs.as_ref().and_then(|source| source.read_only),
            volume.csi.as_ref().and_then(|source| source.read_only),
            volume.iscsi.as_ref().and_then(|source| source.read_only),
            volume.fc.as_ref().and_then(|source| source.read_only),
        ],
        Source::Persistent(volume) => {
            let Some(spec) = &volume.spec else { return false };
            [
                spec.nfs.as_ref().and_then(|source| source.read_only),
                spec.csi.as_ref().and_then(|source| source.read_only),
                spec.iscsi.as_ref().and_then(|source| source.read_only),
                spec.fc.as_ref().and_then(|source| source.read_only),
            ]
        }
    };
    read_only.contains(&Some(true))
}

/// Builds a volume of a pod with all its names.
pub(super) fn named(
    host: &Host,
    plugins: &Plugins,
    pod: &Pod,
    mut spec: VolumeSpec,
) -> Result<ResolvedVolume, PopulateError> {
    spec.read_only |= is_source_read_only(&spec.source);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    for name in [spec.name.as_str(), spec.dir_name(), uid.as_str()] {
        if !is_component(name) {
            return Err(PopulateError::Unsafe { volume: spec.name.clone(), name: name.to_owned() });
        }
    }
    let plugin = plugins
        .for_source(&spec.source)
        .ok_or_else(|| PopulateError::NoPlugin { volume: spec.dir_name().to_owned() })?;
    let volume_name = plugin.volume_name(&spec).map_err(|why| PopulateError::Name {
        volume: spec.dir_name().to_owned(),
        plugin: plugin.name(),
        why,
    })?;
    let abilities = plugin.abilities(host, &spec);
    let place = Place {
        uid,
        plugin: plugin.name().to_owned(),
        dir_name: spec.dir_name().to_owned(),
        block: spec.block,
    };
    let unique = match abilities.attach || abilities.device {
        true => shared_name(plugin.name(), &volume_name),
        false => own_name(&place),
    };
    let (plugin, spec) = (Arc::clone(plugin), Arc::new(spec));
    Ok(ResolvedVolume { unique, volume_name, plugin, abilities, spec, place })
}

/// The unique name of a volume that pods may share. Upstream: GetUniqueVolumeName.
pub(super) fn shared_name(plugin: &str, volume_name: &str) -> Arc<str> {
    format!("{plugin}/{volume_name}").into()
}

/// The unique name of a volume that belongs to one pod. Upstream: GetUniqueVolumeNameFromSpecWithPod.
pub(super) fn own_name(place: &Place) -> Arc<str> {
    format!("{}/{}-{}", place.plugin, place.uid, place.dir_name).into()
}

/// Resolves a volume of a pod.
pub(super) async fn resolve(
    host: &Host,
    plugins: &Plugins,
    objects: &Objects,
    pod: &Pod,
    volume: &Volume,
    uses: &VolumeUses,
) -> Result<ResolvedVolume, PopulateError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let (claim_name, read_only, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => (source.claim_name.clone(), source.read_only.unwrap_or(false), false),
        (None, Some(_)) => (pods::ephemeral_claim_name(pod, &volume.name), false, true),
        (None, None) => {
            check_mode(&volume.name, "Filesystem", uses)?;
            let source = match translate::inline_to_csi(volume, namespace) {
                Some(translated) => Source::Persistent(Arc::new(translated)),
                None => Source::Inline(Arc::new(volume.clone())),
            };
            let spec =
                VolumeSpec { name: volume.name.clone(), source, claim: None, read_only: false, block: false };
            return named(host, plugins, pod, spec);
        }
    };
    let wrong = |why| PopulateError::Claim { claim: format!("{namespace}/{claim_name}"), why };
    let claim =
        objects.claim(namespace, &claim_name).await.map_err(|error| wrong(ClaimError::Claim(error)))?;
    let name = volume_of_claim(pod, &claim, ephemeral).map_err(wrong)?;
    let persistent = objects
        .volume(name)
        .await
        .map_err(|why| wrong(ClaimError::Volume { volume: name.to_owned(), why }))?;
    check_owner(&persistent, &claim).map_err(wrong)?;
    let persistent = as_mounted(persistent).map_err(wrong)?;
    let mode = persistent.spec.as_ref().and_then(|spec| spec.volume_mode.clone());
    let mode = mode.unwrap_or_else(|| "Filesystem".to_owned());
    check_mode(&volume.name, &mode, uses)?;
    let spec = VolumeSpec {
        name: volume.name.clone(),
        source: Source::Persistent(Arc::new(persistent)),
        claim: Some(Arc::new(claim)),
        read_only,
        block: mode == "Block",
    };
    named(host, plugins, pod, spec)
}

/// Checks whether a volume may be mounted on this node. `labels` are those of the Node, if it was read.
pub(super) fn check(wanted: &ResolvedVolume, labels: Option<&BTreeMap<String, String>>) -> MountCheck {
    let name = wanted.spec.dir_name();
    if wanted.spec.block && !wanted.abilities.block {
        return MountCheck::Failed(format!(
            "MapVolume.FindMapperPluginBySpec failed for volume {name:?} : volumes of plugin {:?} cannot be devices",
            wanted.place.plugin
        ));
    }
    if let Source::Persistent(volume) = &wanted.spec.source
        && volume.spec.as_ref().is_some_and(|spec| spec.node_affinity.is_some())
    {
        match labels {
            None => return MountCheck::NotYet,
            Some(labels) if !accepts_node(volume, labels) => {
                return MountCheck::Failed(format!(
                    "MountVolume.NodeAffinity check failed for volume {name:?} : no matching NodeSelectorTerms"
                ));
            }
            Some(_) => {}
        }
    }
    if !wanted.spec.mount_options().is_empty() && !wanted.abilities.mount_options {
        return MountCheck::Failed(format!(
            "Mount options are not supported for this volume type for volume {name:?}"
        ));
    }
    MountCheck::Passed
}

/// Whether only one pod may use the volume.
pub(super) fn is_exclusive(spec: &VolumeSpec) -> bool {
    let Source::Persistent(volume) = &spec.source else { return false };
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    modes.iter().any(|mode| mode == "ReadWriteOncePod")
}

/// Keys of the claims whose volumes the containers of a pod use.
pub(super) fn claim_keys(pod: &Pod) -> Vec<String> {
    let used = used_volumes(pod, &VolumeUses::of(pod));
    let keys = pods::claim_keys(pod);
    let names: BTreeSet<String> = used
        .into_iter()
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(pods::ephemeral_claim_name(pod, &volume.name)),
            (None, None) => None,
        })
        .collect();
    keys.into_iter().filter(|key| names.contains(split_key(key).1)).collect()
}
