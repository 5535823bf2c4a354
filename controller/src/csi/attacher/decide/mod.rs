//! Decides the next step for one attachment from the objects alone (upstream: external-attacher's csiHandler). Each step is one
//! write or one call; after it, the decision is made again from the new state.

use std::borrow::Cow;
use std::collections::HashMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, SecretReference,
};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use orlop_csi::capabilities::{Capabilities, Rpc};
use orlop_csi::v1::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, VolumeCapability};

use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::ANN_CSI_NODE_ID;
use orlop_volume::csi::handle::{attacher_finalizer, node_id};
use orlop_volume::csi::modes::{self, ModeError};
use orlop_volume::translate::to_csi;

/// The input of a decision about an attachment.
pub(super) struct View<'a> {
    /// The attachment.
    pub(super) attachment: &'a VolumeAttachment,
    /// The volume that it names, if it exists.
    pub(super) volume: Option<&'a PersistentVolume>,
    /// The volume's last attachment is gone and its finalizer is being removed.
    pub(super) volume_released: bool,
    /// The drivers registered on its node.
    pub(super) node: Option<&'a CSINode>,
    /// The driver's capabilities.
    pub(super) can: &'a Capabilities,
    /// The driver's own volume list contradicts the status.
    pub(super) doubted: bool,
}

/// The next step.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing.
    Rest,
    /// The driver does not attach: report it as attached without a call.
    SayAttached,
    /// Write the volume's finalizer, so that it is not deleted while attached.
    HoldVolume,
    /// Call ControllerPublishVolume.
    Publish(Box<Publish>),
    /// Call ControllerUnpublishVolume.
    Unpublish(Box<Unpublish>),
    /// The driver does not detach: remove the attachment's finalizer.
    RemoveFinalizer,
}

/// A call of ControllerPublishVolume.
#[derive(Debug, PartialEq)]
pub(super) struct Publish {
    pub(super) handle: String,
    /// The driver's id of the node.
    pub(super) node_id: String,
    pub(super) capability: VolumeCapability,
    pub(super) readonly: bool,
    /// The volume's attributes.
    pub(super) context: HashMap<String, String>,
    /// The secret whose values are sent.
    pub(super) secret: Option<SecretReference>,
    /// Finalizer and node id are on the attachment already (I9).
    pub(super) written: bool,
}

/// A call of ControllerUnpublishVolume.
#[derive(Debug, PartialEq)]
pub(super) struct Unpublish {
    pub(super) handle: String,
    /// The driver's id of the node.
    pub(super) node_id: String,
    /// The secret whose values are sent.
    pub(super) secret: Option<SecretReference>,
    /// The driver no longer lists the capability to publish. If it answers that the call is unimplemented, nothing needs to be
    /// detached.
    pub(super) unlisted: bool,
}

impl Publish {
    /// The request, with the values of its secret.
    pub(super) fn request(self, secrets: HashMap<String, String>) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: self.handle,
            node_id: self.node_id,
            volume_capability: Some(self.capability),
            readonly: self.readonly,
            secrets,
            volume_context: self.context,
        }
    }
}

impl Unpublish {
    /// The request, with the values of its secret.
    pub(super) fn request(self, secrets: HashMap<String, String>) -> ControllerUnpublishVolumeRequest {
        ControllerUnpublishVolumeRequest { volume_id: self.handle, node_id: self.node_id, secrets }
    }
}

/// Why the driver cannot be called. The texts are upstream's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AttachRefusal {
    #[error("neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source")]
    NoSource,
    #[error("both InlineCSIVolumeSource and PersistentVolumeName specified in VA source")]
    TwoSources,
    #[error("persistentvolume \"{0}\" not found")]
    NoVolume(String),
    #[error("PersistentVolume \"{0}\" is marked for deletion")]
    VolumeGoing(String),
    #[error("the volume has no csi source, so no driver can attach it")]
    NotCsi,
    #[error("the volume is of driver {of}, and the attachment names {named}")]
    OtherDriver { of: String, named: String },
    #[error("csinode.storage.k8s.io \"{0}\" not found")]
    NoNode(String),
    #[error("CSINode {node} does not contain driver {driver}")]
    NotOnNode { node: String, driver: String },
    #[error(transparent)]
    Modes(#[from] ModeError),
}

impl AttachRefusal {
    /// Whether the missing object may be missing only from the cache.
    pub(super) fn may_be_late(&self) -> bool {
        match self {
            AttachRefusal::NoVolume(_) | AttachRefusal::NoNode(_) | AttachRefusal::NotOnNode { .. } => true,
            AttachRefusal::NoSource
            | AttachRefusal::TwoSources
            | AttachRefusal::VolumeGoing(_)
            | AttachRefusal::NotCsi
            | AttachRefusal::OtherDriver { .. }
            | AttachRefusal::Modes(_) => false,
        }
    }
}

/// Whether there may be work left: it is being deleted, or it is not attached.
pub(super) fn is_unsettled(attachment: &VolumeAttachment) -> bool {
    is_terminating(attachment) || !is_attached(attachment)
}

/// Whether its status reports it as attached.
pub(super) fn is_attached(attachment: &VolumeAttachment) -> bool {
    attachment.status.as_ref().is_some_and(|status| status.attached)
}

/// The name of its volume.
pub(super) fn volume_name(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

/// The volume as a CSI volume of its driver. CSI volumes are returned unchanged; in-tree volumes that are migrated to a driver
/// are translated.
pub(super) fn of_driver(volume: &PersistentVolume) -> Cow<'_, PersistentVolume> {
    to_csi(volume).map_or(Cow::Borrowed(volume), Cow::Owned)
}

/// Decides the next step.
///
/// # Errors
/// The problem that a user has to fix before the driver can be called.
pub(super) fn decide(view: &View<'_>) -> Result<Step, AttachRefusal> {
    let trivial = !view.can.can(Rpc::PublishUnpublishVolume);
    match (is_terminating(view.attachment), trivial) {
        (false, _) if is_attached(view.attachment) && !view.doubted => Ok(Step::Rest),
        (false, true) if is_attached(view.attachment) => Ok(Step::Rest),
        (false, true) => Ok(Step::SayAttached),
        (false, false) => attach(view),
        (true, _) if !is_ours(view.attachment) && (trivial || !view.doubted) => Ok(Step::Rest),
        // A published volume has to be unpublished, whatever capabilities the driver reports now.
        (true, true) if recorded(view).is_none() => Ok(Step::RemoveFinalizer),
        (true, true | false) => detach(view),
    }
}

/// Whether it carries its driver's finalizer: publish was called, or was about to be.
pub(super) fn is_ours(attachment: &VolumeAttachment) -> bool {
    has_finalizer(attachment, &attacher_finalizer(&attachment.spec.attacher))
}

fn attach(view: &View<'_>) -> Result<Step, AttachRefusal> {
    let View { attachment, can, .. } = view;
    let driver = attachment.spec.attacher.as_str();
    if let Some(volume) = named_volume(view)? {
        let name = || volume.metadata.name.clone().unwrap_or_default();
        if is_terminating(volume) || view.volume_released {
            return Err(AttachRefusal::VolumeGoing(name()));
        }
        if !has_finalizer(volume, &attacher_finalizer(driver)) {
            return Ok(Step::HoldVolume);
        }
    }
    let spec = spec(view)?;
    let csi = source(&spec, driver)?;
    let capability = modes::of_volume(&spec, can)?;
    let node = on_node(view)?;
    let written = is_ours(attachment) && recorded(view) == Some(node);
    Ok(Step::Publish(Box::new(Publish {
        handle: csi.volume_handle.clone(),
        node_id: node.to_owned(),
        capability,
        readonly: csi.read_only.unwrap_or(false) && can.can(Rpc::PublishReadonly),
        context: csi.volume_attributes.clone().unwrap_or_default().into_iter().collect(),
        secret: csi.controller_publish_secret_ref.clone(),
        written,
    })))
}

fn detach(view: &View<'_>) -> Result<Step, AttachRefusal> {
    let spec = spec(view)?;
    let csi = source(&spec, &view.attachment.spec.attacher)?;
    Ok(Step::Unpublish(Box::new(Unpublish {
        handle: csi.volume_handle.clone(),
        node_id: published_on(view)?.to_owned(),
        secret: csi.controller_publish_secret_ref.clone(),
        unlisted: !view.can.can(Rpc::PublishUnpublishVolume),
    })))
}

/// The volume that the attachment names; none when the source is inline in the attachment.
fn named_volume<'a>(view: &View<'a>) -> Result<Option<&'a PersistentVolume>, AttachRefusal> {
    let source = &view.attachment.spec.source;
    match (&source.persistent_volume_name, &source.inline_volume_spec) {
        (None, None) => Err(AttachRefusal::NoSource),
        (Some(_), Some(_)) => Err(AttachRefusal::TwoSources),
        (None, Some(_)) => Ok(None),
        (Some(name), None) => view.volume.map(Some).ok_or_else(|| AttachRefusal::NoVolume(name.clone())),
    }
}

/// The volume to attach, as its driver's CSI source.
fn spec<'a>(view: &View<'a>) -> Result<Cow<'a, PersistentVolumeSpec>, AttachRefusal> {
    let inline = view.attachment.spec.source.inline_volume_spec.as_ref();
    let Some(volume) = named_volume(view)? else {
        return inline.map(Cow::Borrowed).ok_or(AttachRefusal::NoSource);
    };
    match of_driver(volume) {
        Cow::Borrowed(volume) => volume.spec.as_ref().map(Cow::Borrowed),
        Cow::Owned(volume) => volume.spec.map(Cow::Owned),
    }
    .ok_or(AttachRefusal::NotCsi)
}

fn source<'a>(
    spec: &'a PersistentVolumeSpec,
    named: &str,
) -> Result<&'a CSIPersistentVolumeSource, AttachRefusal> {
    let csi = spec.csi.as_ref().ok_or(AttachRefusal::NotCsi)?;
    if csi.driver != named {
        return Err(AttachRefusal::OtherDriver { of: csi.driver.clone(), named: named.to_owned() });
    }
    Ok(csi)
}

/// The node id that publish was called with, if it was called.
fn recorded<'a>(view: &View<'a>) -> Option<&'a str> {
    annotation(view.attachment, ANN_CSI_NODE_ID)
}

/// The node id that the volume is published on, if it is. The recorded id takes precedence: a recreated node may have another id,
/// and a node that is shut down publishes none.
fn published_on<'a>(view: &View<'a>) -> Result<&'a str, AttachRefusal> {
    recorded(view).map_or_else(|| on_node(view), Ok)
}

/// The driver's current id of the attachment's node.
fn on_node<'a>(view: &View<'a>) -> Result<&'a str, AttachRefusal> {
    let spec = &view.attachment.spec;
    let node = view.node.ok_or_else(|| AttachRefusal::NoNode(spec.node_name.clone()))?;
    node_id(node, &spec.attacher).ok_or_else(|| AttachRefusal::NotOnNode {
        node: spec.node_name.clone(),
        driver: spec.attacher.clone(),
    })
}

/// Volume handle and node id of an attachment, to compare with the driver's list. The list shows a volume where it was
/// published: a changed node id is no reason to publish again and lose the record of the first.
pub(super) fn place(view: &View<'_>) -> Option<(String, String)> {
    let spec = spec(view).ok()?;
    let csi = source(&spec, &view.attachment.spec.attacher).ok()?;
    Some((csi.volume_handle.clone(), published_on(view).ok()?.to_owned()))
}

/// Whether the finalizer of `driver` can be removed from a volume: nothing is attached, and the volume is being deleted or
/// no longer belongs to this driver.
pub(super) fn may_release_volume(volume: &PersistentVolume, driver: &str, attached: bool) -> bool {
    if attached || !has_finalizer(volume, &attacher_finalizer(driver)) {
        return false;
    }
    is_terminating(volume) || is_of_nobody(volume, driver)
}

/// Whether this is an in-tree volume whose plugin this driver does not serve (upstream checks the annotation migrated-to).
fn is_of_nobody(volume: &PersistentVolume, driver: &str) -> bool {
    let is_csi = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
    !is_csi && annotation(volume, orlop_client::names::ANN_MIGRATED_TO) != Some(driver)
}

#[cfg(test)]
mod tests;
