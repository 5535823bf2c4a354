//! Decides the next step for a snapshot. Pure: one step at a time, each with one write, and after any prefix of the writes the
//! next step is found again.
//!
//! A snapshot of a claim gets a content whose name is derived from its UID; a snapshot that names a content is bound to it when
//! the content refers back. Finalizers are added before they are needed: the claim has its finalizer before a content exists,
//! the content is created with its finalizer, and a deleted snapshot keeps its own until its content is gone or has to be
//! retained (upstream: external-snapshotter, pkg/common-controller).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::secrets::{self, Purpose};
use super::{bound_content, content_name, is_ready, names, points_to, protect, status};
use crate::snapshot::{
    DeletionPolicy, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent, VolumeSnapshotContentSource,
    VolumeSnapshotContentSpec, VolumeSnapshotStatus,
};
use orlop_client::meta::{annotation, has_finalizer, is_terminating};
use orlop_client::names::{
    ANN_SNAPSHOT_BEING_DELETED, ANN_SNAPSHOT_SECRET_NAME, ANN_SNAPSHOT_SECRET_NAMESPACE,
    FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND, FINALIZER_SNAPSHOT_CLAIM,
    FINALIZER_SNAPSHOT_CONTENT, reason,
};
use orlop_volume::csi::handle;
use orlop_volume::resize::target::is_bound;

/// The input of the decision.
pub struct Facts<'a> {
    /// The snapshot.
    pub snapshot: &'a VolumeSnapshot,
    /// Its content ([`super::wanted_content`]).
    pub content: Option<&'a VolumeSnapshotContent>,
    /// The class that it names.
    pub class: Option<Arc<VolumeSnapshotClass>>,
    /// Default classes of any driver.
    pub defaults: Vec<Arc<VolumeSnapshotClass>>,
    /// The claim that the snapshot is taken from.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// The volume of that claim.
    pub volume: Option<Arc<PersistentVolume>>,
    /// A claim restored from it has no volume yet.
    pub is_being_restored: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing is left to do here.
    Nothing,
    /// Report an error on the snapshot.
    Fail {
        /// The event's reason.
        reason: &'static str,
        /// The message of event and status.
        message: String,
        /// The snapshot cannot be used any more.
        unready: bool,
    },
    /// Set the default class.
    SetClass(String),
    /// Add finalizers to the snapshot.
    Protect(Vec<&'static str>),
    /// Add the finalizer to the claim until the snapshot is taken.
    ProtectClaim,
    /// Create the content, which requests the snapshot from the driver.
    CreateContent(Box<VolumeSnapshotContent>),
    /// Set the snapshot's UID on an existing content, and its class if it has none.
    BindContent {
        /// The class.
        class: Option<String>,
    },
    /// Copy the content's status to the snapshot.
    SetStatus(Box<VolumeSnapshotStatus>),
    /// The snapshot is being deleted while a claim is still being restored from it.
    WaitForRestore,
    /// Mark the content: its snapshot is being deleted.
    MarkContent,
    /// Delete the content.
    DeleteContent,
    /// Remove finalizers from the snapshot.
    Release(Vec<&'static str>),
}

const MISSING: &str = "VolumeSnapshotContent is missing";

fn fail(reason: &'static str, message: impl Into<String>, unready: bool) -> Step {
    Step::Fail { reason, message: message.into(), unready }
}

/// Decides the next step.
pub fn next(facts: &Facts<'_>) -> Step {
    let snapshot = facts.snapshot;
    if is_terminating(snapshot) {
        return leaving(facts);
    }
    if is_ready(snapshot) && bound_content(snapshot).is_some() {
        return ready(facts);
    }
    let source = &snapshot.spec.source;
    let (claim, content) = (&source.persistent_volume_claim_name, &source.volume_snapshot_content_name);
    match (claim, content) {
        (Some(claim), None) => of_claim(facts, claim),
        (None, Some(content)) => of_content(facts, content),
        (None, None) | (Some(_), Some(_)) => fail(
            reason::SNAPSHOT_VALIDATION_ERROR,
            "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified",
            true,
        ),
    }
}

/// The step of a bound snapshot, whose binding has to stay intact.
fn ready(facts: &Facts<'_>) -> Step {
    let Some(content) = facts.content else { return fail(reason::SNAPSHOT_CONTENT_MISSING, MISSING, true) };
    if !points_to(content, facts.snapshot) {
        let why = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly";
        return fail(reason::SNAPSHOT_MISBOUND, why, true);
    }
    protection(facts).unwrap_or(Step::Nothing)
}

/// Adds the finalizers that the snapshot lacks.
fn protection(facts: &Facts<'_>) -> Option<Step> {
    let snapshot = facts.snapshot;
    let content = facts.content.filter(|content| points_to(content, snapshot));
    let goes_along = content.is_some_and(|content| content.spec.deletion_policy == DeletionPolicy::Delete);
    let mut wanted = vec![FINALIZER_SNAPSHOT_AS_SOURCE];
    if goes_along && bound_content(snapshot).is_some() {
        wanted.push(FINALIZER_SNAPSHOT_BOUND);
    }
    let missing = protect::missing(snapshot, &wanted);
    (!missing.is_empty()).then_some(Step::Protect(missing))
}

/// Fails if the class that the snapshot names does not exist.
fn class_missing(facts: &Facts<'_>) -> Option<Step> {
    let name = facts.snapshot.spec.volume_snapshot_class_name.as_ref()?;
    let why = format!(
        "Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io {name:?} not found"
    );
    facts.class.is_none().then(|| fail(reason::GET_SNAPSHOT_CLASS_FAILED, why, false))
}

/// The step of a snapshot that names an existing content.
fn of_content(facts: &Facts<'_>, name: &str) -> Step {
    let snapshot = facts.snapshot;
    if let Some(step) = class_missing(facts) {
        return step;
    }
    let Some(content) = facts.content else {
        return protection(facts).unwrap_or_else(|| fail(reason::SNAPSHOT_CONTENT_MISSING, MISSING, true));
    };
    if content.spec.source.snapshot_handle.is_none() {
        let why = "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one";
        return fail(reason::SNAPSHOT_CONTENT_MISMATCH, why, true);
    }
    let reference = &content.spec.volume_snapshot_ref;
    let is_free = reference.uid.as_deref().unwrap_or_default().is_empty();
    if !names(content, snapshot) || !is_free && !points_to(content, snapshot) {
        let why = format!("VolumeSnapshotContent [{name}] is bound to a different snapshot");
        return fail(reason::SNAPSHOT_CONTENT_MISBOUND, why, true);
    }
    if let Some(step) = protection(facts) {
        return step;
    }
    let class = snapshot.spec.volume_snapshot_class_name.clone();
    if is_free || content.spec.volume_snapshot_class_name.is_none() && class.is_some() {
        return Step::BindContent { class };
    }
    say(facts, content)
}

/// The step of a snapshot of a claim.
fn of_claim(facts: &Facts<'_>, claim: &str) -> Step {
    let snapshot = facts.snapshot;
    let Some(content) = facts.content else { return begin(facts, claim) };
    let name = content.metadata.name.as_deref().unwrap_or_default();
    if content.spec.source.volume_handle.is_none() {
        let why = format!(
            "VolumeSnapshotContent {name} is pre-provisioned while expecting a dynamically provisioned one"
        );
        return fail(reason::SNAPSHOT_CONTENT_MISMATCH, why, true);
    }
    if !points_to(content, snapshot) {
        let why = format!("VolumeSnapshotContent [{name}] is bound to a different snapshot");
        return fail(reason::SNAPSHOT_CONTENT_MISBOUND, why, true);
    }
    if let Some(step) = protection(facts) {
        return step;
    }
    let is_taken = content.status.as_ref().and_then(|status| status.ready_to_use) == Some(true);
    let unheld = |claim: &&Arc<PersistentVolumeClaim>| {
        !is_terminating(claim.as_ref()) && !has_finalizer(claim.as_ref(), FINALIZER_SNAPSHOT_CLAIM)
    };
    if !is_taken && facts.claim.as_ref().filter(unheld).is_some() {
        return Step::ProtectClaim;
    }
    say(facts, content)
}

fn say(facts: &Facts<'_>, content: &VolumeSnapshotContent) -> Step {
    let status = status::of_content(facts.snapshot, content);
    if facts.snapshot.status.as_ref() == Some(&status) {
        return Step::Nothing;
    }
    Step::SetStatus(Box::new(status))
}

/// The step of a snapshot without content.
fn begin(facts: &Facts<'_>, claim: &str) -> Step {
    let snapshot = facts.snapshot;
    if bound_content(snapshot).is_some() {
        // A new one would be a snapshot of another time with the same name.
        return fail(reason::SNAPSHOT_CONTENT_MISSING, MISSING, true);
    }
    if let Some(step) = class_missing(facts) {
        return step;
    }
    let Some(class) = &facts.class else {
        return default_class(facts, claim).map_or_else(
            |why| {
                let message = format!("Failed to set default snapshot class with error {why}");
                fail(reason::SET_DEFAULT_SNAPSHOT_CLASS_FAILED, message, false)
            },
            Step::SetClass,
        );
    };
    let failed = |why: String| {
        let message = format!("Failed to create snapshot content with error {why}");
        fail(reason::SNAPSHOT_CONTENT_CREATION_FAILED, message, true)
    };
    let Some(source) = &facts.claim else {
        let name = snapshot.metadata.name.as_deref().unwrap_or_default();
        return failed(format!(
            "snapshot controller failed to update {name} on API server: cannot get claim from snapshot"
        ));
    };
    let is_held = has_finalizer(source.as_ref(), FINALIZER_SNAPSHOT_CLAIM);
    if is_terminating(source.as_ref()) && !is_held {
        return failed(format!(
            "snapshot controller failed to update {claim} on API server: cannot add finalizer on claim because it is \
             being deleted"
        ));
    }
    match content_for(facts, class, claim) {
        Err(why) => failed(why),
        Ok(_) if protection(facts).is_some() => protection(facts).unwrap_or(Step::Nothing),
        Ok(_) if !is_held => Step::ProtectClaim,
        Ok(content) => Step::CreateContent(Box::new(content)),
    }
}

/// The volume that the snapshot is taken from.
fn source_volume<'a>(facts: &'a Facts<'_>, claim: &str) -> Result<&'a PersistentVolume, String> {
    let Some(source) = &facts.claim else {
        return Err(format!(
            "failed to retrieve PVC {claim} from the lister: \"persistentvolumeclaim \\\"{claim}\\\" not found\""
        ));
    };
    if !is_bound(source) {
        return Err(format!("the PVC {claim} is not yet bound to a PV, will not attempt to take a snapshot"));
    }
    let name = source.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    let Some(volume) = facts.volume.as_deref() else {
        return Err(format!("failed to retrieve PV {name} from the API server: it does not exist"));
    };
    if !handle::is_bound_to(volume, source) {
        return Err("claim in dataSource not bound or invalid".to_owned());
    }
    Ok(volume)
}

fn default_class(facts: &Facts<'_>, claim: &str) -> Result<String, String> {
    let Some(source) = handle::source(source_volume(facts, claim)?) else {
        let meta = &facts.snapshot.metadata;
        let (namespace, name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        return Err(format!("snapshotting non-CSI volumes is not supported, snapshot:{namespace}/{name}"));
    };
    let mut classes = facts.defaults.iter().filter(|class| class.driver == source.driver);
    match (classes.next(), classes.count()) {
        (None, _) => Err("cannot find default snapshot class".to_owned()),
        (Some(class), 0) => Ok(class.metadata.name.clone().unwrap_or_default()),
        (Some(_), more) => Err(format!("{} default snapshot classes were found", more + 1)),
    }
}

fn content_for(
    facts: &Facts<'_>,
    class: &VolumeSnapshotClass,
    claim: &str,
) -> Result<VolumeSnapshotContent, String> {
    let snapshot = facts.snapshot;
    let input = |why: String| {
        let name = snapshot.metadata.name.as_deref().unwrap_or_default();
        format!("failed to get input parameters to create snapshot {name}: {why:?}")
    };
    let volume = source_volume(facts, claim).map_err(input)?;
    let volume_name = volume.metadata.name.as_deref().unwrap_or_default();
    let Some(source) = handle::source(volume) else {
        return Err(format!("cannot find CSI PersistentVolumeSource for volume {volume_name}"));
    };
    let class_name = class.metadata.name.clone().unwrap_or_default();
    if class.driver != source.driver {
        // A handle means another volume to another driver.
        let (wanted, is) = (&class.driver, &source.driver);
        return Err(format!(
            "snapshot class {class_name} is of driver {wanted:?}, volume {volume_name} of {is:?}; name another class"
        ));
    }
    let name = content_name(snapshot);
    let parameters = class.parameters.clone().unwrap_or_default();
    let secret = secrets::reference(Purpose::Snapshotter, &parameters, &name, Some(snapshot))
        .map_err(|error| input(error.to_string()))?;
    let annotations = secret.map(|secret| {
        [
            (ANN_SNAPSHOT_SECRET_NAME.to_owned(), secret.name.unwrap_or_default()),
            (ANN_SNAPSHOT_SECRET_NAMESPACE.to_owned(), secret.namespace.unwrap_or_default()),
        ]
        .into()
    });
    Ok(VolumeSnapshotContent {
        metadata: ObjectMeta {
            name: Some(name),
            annotations,
            // Set from the beginning: no driver is called for a content that could disappear.
            finalizers: Some(vec![FINALIZER_SNAPSHOT_CONTENT.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: VolumeSnapshotContentSpec {
            volume_snapshot_ref: orlop_client::recorder::reference(snapshot),
            deletion_policy: class.deletion_policy,
            driver: class.driver.clone(),
            volume_snapshot_class_name: Some(class_name),
            source: VolumeSnapshotContentSource {
                volume_handle: Some(source.volume_handle.clone()),
                snapshot_handle: None,
            },
            source_volume_mode: volume.spec.as_ref().and_then(|spec| spec.volume_mode.clone()),
        },
        ..VolumeSnapshotContent::default()
    })
}

/// The step of a snapshot that is being deleted.
fn leaving(facts: &Facts<'_>) -> Step {
    let snapshot = facts.snapshot;
    let held = protect::present(snapshot, &[FINALIZER_SNAPSHOT_AS_SOURCE, FINALIZER_SNAPSHOT_BOUND]);
    if held.is_empty() {
        return Step::Nothing;
    }
    // Only a content that refers back belongs to it.
    let content = facts.content.filter(|content| points_to(content, snapshot));
    let Some(content) = content else { return Step::Release(held) };
    if facts.is_being_restored {
        return Step::WaitForRestore;
    }
    if annotation(content, ANN_SNAPSHOT_BEING_DELETED).is_none() {
        return Step::MarkContent;
    }
    let goes_along = content.spec.deletion_policy == DeletionPolicy::Delete;
    if goes_along && !is_terminating(content) {
        return Step::DeleteContent;
    }
    // While the content is being deleted, its snapshot stays, so that it does not appear to be gone.
    let free: Vec<_> =
        held.into_iter().filter(|finalizer| !goes_along || *finalizer != FINALIZER_SNAPSHOT_BOUND).collect();
    if free.is_empty() { Step::Nothing } else { Step::Release(free) }
}

/// Whether the claim has the finalizer for snapshots and none of `all`, its snapshots, is in progress.
pub fn is_claim_free(claim: &PersistentVolumeClaim, all: &[Arc<VolumeSnapshot>]) -> bool {
    has_finalizer(claim, FINALIZER_SNAPSHOT_CLAIM) && all.iter().all(|snapshot| is_ready(snapshot))
}

#[cfg(test)]
mod tests;
