//! VolumeAttachments: their contents, and the requests that create, mark and delete one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use orlop_client::api::Api;
use serde_json::json;

use super::volume::Spec;
use orlop_client::client::{is_already_exists, is_not_found};
use orlop_client::names::ANN_DETACH_NOT_BEFORE;

/// The contents of a VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct There {
    /// `status.attached`.
    pub(super) attached: bool,
    /// It has a deletion mark.
    pub(super) leaving: bool,
    pub(super) attach_error: Option<String>,
    pub(super) detach_error: Option<String>,
}

/// The VolumeAttachment of a volume on a node, as it is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Such volumes have none.
    NotNeeded,
    /// It does not exist.
    Absent,
    /// This one.
    There(There),
}

impl View {
    pub(super) fn of(attachment: Option<&VolumeAttachment>) -> Self {
        let Some(attachment) = attachment else { return View::Absent };
        let status = attachment.status.as_ref();
        let message =
            |error: &k8s_openapi::api::storage::v1::VolumeError| error.message.clone().unwrap_or_default();
        View::There(There {
            attached: status.is_some_and(|status| status.attached),
            leaving: attachment.metadata.deletion_timestamp.is_some(),
            attach_error: status.and_then(|status| status.attach_error.as_ref()).map(message),
            detach_error: status.and_then(|status| status.detach_error.as_ref()).map(message),
        })
    }
}

/// Creates the VolumeAttachment, unless it exists.
pub(super) async fn create(
    client: &Client,
    name: &str,
    node: &str,
    driver: &str,
    spec: &Spec,
) -> kube::Result<()> {
    let source = VolumeAttachmentSource {
        persistent_volume_name: spec.persistent_volume().map(str::to_owned),
        inline_volume_spec: spec.inline.as_deref().cloned(),
    };
    let object = VolumeAttachment {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: VolumeAttachmentSpec { attacher: driver.to_owned(), node_name: node.to_owned(), source },
        status: None,
    };
    let api: Api<VolumeAttachment> = Api::all(client.clone());
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(error) if is_already_exists(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Requests its deletion. Returns false if it did not exist.
pub(super) async fn delete(client: &Client, name: &str) -> kube::Result<bool> {
    let api: Api<VolumeAttachment> = Api::all(client.clone());
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes or removes annotations. Succeeds if the VolumeAttachment does not exist.
pub(super) async fn mark(
    client: &Client,
    name: &str,
    marks: &BTreeMap<&str, Option<String>>,
) -> kube::Result<()> {
    let api: Api<VolumeAttachment> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": marks}});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A time in the format of annotations: whole seconds, rounded up.
pub(super) fn stamp(at: Timestamp) -> String {
    let up = i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(at.as_second().saturating_add(up)).unwrap_or(at).to_string()
}

/// The annotation with the time of the forced detach.
pub(super) fn countdown(attachment: &VolumeAttachment) -> Option<&str> {
    orlop_client::meta::annotation(attachment, ANN_DETACH_NOT_BEFORE)
}
