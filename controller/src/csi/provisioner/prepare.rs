//! Collects the input of a request: the class as its driver's parameters, the topology, the content source, and the secrets.
//! Sends no request to the driver and writes no note.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use orlop_client::api::Api;
use orlop_csi::driver::Driver;

use super::Provisioner;
use super::decide;
use super::intent::Intent;
use super::request::{ProvisionRefusal, Wish};
use super::source::{self, Content, RequestedSource};
use super::topology::{self, Question, Requirement};
use crate::snapshot::{VolumeSnapshot, VolumeSnapshotContent};
use orlop_client::client::message_of;
use orlop_client::names::{migrated_driver, reason};
use orlop_client::recorder::EventType;
use orlop_volume::csi::secrets;
use orlop_volume::translate;

/// Values of a secret, by key.
pub(super) type Secrets = std::collections::HashMap<String, String>;

impl Provisioner {
    /// Collects everything that the request needs. None when another controller has to populate the volume.
    pub(super) async fn prepare(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        driver: &Driver,
        node: Option<&str>,
    ) -> Result<Option<(Intent, Secrets)>, ProvisionRefusal> {
        let provisioner = &class.provisioner;
        let translated = match migrated_driver(provisioner) {
            None => None,
            Some(_) => {
                let translated = translate::class_to_csi(class);
                Some(translated.ok_or_else(|| ProvisionRefusal::Class(provisioner.clone()))?)
            }
        };
        let class = translated.as_ref().unwrap_or(class);
        let attributes = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
        let attributes = attributes.and_then(|name| self.attributes.get(name));
        let wish = Wish {
            claim,
            class,
            driver: driver.name(),
            can: driver.can(),
            attributes: attributes.as_deref(),
            extra_metadata: self.options.csi_extra_create_metadata,
            default_fs_type: &self.options.csi_default_fs_type,
        };
        let content = match wish.check()? {
            RequestedSource::Empty => None,
            RequestedSource::Other(kind) => {
                tracing::debug!(claim = key, kind, "another controller populates this volume");
                let text = "Assuming an external populator will provision the volume";
                self.recorder(driver.name()).event(claim, EventType::Normal, reason::PROVISIONING, text);
                return Ok(None);
            }
            RequestedSource::Claim(name) => Some(self.content_of_claim(claim, name, driver.name()).await?),
            RequestedSource::Snapshot(name) => {
                Some(self.content_of_snapshot(claim, name, driver.name()).await?)
            }
        };
        let topology = self.topology(claim, class, driver, node)?;
        let mut intent = wish.intent(content, topology)?;
        intent.volume.provisioner.clone_from(provisioner);
        let secrets = self.secrets_of(&intent).await?;
        Ok(Some((intent, secrets)))
    }

    fn topology(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        driver: &Driver,
        node: Option<&str>,
    ) -> Result<Option<Requirement>, ProvisionRefusal> {
        let selected = match node {
            None => None,
            Some(name) => {
                Some(self.segments.node(name).ok_or_else(|| ProvisionRefusal::NoNode(name.to_owned()))?)
            }
        };
        if !driver.can().has_topology() {
            return Ok(None);
        }
        let csi_node = match node {
            None => None,
            Some(name) => Some(
                self.segments.csi_node(name).ok_or_else(|| ProvisionRefusal::NoCsiNode(name.to_owned()))?,
            ),
        };
        let question = Question {
            driver: driver.name(),
            claim: claim.metadata.name.as_deref().unwrap_or_default(),
            allowed: class.allowed_topologies.as_deref().unwrap_or_default(),
            selected: selected.as_deref().zip(csi_node.as_deref()),
            strict: self.options.csi_strict_topology,
            immediate: self.options.csi_immediate_topology,
        };
        Ok(topology::requirement(&question, &self.segments.of(driver.name()))?)
    }

    async fn content_of_claim(
        &self,
        claim: &PersistentVolumeClaim,
        name: &str,
        driver: &str,
    ) -> Result<Content, ProvisionRefusal> {
        let source_key = super::sibling(claim, name);
        let found = self.claims.get(&source_key);
        let volume = found.as_ref().and_then(|found| self.volumes.get(decide::named_volume(found)));
        let content = source::of_claim(claim, name, found.as_deref(), volume.as_deref(), driver)?;
        // If it was missing, there would be no content.
        if let Some(found) = found {
            self.hold_claim(&source_key, &found)
                .await
                .map_err(|error| ProvisionRefusal::Hold(error.to_string()))?;
        }
        Ok(content)
    }

    async fn content_of_snapshot(
        &self,
        claim: &PersistentVolumeClaim,
        name: &str,
        driver: &str,
    ) -> Result<Content, ProvisionRefusal> {
        let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
        let snapshots: Api<VolumeSnapshot> = Api::namespaced(self.client.clone(), namespace);
        let snapshot = snapshots.get(name).await.map_err(|error| message_of(&error));
        let bound = snapshot
            .as_ref()
            .ok()
            .and_then(|snapshot| snapshot.status.as_ref()?.bound_volume_snapshot_content_name.as_deref());
        let content = match bound {
            None => None,
            Some(name) => {
                let contents: Api<VolumeSnapshotContent> = Api::all(self.client.clone());
                contents.get(name).await.ok()
            }
        };
        let found = snapshot.as_ref().map_err(Clone::clone);
        let handle = source::of_snapshot(claim, name, found, content.as_ref(), driver)?;
        if let Ok(snapshot) = &snapshot {
            self.hold_snapshot(snapshot).await.map_err(|error| ProvisionRefusal::Hold(error.to_string()))?;
        }
        Ok(handle)
    }

    pub(super) async fn secrets_of(&self, intent: &Intent) -> Result<Secrets, secrets::SecretError> {
        secrets::read(&self.client, intent.volume.secrets.provisioner.as_ref()).await
    }
}
