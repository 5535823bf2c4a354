//! All writes to attachments and their volumes. Every write is conditional on the version that the decision was based on (I5).
//! A status is written over concurrent changes as long as the attachment is the same and is not being deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use serde_json::{Map, Value, json};

use super::error::{Failure, RecordedError};
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::meta::{adding_finalizers, is_terminating, removing_finalizers};
use orlop_client::names::ANN_CSI_NODE_ID;
use orlop_volume::csi::handle::attacher_finalizer;

/// Write conflicts in a row before the key is requeued with a delay.
const ROUNDS: usize = 5;
/// The longest error message of an attachment, in bytes (upstream: the validation of VolumeAttachment).
const LONGEST: usize = 1024;

/// The result of a write.
pub(super) enum Written<K> {
    /// It succeeded; this is the new object.
    Done(Box<K>),
    /// A concurrent write came first; this is the current object, and the decision has to be repeated.
    Changed(Box<K>),
    /// The object is gone.
    Gone,
}

/// Writes to the API server.
pub(super) struct Writer {
    client: Client,
}

impl Writer {
    pub(super) fn new(client: Client) -> Self {
        Writer { client }
    }

    /// The client to read secrets with.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    fn attachments(&self) -> Api<VolumeAttachment> {
        Api::all(self.client.clone())
    }

    fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Reads the attachment from the server.
    pub(super) async fn attachment(&self, name: &str) -> Result<Option<VolumeAttachment>, Failure> {
        let found = self.attachments().get_opt(name).await;
        found.map_err(Failure::api("read the attachment"))
    }

    /// Reads the volume from the server.
    pub(super) async fn volume(&self, name: &str) -> Result<Option<PersistentVolume>, Failure> {
        let found = self.volumes().get_opt(name).await;
        found.map_err(Failure::api("read the volume"))
    }

    /// Reads the node's CSINode from the server.
    pub(super) async fn node(&self, name: &str) -> Result<Option<CSINode>, Failure> {
        let api: Api<CSINode> = Api::all(self.client.clone());
        let found = api.get_opt(name).await;
        found.map_err(Failure::api("read the CSINode"))
    }

    /// Adds a driver's finalizer to a volume.
    pub(super) async fn hold(
        &self,
        volume: &PersistentVolume,
        driver: &str,
    ) -> Result<Written<PersistentVolume>, Failure> {
        let body = adding_finalizers(volume, &[&attacher_finalizer(driver)]);
        self.write_volume(volume, body, "add PersistentVolume finalizer").await
    }

    /// Removes a driver's finalizer from a volume.
    pub(super) async fn remove_volume_finalizer(
        &self,
        volume: &PersistentVolume,
        driver: &str,
    ) -> Result<Written<PersistentVolume>, Failure> {
        let body = removing_finalizers(volume, &[&attacher_finalizer(driver)]);
        self.write_volume(volume, body, "remove PersistentVolume finalizer").await
    }

    async fn write_volume(
        &self,
        volume: &PersistentVolume,
        body: Value,
        what: &'static str,
    ) -> Result<Written<PersistentVolume>, Failure> {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        match self.volumes().patch(name, &PatchParams::default(), &Patch::Merge(&body)).await {
            Ok(now) => Ok(Written::Done(Box::new(now))),
            Err(error) if is_not_found(&error) => Ok(Written::Gone),
            Err(error) if is_conflict(&error) => {
                let now = self.volume(name).await?.filter(|now| now.metadata.uid == volume.metadata.uid);
                Ok(now.map_or(Written::Gone, |now| Written::Changed(Box::new(now))))
            }
            Err(error) => Err(Failure::api(what)(error)),
        }
    }

    /// Records that the driver is about to be called, and with which node id (I9).
    pub(super) async fn prepare(
        &self,
        attachment: &VolumeAttachment,
        node_id: &str,
    ) -> Result<Written<VolumeAttachment>, Failure> {
        let mut body = adding_finalizers(attachment, &[&attacher_finalizer(&attachment.spec.attacher)]);
        body["metadata"]["annotations"] = json!({ ANN_CSI_NODE_ID: node_id });
        let api = self.attachments();
        let name = name_of(attachment);
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&body)).await {
            Ok(now) => Ok(Written::Done(Box::new(now))),
            Err(error) if is_not_found(&error) => Ok(Written::Gone),
            Err(error) if is_conflict(&error) => Ok(match self.same(attachment).await? {
                Some(now) => Written::Changed(Box::new(now)),
                None => Written::Gone,
            }),
            Err(error) => Err(Failure::api("save VolumeAttachment")(error)),
        }
    }

    /// Removes the finalizer from a detached attachment, over concurrent writes.
    pub(super) async fn remove_finalizer(
        &self,
        attachment: &VolumeAttachment,
    ) -> Result<Written<VolumeAttachment>, Failure> {
        let finalizer = attacher_finalizer(&attachment.spec.attacher);
        self.insist(attachment, "", "remove the finalizer", |now| removing_finalizers(now, &[&finalizer]))
            .await
    }

    /// Writes a status that is valid despite concurrent changes. It is not written when the attachment's deletion began in the
    /// meantime.
    pub(super) async fn status(
        &self,
        attachment: &VolumeAttachment,
        body: impl Fn(&VolumeAttachment) -> Value,
    ) -> Result<Written<VolumeAttachment>, Failure> {
        self.insist(attachment, "status", "save the status", |now| {
            json!({"metadata": {"resourceVersion": now.metadata.resource_version}, "status": body(now)})
        })
        .await
    }

    async fn insist(
        &self,
        attachment: &VolumeAttachment,
        subresource: &str,
        what: &'static str,
        body: impl Fn(&VolumeAttachment) -> Value,
    ) -> Result<Written<VolumeAttachment>, Failure> {
        let (api, params) = (self.attachments(), PatchParams::default());
        let name = name_of(attachment);
        let mut now = attachment.clone();
        for _ in 0..ROUNDS {
            let body = body(&now);
            let patch = Patch::Merge(&body);
            let done = match subresource {
                "" => api.patch(name, &params, &patch).await,
                subresource => api.patch_subresource(subresource, name, &params, &patch).await,
            };
            match done {
                Ok(done) => return Ok(Written::Done(Box::new(done))),
                Err(error) if is_not_found(&error) => return Ok(Written::Gone),
                Err(error) if is_conflict(&error) => match self.same(attachment).await? {
                    None => return Ok(Written::Gone),
                    Some(fresh) if is_terminating(&fresh) && !is_terminating(attachment) => {
                        return Ok(Written::Changed(Box::new(fresh)));
                    }
                    Some(fresh) => now = fresh,
                },
                Err(error) => return Err(Failure::api(what)(error)),
            }
        }
        Ok(Written::Changed(Box::new(now)))
    }

    /// Reads the same attachment (same UID) from the server, if it still exists.
    async fn same(&self, attachment: &VolumeAttachment) -> Result<Option<VolumeAttachment>, Failure> {
        let now = self.attachment(name_of(attachment)).await?;
        Ok(now.filter(|now| now.metadata.uid == attachment.metadata.uid))
    }
}

fn name_of(attachment: &VolumeAttachment) -> &str {
    attachment.metadata.name.as_deref().unwrap_or_default()
}

/// The status after a publish. A merge patch keeps unnamed keys, so earlier keys are set to null.
pub(super) fn attached(
    now: &VolumeAttachment,
    context: &BTreeMap<String, String>,
    doubt: Option<Value>,
) -> Value {
    let before = now.status.iter().flat_map(|status| status.attachment_metadata.iter().flatten());
    let mut metadata: Map<String, Value> = before.map(|(key, _)| (key.clone(), Value::Null)).collect();
    metadata.extend(context.iter().map(|(key, value)| (key.clone(), json!(value))));
    let metadata = if context.is_empty() { Value::Null } else { Value::Object(metadata) };
    json!({"attached": true, "attachmentMetadata": metadata, "attachError": doubt})
}

/// The status after an unpublish.
pub(super) fn detached() -> Value {
    json!({"attached": false, "attachmentMetadata": null, "detachError": null})
}

/// The status after a failure: the current status and the error.
pub(super) fn failed(now: &VolumeAttachment, failure: &RecordedError, at: Timestamp) -> Value {
    let attached = now.status.as_ref().is_some_and(|status| status.attached);
    let error = error(failure, at);
    if is_terminating(now) {
        json!({"attached": attached, "detachError": error})
    } else {
        json!({"attached": attached, "attachError": error})
    }
}

/// An error in the API's form. An error without a code clears the code of the previous one.
pub(super) fn error(failure: &RecordedError, at: Timestamp) -> Value {
    json!({"message": shortened(&failure.message), "time": Time(at), "errorCode": failure.code})
}

fn shortened(text: &str) -> &str {
    let end = (0..=text.len().min(LONGEST)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_context_replaces_the_old_one() {
        let text = r#"{"metadata":{},"spec":{"attacher":"d","nodeName":"n","source":{}},
            "status":{"attached":true,"attachmentMetadata":{"a":"1","b":"2"}}}"#;
        let now: VolumeAttachment = serde_json::from_str(text).expect("an attachment");
        let context = BTreeMap::from([("b".to_owned(), "3".to_owned()), ("c".to_owned(), "4".to_owned())]);
        let status = attached(&now, &context, None);
        assert_eq!(status["attachmentMetadata"], json!({"a": null, "b": "3", "c": "4"}));
        assert_eq!(attached(&now, &BTreeMap::new(), None)["attachmentMetadata"], Value::Null);
    }

    #[test]
    fn long_message_is_truncated() {
        assert_eq!(shortened(&"ä".repeat(2000)).len(), 1024);
        assert_eq!(shortened(&format!("a{}", "ä".repeat(2000))).len(), 1023);
        assert_eq!(shortened("short"), "short");
    }
}
