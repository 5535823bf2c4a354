//! The request to a driver, written to the claim before the call: a finalizer that keeps the claim, and an annotation with
//! everything that the call and the volume's object need. A class that is changed, replaced or deleted in the meantime changes
//! nothing, and after a crash the same request is sent again (I9). Pure.
//!
//! It contains references to secrets but not their values, which are read again for every call. Users with write access to
//! claims can write this annotation, too: a driver is called only for a note that orlop itself has written according to `seal`.

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
use orlop_client::meta::{annotation, has_finalizer};
use orlop_client::names::{ANN_CREATE_REQUEST, ANN_SELECTED_NODE, FINALIZER_PROVISIONING};
use orlop_volume::csi::handle;
use orlop_volume::csi::modes::Access;
use orlop_volume::translate;

/// A CreateVolume request and the plan for its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The driver to call.
    pub driver: String,
    /// The volume's name for driver and API: `pvc-` and the UID of the claim.
    pub name: String,
    /// Minimum size.
    pub bytes: i64,
    /// Access modes, with CSI's names.
    pub modes: Vec<String>,
    /// A block device instead of a file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub block: bool,
    /// File system type, empty for the driver's choice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
    /// The class's mount options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
    /// The class's parameters, without reserved keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The parameters of the attributes class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mutable_parameters: BTreeMap<String, String>,
    /// The source of the volume's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The topology from which it has to be accessible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Requirement>,
    /// The plan for the result.
    pub volume: Plan,
    /// Proof that orlop wrote this note, see `seal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seal: String,
}

/// The fields of the volume's object that the class determines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Name of the class.
    pub class: String,
    /// The provisioner that it names.
    pub provisioner: String,
    /// The volume's reclaim policy.
    pub reclaim_policy: String,
    /// Name of the attributes class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes_class: Option<String>,
    /// Secrets by purpose.
    #[serde(default)]
    pub secrets: Secrets,
}

/// The secrets that a volume needs during its lifetime.
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

/// The note of a claim about a request in progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// None.
    None,
    /// This request.
    Intent(Box<Intent>),
    /// Only the finalizer: the annotation was removed.
    FinalizerAlone,
    /// It cannot be parsed, with the reason. The claim is then left alone: the request to the driver is unknown.
    Unreadable(String),
}

/// Reads a claim's note.
pub fn noted(claim: &PersistentVolumeClaim) -> Noted {
    let held = has_finalizer(claim, FINALIZER_PROVISIONING);
    match annotation(claim, ANN_CREATE_REQUEST) {
        None if held => Noted::FinalizerAlone,
        None => Noted::None,
        Some(text) => match serde_json::from_str::<Intent>(text) {
            Err(error) => Noted::Unreadable(error.to_string()),
            // The name ties a volume to its claim. A note that was copied from another claim is invalid.
            Ok(intent) if intent.name != volume_name(claim) => Noted::Unreadable(format!(
                "it is about {}, which is not the volume of this claim",
                intent.name
            )),
            Ok(intent) => Noted::Intent(Box::new(intent)),
        },
    }
}

/// The name of the volume that is created for a claim.
pub fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// Whether a saved volume fulfills an intent: then the intent can be removed without forgetting the volume.
pub fn is_fulfilled(intent: &Intent, volume: &PersistentVolume) -> bool {
    let name = volume.metadata.name.as_deref() == Some(intent.name.as_str());
    let driver =
        handle::source(volume).map(|csi| csi.driver.as_str()).or_else(|| translate::driver_of(volume));
    name && driver == Some(intent.driver.as_str())
}

/// Removes a fulfilled intent from a claim that is about to be written anyway because it is now bound to that volume. True if
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

/// The patch that adds an intent to a claim, conditional on its version.
pub(super) fn put(claim: &PersistentVolumeClaim, intent: &Intent) -> Value {
    // A struct of strings and numbers always serializes to JSON.
    let text = serde_json::to_string(intent).unwrap_or_default();
    let mut change = finalizers::with(claim, FINALIZER_PROVISIONING);
    change["metadata"]["annotations"] = json!({ANN_CREATE_REQUEST: text});
    change
}

/// The patch that removes it, and with `reschedule` the selected node as well.
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
