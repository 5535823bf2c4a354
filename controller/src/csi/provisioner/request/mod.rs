//! Computes the request to the driver from a claim and its class, or the reason not to call it (upstream:
//! external-provisioner's prepareProvision). Pure, in two steps: the checks of claim and class, and then, when source and
//! topology are known, the intent. The texts are upstream's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use orlop_csi::capabilities::{Capabilities, Rpc, Service};
use orlop_csi::v1::volume_capability::access_mode::Mode;

use super::intent::{Intent, Plan, Secrets, volume_name};
use super::size;
use super::source::{self, Content, RequestedSource, SourceError};
use super::topology::{Requirement, TopologyError};
use orlop_volume::csi::modes::{self, ModeError};
use orlop_volume::csi::secrets::{self, PREFIX, Purpose, SecretError};

/// The parameter for the file system type.
const FS_TYPE: &str = "csi.storage.k8s.io/fstype";
/// The suffixes after [`PREFIX`] of parameters that only this code reads.
const RESERVED: [&str; 17] = [
    "fstype",
    "secret-name",
    "secret-namespace",
    "provisioner-secret-name",
    "provisioner-secret-namespace",
    "controller-publish-secret-name",
    "controller-publish-secret-namespace",
    "node-stage-secret-name",
    "node-stage-secret-namespace",
    "node-publish-secret-name",
    "node-publish-secret-namespace",
    "controller-expand-secret-name",
    "controller-expand-secret-namespace",
    "node-expand-secret-name",
    "node-expand-secret-namespace",
    "controller-modify-secret-name",
    "controller-modify-secret-namespace",
];

/// Why no driver is called.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProvisionRefusal {
    #[error(
        "CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE capability is not reported"
    )]
    NoController,
    #[error(
        "CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME capability is not reported"
    )]
    NoCreate,
    #[error(
        "CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported"
    )]
    NoSnapshots,
    #[error(
        "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
    )]
    NoClones,
    #[error(
        "CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported"
    )]
    NoModify,
    #[error(
        "failed to translate storage class: its parameters and topologies cannot be translated for the driver of {0}"
    )]
    Class(String),
    #[error("claim Selector is not supported")]
    Selector,
    #[error("fstype specified in parameters with both \"fstype\" and \"csi.storage.k8s.io/fstype\" keys")]
    TwoFsTypes,
    #[error(transparent)]
    Mode(#[from] ModeError),
    #[error("volumeattributesclass.storage.k8s.io {0:?} not found")]
    NoAttributesClass(String),
    #[error("VAC {name} referenced in PVC is for driver {driver} which does not match driver name {wanted}")]
    AttributesClassOfOther { name: String, driver: String, wanted: String },
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("error generating accessibility requirements: {0}")]
    Topology(#[from] TopologyError),
    #[error("failed to get target node: node {0:?} not found")]
    NoNode(String),
    #[error("error generating accessibility requirements: csinode.storage.k8s.io {0:?} not found")]
    NoCsiNode(String),
    #[error("{0}")]
    Hold(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "failed to strip CSI Parameters of prefixed keys: found unknown parameter key {0:?} with reserved namespace \
         csi.storage.k8s.io/"
    )]
    Reserved(String),
}

impl ProvisionRefusal {
    /// Whether another node may succeed.
    pub(super) fn may_reschedule(&self) -> bool {
        matches!(self, ProvisionRefusal::NoNode(_) | ProvisionRefusal::NoCsiNode(_))
    }
}

/// The input of a request.
pub(super) struct Wish<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) class: &'a StorageClass,
    pub(super) driver: &'a str,
    pub(super) can: &'a Capabilities,
    /// The attributes class that the claim names, if it exists.
    pub(super) attributes: Option<&'a VolumeAttributesClass>,
    /// `--csi-extra-create-metadata`.
    pub(super) extra_metadata: bool,
    /// The file system type when the class names none.
    pub(super) default_fs_type: &'a str,
}

impl<'a> Wish<'a> {
    /// Checks everything that needs no lookup. Returns the requested content source.
    pub(super) fn check(&self) -> Result<RequestedSource<'a>, ProvisionRefusal> {
        let asked = source::asked(self.claim)?;
        if !self.can.serves(Service::ControllerService) {
            return Err(ProvisionRefusal::NoController);
        }
        let needs = [
            (true, Rpc::CreateDeleteVolume, ProvisionRefusal::NoCreate),
            (
                matches!(asked, RequestedSource::Snapshot(_)),
                Rpc::CreateDeleteSnapshot,
                ProvisionRefusal::NoSnapshots,
            ),
            (matches!(asked, RequestedSource::Claim(_)), Rpc::CloneVolume, ProvisionRefusal::NoClones),
            (self.attributes_class().is_some(), Rpc::ModifyVolume, ProvisionRefusal::NoModify),
        ];
        if let Some((_, _, refusal)) =
            needs.into_iter().find(|(needed, rpc, _)| *needed && !self.can.can(*rpc))
        {
            return Err(refusal);
        }
        if self.claim.spec.as_ref().is_some_and(|spec| spec.selector.is_some()) {
            return Err(ProvisionRefusal::Selector);
        }
        self.fs_type()?;
        self.modes()?;
        self.mutable_parameters()?;
        Ok(asked)
    }

    /// The complete request.
    pub(super) fn intent(
        &self,
        content: Option<Content>,
        topology: Option<Requirement>,
    ) -> Result<Intent, ProvisionRefusal> {
        let spec = self.claim.spec.as_ref();
        let block = spec.is_some_and(|spec| spec.volume_mode.as_deref() == Some("Block"));
        let name = volume_name(self.claim);
        Ok(Intent {
            driver: self.driver.to_owned(),
            bytes: size::requested(self.claim),
            modes: self.modes()?.into_iter().map(|mode| mode.as_str_name().to_owned()).collect(),
            block,
            fs_type: if block { String::new() } else { self.fs_type()? },
            mount_options: self.class.mount_options.clone().unwrap_or_default(),
            parameters: self.parameters(&name)?,
            mutable_parameters: self.mutable_parameters()?,
            content,
            topology,
            volume: Plan {
                class: self.class.metadata.name.clone().unwrap_or_default(),
                provisioner: self.class.provisioner.clone(),
                reclaim_policy: self.class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned()),
                attributes_class: self.attributes_class().map(str::to_owned),
                secrets: self.secrets(&name)?,
            },
            seal: String::new(),
            name,
        })
    }

    fn given(&self) -> impl Iterator<Item = (&'a String, &'a String)> {
        self.class.parameters.iter().flatten()
    }

    fn fs_type(&self) -> Result<String, ProvisionRefusal> {
        let named = |key: &str| key == FS_TYPE || key.eq_ignore_ascii_case("fstype");
        let mut found = self.given().filter(|(key, _)| named(key)).map(|(_, value)| value);
        let first = found.next();
        if found.next().is_some() {
            return Err(ProvisionRefusal::TwoFsTypes);
        }
        let first = first.filter(|value| !value.is_empty());
        Ok(first.cloned().unwrap_or_else(|| self.default_fs_type.to_owned()))
    }

    /// One capability for each access mode.
    fn modes(&self) -> Result<Vec<Mode>, ProvisionRefusal> {
        let modes =
            self.claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
        let one = |mode: &String| modes::of_modes(std::slice::from_ref(mode), self.can);
        Ok(modes.iter().map(one).collect::<Result<_, _>>()?)
    }

    fn attributes_class(&self) -> Option<&'a str> {
        let name = self.claim.spec.as_ref()?.volume_attributes_class_name.as_deref()?;
        (!name.is_empty()).then_some(name)
    }

    fn mutable_parameters(&self) -> Result<BTreeMap<String, String>, ProvisionRefusal> {
        let Some(name) = self.attributes_class() else { return Ok(BTreeMap::new()) };
        let class = self.attributes.ok_or_else(|| ProvisionRefusal::NoAttributesClass(name.to_owned()))?;
        if class.driver_name != self.driver {
            return Err(ProvisionRefusal::AttributesClassOfOther {
                name: name.to_owned(),
                driver: class.driver_name.clone(),
                wanted: self.driver.to_owned(),
            });
        }
        Ok(class.parameters.clone().unwrap_or_default())
    }

    fn parameters(&self, volume: &str) -> Result<BTreeMap<String, String>, ProvisionRefusal> {
        let mut parameters = BTreeMap::new();
        for (key, value) in self.given() {
            match key.strip_prefix(PREFIX) {
                None => {
                    parameters.insert(key.clone(), value.clone());
                }
                Some(rest) if RESERVED.contains(&rest) => {}
                Some(_) => return Err(ProvisionRefusal::Reserved(key.clone())),
            }
        }
        if self.extra_metadata {
            let meta = &self.claim.metadata;
            let more = [
                ("pvc/name", meta.name.as_deref().unwrap_or_default()),
                ("pvc/namespace", meta.namespace.as_deref().unwrap_or_default()),
                ("pv/name", volume),
            ];
            parameters.extend(more.map(|(key, value)| (format!("{PREFIX}{key}"), value.to_owned())));
        }
        Ok(parameters)
    }

    fn secrets(&self, volume: &str) -> Result<Secrets, ProvisionRefusal> {
        let none = BTreeMap::new();
        let parameters = self.class.parameters.as_ref().unwrap_or(&none);
        let of = |purpose| secrets::reference(purpose, parameters, volume, self.claim);
        // Upstream resolves the provisioner's secret without the annotations of the claim: the creator of a claim must not choose
        // the credentials that volumes are created with.
        let mut plain = self.claim.clone();
        plain.metadata.annotations = None;
        Ok(Secrets {
            provisioner: secrets::reference(Purpose::Provisioner, parameters, volume, &plain)?,
            controller_publish: of(Purpose::ControllerPublish)?,
            node_stage: of(Purpose::NodeStage)?,
            node_publish: of(Purpose::NodePublish)?,
            controller_expand: of(Purpose::ControllerExpand)?,
            node_expand: of(Purpose::NodeExpand)?,
            controller_modify: of(Purpose::ControllerModify)?,
        })
    }
}

#[cfg(test)]
mod tests;
