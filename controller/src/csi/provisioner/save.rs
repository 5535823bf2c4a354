//! Saves a driver's response as an object. A volume never has two objects: a handle is reserved from before its object is
//! written until the cache has it.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::PostParams;
use orlop_csi::driver::Driver;

use super::intent::Intent;
use super::{Provisioner, source_of};
use orlop_client::client::{is_already_exists, message_of};
use orlop_volume::csi::handle;

impl Provisioner {
    /// Saves the volume's object, unless another object has the same handle.
    pub(super) async fn save(
        &self,
        intent: &Intent,
        driver: &Driver,
        id: &str,
        object: PersistentVolume,
    ) -> Result<(), String> {
        self.reserve(driver.name(), id, &intent.name).map_err(|other| in_use(id, &other))?;
        let api = self.volumes_api();
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(error) if is_already_exists(&error) => match api.get_opt(&intent.name).await {
                // Either our own from an earlier attempt, or another client's.
                Ok(Some(found)) => match source_of(&found) {
                    Some(csi) if csi.driver == intent.driver && csi.volume_handle == id => Ok(()),
                    Some(_) | None => Err(format!(
                        "a PersistentVolume {} exists that is not the volume {id} of this claim; delete it, so that the \
                         volume can be saved",
                        intent.name
                    )),
                },
                Ok(None) => Err(format!("PersistentVolume {} was there and is gone", intent.name)),
                Err(error) => Err(message_of(&error)),
            },
            Err(error) => Err(format!("cannot save the PersistentVolume: {}", message_of(&error))),
        }
    }

    /// Reserves a handle for the volume with this name, unless another volume has it.
    pub(super) fn reserve(&self, driver: &str, id: &str, name: &str) -> Result<(), String> {
        if let Some(other) = self.other_volume(driver, id, name) {
            return Err(other);
        }
        let mut memory = self.memory();
        match memory.handles.entry(handle::unique_name(driver, id)) {
            std::collections::hash_map::Entry::Occupied(entry) if entry.get() != name => {
                Err(entry.get().clone())
            }
            std::collections::hash_map::Entry::Occupied(_) => Ok(()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(name.to_owned());
                Ok(())
            }
        }
    }

    /// Another volume with this handle.
    pub(super) fn other_volume(&self, driver: &str, id: &str, name: &str) -> Option<String> {
        let with = self.volumes.by_index(super::BY_HANDLE, &handle::unique_name(driver, id));
        with.iter().filter_map(|volume| volume.metadata.name.clone()).find(|other| other != name)
    }
}

/// Why a volume is not accepted.
pub(super) fn in_use(id: &str, other: &str) -> String {
    format!("the CSI driver answered with volume id {id:?}, which PersistentVolume {other} has already")
}
