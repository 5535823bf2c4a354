//! The Secrets that a pod uses. Pure functions. Upstream: VisitPodSecretNames.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, Volume};

/// The names of the Secrets that the pod uses: to pull images, in variables, and in volumes.
pub(super) fn secret_names(pod: &Pod) -> BTreeSet<String> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let pulls = spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone());
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let containers = containers.map(|one| (one.env.as_deref(), one.env_from.as_deref()));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|one| (one.env.as_deref(), one.env_from.as_deref()));
    let variables = containers.chain(ephemeral).flat_map(|(env, from)| in_variables(env, from));
    let volumes = spec.volumes.iter().flatten().flat_map(in_volume);
    pulls.chain(variables).chain(volumes).filter(|name| !name.is_empty()).collect()
}

fn in_variables(env: Option<&[EnvVar]>, from: Option<&[EnvFromSource]>) -> Vec<String> {
    let single = env.into_iter().flatten().filter_map(|one| one.value_from.as_ref()?.secret_key_ref.as_ref());
    let all = from.into_iter().flatten().filter_map(|one| one.secret_ref.as_ref());
    single.map(|secret| secret.name.clone()).chain(all.map(|secret| secret.name.clone())).collect()
}

fn in_volume(volume: &Volume) -> Vec<String> {
    let local = [
        volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref()),
        volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.scale_io.as_ref().map(|source| &source.secret_ref),
        volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()),
    ];
    let projected = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
    let projected = projected.filter_map(|one| one.secret.as_ref()).map(|secret| secret.name.clone());
    let azure = volume.azure_file.as_ref().map(|source| source.secret_name.clone());
    let secret = volume.secret.as_ref().and_then(|source| source.secret_name.clone());
    let local = local.into_iter().flatten().map(|secret| secret.name.clone());
    local.chain(projected).chain(azure).chain(secret).collect()
}
