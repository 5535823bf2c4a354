//! One sync of an existing volume: its finalizer follows its policy, and a released volume is deleted, first by the driver and
//! then as an object. While the object exists, the volume is not forgotten (I9).

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::ObjectMeta;
use orlop_csi::capabilities::{Rpc, Service};
use orlop_csi::driver::Driver;
use orlop_csi::v1;

use super::attempts::Fingerprint;
use super::decide::{self, VolumeSituation};
use super::request::ProvisionRefusal;
use super::{AGAIN, ATTACHED, DriverCall, ProvisionError, Provisioner, finalizers};
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::meta::{annotation, has_finalizer};
use orlop_client::names::{
    ANN_DELETION_SECRET_NAME, ANN_DELETION_SECRET_NAMESPACE, FINALIZER_EXTERNAL_PROVISIONER, reason,
};
use orlop_client::recorder::EventType;
use orlop_volume::csi::secrets::{self, Purpose};

impl Provisioner {
    pub(super) async fn sync_volume(self: Arc<Self>, name: String) -> Result<(), ProvisionError> {
        let Some(volume) = self.volumes.get(&name) else { return Ok(()) };
        // A volume whose driver is not served here takes no permit.
        let Some(driver) = decide::owner(&volume).filter(|driver| self.serves(driver)) else { return Ok(()) };
        let _turn = self.turn(DriverCall::Delete, driver).await;
        // The volume may have changed during the wait.
        let Some(volume) = self.volumes.get(&name) else { return Ok(()) };
        match decide::volume(&volume, |driver| self.serves(driver)) {
            VolumeSituation::Nothing => Ok(()),
            VolumeSituation::Protect => self.write_finalizer(&volume, true).await,
            VolumeSituation::Release => self.write_finalizer(&volume, false).await,
            VolumeSituation::Delete { driver, handle } => {
                let uid = volume.metadata.uid.as_deref().unwrap_or_default();
                if let Some(left) = self.attempts.wait(uid, Fingerprint::default()) {
                    self.volume_queue.add_after(name, left);
                    return Ok(());
                }
                let Some(driver) = self.drivers.get(&driver) else { return Ok(()) };
                match self.delete(&name, &volume, &driver, &handle).await? {
                    Ok(()) => {
                        self.attempts.forget(uid);
                        self.capacity_changed.notify_one();
                    }
                    Err(why) => {
                        let recorder = self.recorder(driver.name());
                        recorder.event(
                            volume.as_ref(),
                            EventType::Warning,
                            reason::VOLUME_FAILED_DELETE,
                            why,
                        );
                        let delay = self.attempts.failed(uid, Fingerprint::default(), false);
                        self.volume_queue.add_after(name, delay);
                    }
                }
                Ok(())
            }
        }
    }

    /// Deletes a volume and then its object. The inner error is for users.
    async fn delete(
        &self,
        name: &str,
        cached: &PersistentVolume,
        driver: &Driver,
        handle: &str,
    ) -> Result<Result<(), String>, ProvisionError> {
        // An irreversible step must not rest on a stale cache: the volume may be retained by now, or in use again (I8).
        let live = self.volumes_api().get_opt(name).await;
        let live = live.map_err(|cause| ProvisionError::ReadVolume { volume: name.to_owned(), cause })?;
        let Some(volume) = live else { return Ok(Ok(())) };
        let due = VolumeSituation::Delete { driver: driver.name().to_owned(), handle: handle.to_owned() };
        if volume.metadata.uid != cached.metadata.uid
            || decide::volume(&volume, |driver| self.serves(driver)) != due
        {
            return Ok(Ok(()));
        }
        if let Some(why) = self.not_now(name, driver, handle) {
            return Ok(Err(why));
        }
        let secrets = match self.deletion_secrets(&volume).await {
            Ok(secrets) => secrets,
            Err(why) => return Ok(Err(why)),
        };
        if let Err(error) =
            driver.delete_volume(v1::DeleteVolumeRequest { volume_id: handle.to_owned(), secrets }).await
        {
            return Ok(Err(error.to_string()));
        }
        // Done outside: the driver no longer has the volume. Not saved: anything. Continues with: the next sync of the volume;
        // a driver deletes a missing volume without an error.
        self.delete_object(name, volume).await.map(Ok)
    }

    /// Why the driver must not be called now.
    fn not_now(&self, name: &str, driver: &Driver, handle: &str) -> Option<String> {
        if !driver.can().serves(Service::ControllerService) {
            return Some(ProvisionRefusal::NoController.to_string());
        }
        if !driver.can().can(Rpc::CreateDeleteVolume) {
            return Some(ProvisionRefusal::NoCreate.to_string());
        }
        if let Some(attachment) = self.attachments.by_index(ATTACHED, name).first() {
            let node = &attachment.spec.node_name;
            return Some(format!("persistentvolume {name} is still attached to node {node}"));
        }
        let other = self.other_volume(driver.name(), handle, name)?;
        if let Some(other) = self.volumes.get(&other) {
            let why = format!(
                "PersistentVolume {name} has the same handle, and its policy is to delete the volume"
            );
            let recorder = self.recorder(driver.name());
            recorder.event(other.as_ref(), EventType::Warning, reason::VOLUME_FAILED_DELETE, why);
        }
        Some(format!(
            "volume {handle:?} is not deleted, because PersistentVolume {other} has the same handle; set the policy of this one \
             to Retain and delete it, if that one is to keep the volume"
        ))
    }

    /// The secret that the volume names; for a volume older than those annotations, the one that its class names. A missing
    /// secret does not block the deletion forever.
    async fn deletion_secrets(&self, volume: &PersistentVolume) -> Result<HashMap<String, String>, String> {
        let noted = annotation(volume, ANN_DELETION_SECRET_NAME)
            .zip(annotation(volume, ANN_DELETION_SECRET_NAMESPACE));
        let reference = match noted {
            Some((name, namespace)) if name.is_empty() || namespace.is_empty() => None,
            Some((name, namespace)) => Some(k8s_openapi::api::core::v1::SecretReference {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
            }),
            None => self.secret_of_class(volume)?,
        };
        Ok(secrets::read(&self.client, reference.as_ref()).await.unwrap_or_else(|error| {
            tracing::warn!(volume = volume.metadata.name, %error, "deleting without the secret");
            HashMap::new()
        }))
    }

    fn secret_of_class(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<k8s_openapi::api::core::v1::SecretReference>, String> {
        let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let Some(class) = class.and_then(|name| self.classes.get(name)) else { return Ok(None) };
        let Some(parameters) = &class.parameters else { return Ok(None) };
        let none = ObjectReference::default();
        let of = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).unwrap_or(&none);
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: of.name.clone(),
                namespace: of.namespace.clone(),
                ..Default::default()
            },
            ..Default::default()
        };
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        secrets::reference(Purpose::Provisioner, parameters, name, &claim)
            .map_err(|error| format!("failed to get secretreference for volume {name}: {error}"))
    }

    async fn delete_object(&self, name: &str, volume: PersistentVolume) -> Result<(), ProvisionError> {
        let failed = |cause| ProvisionError::DeleteObject { volume: name.to_owned(), cause };
        let only_this = DeleteParams {
            preconditions: Some(Preconditions { uid: volume.metadata.uid.clone(), resource_version: None }),
            ..Default::default()
        };
        let held = match self.volumes_api().delete(name, &only_this).await {
            // The object when finalizers remain, a status when it is gone.
            Ok(answer) => answer,
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(cause) => return Err(failed(cause)),
        };
        // Saved: the deletion of the object. Not saved: the removal of our finalizer. Continues with: the next sync of the
        // volume, which is still Released with the policy Delete.
        match held {
            Some(held) => self.write_finalizer(&held, false).await,
            None => Ok(()),
        }
    }

    /// Adds or removes our finalizer, conditional on the version.
    async fn write_finalizer(&self, volume: &PersistentVolume, add: bool) -> Result<(), ProvisionError> {
        if has_finalizer(volume, FINALIZER_EXTERNAL_PROVISIONER) == add {
            return Ok(());
        }
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let change = match add {
            true => finalizers::with(volume, FINALIZER_EXTERNAL_PROVISIONER),
            false => finalizers::without(volume, FINALIZER_EXTERNAL_PROVISIONER),
        };
        match self.volumes_api().patch(name, &PatchParams::default(), &Patch::Merge(change)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => {
                self.volume_queue.add_after(name.to_owned(), AGAIN);
                Ok(())
            }
            Err(cause) => Err(ProvisionError::Finalizers { volume: name.to_owned(), cause }),
        }
    }
}
