//! The NFS plugin: recycles exports with a pod and supports nothing else.

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{NFSVolumeSource, PersistentVolume};

use super::plugin::{Recycler, VolumePlugin};
use super::recycle::PodRunner;
use orlop_client::names;
use orlop_volume::recycle::PodRecipe;

/// The plugin for NFS volumes.
pub struct Nfs {
    recipe: PodRecipe,
}

impl Nfs {
    /// A plugin that recycles with pods of this recipe.
    pub fn new(recipe: PodRecipe) -> Self {
        Self { recipe }
    }
}

fn source_of(volume: &PersistentVolume) -> Option<&NFSVolumeSource> {
    volume.spec.as_ref()?.nfs.as_ref()
}

impl VolumePlugin for Nfs {
    fn name(&self) -> &str {
        names::PLUGIN_NFS
    }

    fn supports(&self, volume: &PersistentVolume) -> bool {
        source_of(volume).is_some()
    }

    fn supports_mount_options(&self) -> bool {
        true
    }

    fn recycler(&self) -> Option<&dyn Recycler> {
        Some(self)
    }
}

impl Recycler for Nfs {
    // Tests: OWN-REC-10, OWN-REC-12
    fn recycle<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        pods: &'a PodRunner,
    ) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let Some(source) = source_of(volume) else {
                return Err("spec does not reference an NFS volume type".to_owned());
            };
            let source =
                NFSVolumeSource { server: source.server.clone(), path: source.path.clone(), read_only: None };
            let pod = self.recipe.pod(volume, |vol| vol.nfs = Some(source));
            pods.run(volume, &pod).await
        }
        .boxed()
    }
}
