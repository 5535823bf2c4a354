//! Calls a driver for one content, and records the results. The call is recorded before CreateSnapshot; the record is removed
//! when the outcome is recorded, or when it is certain that there is none (I9).

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::SecretReference;
use kube::api::{Patch, PatchParams};
use orlop_client::api::Api;
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::Driver;
use orlop_csi::error::{CallError, Meaning};
use orlop_csi::v1::{CreateSnapshotRequest, DeleteSnapshotRequest, ListSnapshotsRequest, Snapshot};
use serde_json::{Value, json};

use super::content::{self, Step};
use super::driver_queue::Snapshotter;
use super::error::{CallFailure, SnapshotError};
use super::secrets::{self, Purpose};
use super::steps::patch_content;
use super::{protect, status};
use crate::snapshot::VolumeSnapshotContent;
use orlop_client::client::is_not_found;
use orlop_client::meta::{annotation, removing_finalizers};
use orlop_client::names::{
    ANN_SNAPSHOT_BEING_CREATED, ANN_SNAPSHOT_SECRET_NAME, ANN_SNAPSHOT_SECRET_NAMESPACE,
    FINALIZER_SNAPSHOT_CONTENT, YES, reason,
};
use orlop_client::recorder::EventType::Warning;
use orlop_volume::csi::secrets as values;

/// The reported snapshot.
struct SnapshotInfo {
    handle: String,
    ready: bool,
    /// Nanoseconds since 1970.
    taken: i64,
    bytes: i64,
}

fn name_of(content: &VolumeSnapshotContent) -> &str {
    content.metadata.name.as_deref().unwrap_or_default()
}

/// The reason that a snapshot is not deleted if another content represents it too (I8).
fn refusal(content: &str, other: &str, snapshot: &str) -> String {
    format!(
        "snapshot {snapshot:?} of VolumeSnapshotContent {content} is not deleted, because VolumeSnapshotContent {other} has the same \
         handle; set the deletionPolicy of {content} to Retain if {other} keeps the snapshot, or delete {other} first"
    )
}

/// Whether the driver has no result of a request and is not working on it.
fn is_certain(error: &CallError, repeats: bool) -> bool {
    let meaning = if repeats { error.meaning_of_repetition() } else { error.meaning() };
    match meaning {
        Meaning::Final | Meaning::Infeasible => true,
        Meaning::Uncertain => false,
    }
}

impl Snapshotter {
    /// Creates a snapshot, and records the result.
    pub(super) async fn create(
        &self,
        content: VolumeSnapshotContent,
        name: String,
        volume: String,
    ) -> Result<VolumeSnapshotContent, CallFailure> {
        let repeats = annotation(&content, ANN_SNAPSHOT_BEING_CREATED).is_some();
        let asked = self.ask_for(&content, name, volume.clone()).await;
        let (content, outcome) = match asked {
            Ok(both) => both,
            Err(CallFailure::Api(error)) => return Err(error.into()),
            Err(failure) => (content, Err(failure)),
        };
        let found = match outcome {
            Ok(found) => found,
            Err(failure) => {
                let why = match &failure {
                    CallFailure::Call(error) => {
                        format!("failed to take snapshot of the volume {volume}: {:?}", error.to_string())
                    }
                    other => format!(
                        "failed to get input parameters to create snapshot for content {}: {:?}",
                        name_of(&content),
                        other.to_string()
                    ),
                };
                let content = match &failure {
                    // It is certain that neither this request nor an earlier one with a lost response has a snapshot (I9).
                    CallFailure::Call(error) if is_certain(error, repeats) => self.unmark(&content).await?,
                    _ => content,
                };
                let message = format!("Failed to create snapshot: {why}");
                self.fail(&content, reason::SNAPSHOT_CREATION_FAILED, message).await?;
                return Err(failure);
            }
        };
        // The handle first, then the removal of the record: a crash in between repeats the request with the same name.
        let content = self.write_found(&content, &found).await?;
        let content = self.unmark(&content).await?;
        self.ready_or_later(content)
    }

    async fn ask_for(
        &self,
        content: &VolumeSnapshotContent,
        name: String,
        volume: String,
    ) -> Result<(VolumeSnapshotContent, Result<SnapshotInfo, CallFailure>), CallFailure> {
        let class = content.spec.volume_snapshot_class_name.as_deref().unwrap_or_default();
        let Some(class) = self.classes.get(class) else {
            return Err(CallFailure::Input(format!(
                "volumesnapshotclass.snapshot.storage.k8s.io {class:?} not found"
            )));
        };
        let parameters = class.parameters.clone().unwrap_or_default();
        let parameters = secrets::parameters(&parameters).map_err(CallFailure::Input)?;
        let secrets = self.credentials(content).await?;
        let driver = self.driver()?;
        let content = self.mark(content).await?;
        // From here on a snapshot of this name may exist.
        let request = CreateSnapshotRequest { source_volume_id: volume, name, secrets, parameters };
        let answer = driver.create_snapshot(request.clone()).await.and_then(|answer| {
            let snapshot = answer
                .snapshot
                .ok_or_else(|| CallError::broken("CreateSnapshot: no snapshot in the answer"))?;
            let known = content.status.as_ref().and_then(|status| status.snapshot_handle.as_deref());
            checked(snapshot, known, &request.source_volume_id, self.clock.now())
        });
        Ok((content, answer.map_err(CallFailure::from)))
    }

    /// Reads the state of a snapshot that existed before.
    pub(super) async fn check(
        &self,
        content: VolumeSnapshotContent,
        snapshot: &str,
    ) -> Result<VolumeSnapshotContent, CallFailure> {
        match self.look_up(&content, snapshot).await {
            Ok(found) => {
                let content = self.write_found(&content, &found).await?;
                self.ready_or_later(content)
            }
            Err(CallFailure::Api(error)) => Err(error.into()),
            Err(failure) => {
                let name = name_of(&content);
                let message = format!(
                    "Failed to check and update snapshot content: failed to list snapshot for content {name}: {:?}",
                    failure.to_string()
                );
                self.fail(&content, reason::SNAPSHOT_CHECK_FAILED, message).await?;
                Err(failure)
            }
        }
    }

    async fn look_up(
        &self,
        content: &VolumeSnapshotContent,
        snapshot: &str,
    ) -> Result<SnapshotInfo, CallFailure> {
        let driver = self.driver()?;
        let now = self.clock.now();
        if !driver.can().can(Rpc::ListSnapshots) {
            // The driver does not report the time.
            let taken = nanoseconds(now);
            return Ok(SnapshotInfo { handle: snapshot.to_owned(), ready: true, taken, bytes: 0 });
        }
        let secrets = match content.spec.volume_snapshot_class_name.as_deref() {
            None => HashMap::new(),
            Some(name) => {
                let class = self.classes.get(name).ok_or_else(|| {
                    CallFailure::Input(format!(
                        "volumesnapshotclass.snapshot.storage.k8s.io {name:?} not found"
                    ))
                })?;
                let parameters = class.parameters.clone().unwrap_or_default();
                let reference = secrets::reference(Purpose::List, &parameters, name_of(content), None)?;
                values::read(&self.client, reference.as_ref()).await?
            }
        };
        let request =
            ListSnapshotsRequest { snapshot_id: snapshot.to_owned(), secrets, ..Default::default() };
        let answer = driver.list_snapshots(request).await?;
        let found =
            answer.entries.into_iter().filter_map(|entry| entry.snapshot).find(|s| s.snapshot_id == snapshot);
        let found = found
            .ok_or_else(|| CallFailure::Input(format!("can not find snapshot for snapshotID {snapshot}")))?;
        Ok(checked(found, Some(snapshot), "", now)?)
    }

    /// Deletes a snapshot. A missing one counts as deleted.
    pub(super) async fn delete(
        &self,
        content: &VolumeSnapshotContent,
        snapshot: String,
    ) -> Result<(), CallFailure> {
        if let Some(other) = self.other_content(name_of(content), &snapshot) {
            let why = refusal(name_of(content), &other.metadata.name.clone().unwrap_or_default(), &snapshot);
            self.recorder.event(content, Warning, reason::SNAPSHOT_DELETE_ERROR, why.as_str());
            self.recorder.event(other.as_ref(), Warning, reason::SNAPSHOT_DELETE_ERROR, why.as_str());
            return Err(CallFailure::Input(why));
        }
        let secrets = match self.credentials(content).await {
            Ok(secrets) => secrets,
            Err(failure) => {
                let why = "Failed to get snapshot credentials";
                self.recorder.event(content, Warning, reason::SNAPSHOT_DELETE_ERROR, why);
                return Err(failure);
            }
        };
        let request = DeleteSnapshotRequest { snapshot_id: snapshot, secrets };
        if let Err(error) = self.driver()?.delete_snapshot(request).await {
            self.recorder.event(content, Warning, reason::SNAPSHOT_DELETE_ERROR, "Failed to delete snapshot");
            return Err(error.into());
        }
        Ok(())
    }

    /// Removes the content's finalizer. After a crash before this the snapshot is deleted once more, which changes nothing.
    pub(super) async fn release(&self, content: &VolumeSnapshotContent) -> Result<(), CallFailure> {
        let held = protect::present(content, &[FINALIZER_SNAPSHOT_CONTENT]);
        if held.is_empty() {
            return Ok(());
        }
        match patch_content(&self.client, name_of(content), &removing_finalizers(content, &held)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(failed("let go", content, cause)),
        }
    }

    async fn mark(&self, content: &VolumeSnapshotContent) -> Result<VolumeSnapshotContent, CallFailure> {
        if annotation(content, ANN_SNAPSHOT_BEING_CREATED).is_some() {
            return Ok(content.clone());
        }
        self.annotate(content, json!(YES)).await
    }

    /// Records that no request is in progress any more.
    pub(super) async fn unmark(
        &self,
        content: &VolumeSnapshotContent,
    ) -> Result<VolumeSnapshotContent, CallFailure> {
        if annotation(content, ANN_SNAPSHOT_BEING_CREATED).is_none() {
            return Ok(content.clone());
        }
        self.annotate(content, Value::Null).await
    }

    async fn annotate(
        &self,
        content: &VolumeSnapshotContent,
        value: Value,
    ) -> Result<VolumeSnapshotContent, CallFailure> {
        let patch = json!({"metadata": {"resourceVersion": content.metadata.resource_version,
            "annotations": {ANN_SNAPSHOT_BEING_CREATED: value}}});
        patch_content(&self.client, name_of(content), &patch)
            .await
            .map_err(|cause| failed("mark", content, cause))
    }

    async fn write_found(
        &self,
        content: &VolumeSnapshotContent,
        found: &SnapshotInfo,
    ) -> Result<VolumeSnapshotContent, CallFailure> {
        let old = content.status.clone().unwrap_or_default();
        let mut new = old.clone();
        new.snapshot_handle = old.snapshot_handle.clone().or_else(|| Some(found.handle.clone()));
        new.creation_time = old.creation_time.or(Some(found.taken));
        new.restore_size = old.restore_size.or((found.bytes > 0).then_some(found.bytes));
        new.ready_to_use = Some(found.ready);
        new.error = old.error.clone().filter(|_| !found.ready);
        if new == old {
            return Ok(content.clone());
        }
        let mut patch = json!(new);
        if new.error.is_none() {
            patch["error"] = Value::Null;
        }
        self.write_status(content, patch).await
    }

    /// Records a failure and reports it, once.
    async fn fail(
        &self,
        content: &VolumeSnapshotContent,
        reason: &str,
        message: String,
    ) -> Result<(), CallFailure> {
        let known = content.status.as_ref().and_then(|status| status.error.as_ref()?.message.as_deref());
        if known == Some(message.as_str()) {
            return Ok(());
        }
        let error = status::error(&message, self.clock.now());
        self.write_status(content, json!({"readyToUse": false, "error": error})).await?;
        self.recorder.event(content, Warning, reason, message);
        Ok(())
    }

    async fn write_status(
        &self,
        content: &VolumeSnapshotContent,
        status: Value,
    ) -> Result<VolumeSnapshotContent, CallFailure> {
        let patch =
            json!({"metadata": {"resourceVersion": content.metadata.resource_version}, "status": status});
        let api: Api<VolumeSnapshotContent> = Api::all(self.client.clone());
        let written =
            api.patch_status(name_of(content), &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(|cause| failed("write the status of", content, cause))
    }

    /// The values of the secret that the content named when it was created.
    async fn credentials(
        &self,
        content: &VolumeSnapshotContent,
    ) -> Result<HashMap<String, String>, CallFailure> {
        let text = |key| annotation(content, key).map(str::to_owned);
        let reference = match (text(ANN_SNAPSHOT_SECRET_NAME), text(ANN_SNAPSHOT_SECRET_NAMESPACE)) {
            (Some(name), Some(namespace)) if name.is_empty() || namespace.is_empty() => {
                return Err(CallFailure::Input("secret name or namespace not specified".to_owned()));
            }
            (Some(name), Some(namespace)) => SecretReference { name: Some(name), namespace: Some(namespace) },
            (Some(_) | None, None) | (None, Some(_)) => return Ok(HashMap::new()),
        };
        Ok(values::read(&self.client, Some(&reference)).await?)
    }

    fn driver(&self) -> Result<Driver, CallFailure> {
        self.drivers.get(&self.name).ok_or_else(|| CallFailure::Input("the driver is gone".to_owned()))
    }

    /// A snapshot that is taken but not ready is checked again with an increasing delay.
    fn ready_or_later(&self, content: VolumeSnapshotContent) -> Result<VolumeSnapshotContent, CallFailure> {
        match content::next(&content) {
            Step::Create { .. } | Step::Check { .. } => {}
            Step::Nothing | Step::Unmark | Step::Delete { .. } | Step::Release => return Ok(content),
        }
        Err(CallFailure::NotReady(name_of(&content).to_owned()))
    }
}

fn failed(what: &'static str, content: &VolumeSnapshotContent, cause: kube::Error) -> CallFailure {
    SnapshotError::Content { what, content: name_of(content).to_owned(), cause }.into()
}

fn nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

/// Validates the driver's response: it has a handle, which matches a known one, and belongs to the requested volume.
fn checked(
    snapshot: Snapshot,
    known: Option<&str>,
    volume: &str,
    now: Timestamp,
) -> Result<SnapshotInfo, CallError> {
    let Snapshot { snapshot_id: handle, source_volume_id: source, .. } = &snapshot;
    if handle.is_empty() {
        return Err(CallError::broken("the driver answered a snapshot without a handle"));
    }
    if known.is_some_and(|known| known != handle) {
        let text =
            format!("the driver answered snapshot {handle:?} although {known:?} was taken under this name");
        return Err(CallError::broken(text));
    }
    if !volume.is_empty() && !source.is_empty() && source != volume {
        let text = format!("the driver answered a snapshot of volume {source:?}, asked for {volume:?}");
        return Err(CallError::broken(text));
    }
    let time = snapshot.creation_time.as_ref().filter(|time| time.seconds != 0 || time.nanos != 0);
    let of_driver =
        time.and_then(|time| time.seconds.checked_mul(1_000_000_000)?.checked_add(time.nanos.into()));
    Ok(SnapshotInfo {
        handle: handle.clone(),
        ready: snapshot.ready_to_use,
        taken: of_driver.unwrap_or_else(|| nanoseconds(now)),
        bytes: snapshot.size_bytes,
    })
}
