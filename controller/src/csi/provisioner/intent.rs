//! What a driver is going to be asked for, on the claim before it is asked: a finalizer that keeps the claim, and an annotation
//! with everything that the call and the volume's object need. So a class that is changed, replaced or deleted meanwhile
//! changes nothing, and after a crash the very same request is sent again (I9). Pure.
//!
//! Values of secrets are not in it; which secrets they are, is. They are read again for every call. Who may write claims may
//! write this annotation, too: a driver is asked only for what `seal` says that orlop itself has written.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, SecretReference};
use kube::Resource;
use orlop_csi::v1;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::finalizers;
use super::source::Content;
use super::topology::Requirement;
use crate::csi::handle;
use crate::csi::modes::Access;
use crate::translate;
use orlop_client::meta::{annotation, has_finalizer};
use orlop_client::names::{ANN_CREATE_REQUEST, ANN_SELECTED_NODE, FINALIZER_PROVISIONING};

/// A CreateVolume request and what becomes of its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Who is asked.
    pub driver: String,
    /// What driver and API call the volume: `pvc-` and the UID of the claim.
    pub name: String,
    /// Least size.
    pub bytes: i64,
    /// Access modes, with CSI's words.
    pub modes: Vec<String>,
    /// A device instead of files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block: bool,
    /// File system, empty for the driver's choice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
    /// Of the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
    /// Of the class, without what is reserved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Of the attributes class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mutable_parameters: BTreeMap<String, String>,
    /// What the volume is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// From where it has to be reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Requirement>,
    /// What becomes of the answer.
    pub volume: Plan,
    /// That orlop wrote this and nobody else, see `seal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seal: String,
}

/// What the class said about the volume's object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Name of the class.
    pub class: String,
    /// The provisioner that it names.
    pub provisioner: String,
    /// What becomes of the volume after its claim.
    pub reclaim_policy: String,
    /// Name of the attributes class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes_class: Option<String>,
    /// Secrets, by what they are for.
    #[serde(default)]
    pub secrets: Secrets,
}

/// Which secrets a volume needs in its life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Secrets {
    /// CreateVolume and DeleteVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioner: Option<SecretReference>,
    /// ControllerPublishVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_publish: Option<SecretReference>,
    /// NodeStageVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_stage: Option<SecretReference>,
    /// NodePublishVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_publish: Option<SecretReference>,
    /// ControllerExpandVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_expand: Option<SecretReference>,
    /// NodeExpandVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_expand: Option<SecretReference>,
    /// ControllerModifyVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_modify: Option<SecretReference>,
}

/// What a claim says about a request that is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// Nothing.
    None,
    /// This.
    Intent(Box<Intent>),
    /// The finalizer alone: somebody took the annotation away.
    FinalizerAlone,
    /// Something that cannot be read, and why. Nothing is done then: what the driver was asked for is not known.
    Unreadable(String),
}

/// Reads what a claim says.
pub fn noted(claim: &PersistentVolumeClaim) -> Noted {
    let held = has_finalizer(claim, FINALIZER_PROVISIONING);
    match annotation(claim, ANN_CREATE_REQUEST) {
        None if held => Noted::FinalizerAlone,
        None => Noted::None,
        Some(text) => match serde_json::from_str::<Intent>(text) {
            Err(error) => Noted::Unreadable(error.to_string()),
            // The name is what ties a volume to its claim. One that was copied from elsewhere is no intent.
            Ok(intent) if intent.name != volume_name(claim) => Noted::Unreadable(format!(
                "it is about {}, which is not the volume of this claim",
                intent.name
            )),
            Ok(intent) => Noted::Intent(Box::new(intent)),
        },
    }
}

/// The name of the volume that is made for a claim.
pub fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// Whether an intent is fulfilled by a volume that is saved: then nothing is forgotten when it goes.
pub fn is_fulfilled(intent: &Intent, volume: &PersistentVolume) -> bool {
    let name = volume.metadata.name.as_deref() == Some(intent.name.as_str());
    let driver =
        handle::source(volume).map(|csi| csi.driver.as_str()).or_else(|| translate::driver_of(volume));
    name && driver == Some(intent.driver.as_str())
}

/// Takes a fulfilled intent off a claim that is about to be written anyway, because it is bound to that volume now. True if
/// something changed.
pub fn settle(claim: &mut PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let Noted::Intent(intent) = noted(claim) else { return false };
    if !is_fulfilled(&intent, volume) {
        return false;
    }
    let meta = claim.meta_mut();
    if let Some(finalizers) = &mut meta.finalizers {
        finalizers.retain(|one| one != FINALIZER_PROVISIONING);
    }
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(ANN_CREATE_REQUEST);
    }
    true
}

/// The change that puts an intent onto a claim, conditional on its version.
pub(super) fn put(claim: &PersistentVolumeClaim, intent: &Intent) -> Value {
    // A struct of texts and numbers has no value that JSON cannot hold.
    let text = serde_json::to_string(intent).unwrap_or_default();
    let mut change = finalizers::with(claim, FINALIZER_PROVISIONING);
    change["metadata"]["annotations"] = json!({ANN_CREATE_REQUEST: text});
    change
}

/// The change that takes it off again, and with `reschedule` the chosen node as well.
pub(super) fn take(claim: &PersistentVolumeClaim, reschedule: bool) -> Value {
    let mut change = finalizers::without(claim, FINALIZER_PROVISIONING);
    change["metadata"]["annotations"] = json!({ANN_CREATE_REQUEST: null});
    if reschedule {
        change["metadata"]["annotations"][ANN_SELECTED_NODE] = Value::Null;
    }
    change
}

impl Intent {
    /// The request with the values of its secrets.
    pub fn request(&self, secrets: HashMap<String, String>) -> v1::CreateVolumeRequest {
        let access = self.access();
        let modes = self.modes.iter().filter_map(|mode| Mode::from_str_name(mode));
        v1::CreateVolumeRequest {
            name: self.name.clone(),
            capacity_range: Some(v1::CapacityRange { required_bytes: self.bytes, limit_bytes: 0 }),
            volume_capabilities: modes.map(|mode| access.capability(mode)).collect(),
            parameters: self.parameters.clone().into_iter().collect(),
            secrets,
            volume_content_source: self.content.as_ref().map(Content::message),
            accessibility_requirements: self.topology.as_ref().map(Requirement::message),
            mutable_parameters: self.mutable_parameters.clone().into_iter().collect(),
        }
    }

    fn access(&self) -> Access {
        if self.block {
            return Access::Block;
        }
        Access::Mount { fs_type: self.fs_type.clone(), options: self.mount_options.clone() }
    }
}
