//! One sync of a claim: note the request, call the driver, save the volume, remove the note. A comment after every step states
//! what is saved if the next step never happens, and what continues.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams};
use orlop_csi::driver::Driver;
use orlop_csi::error::{CallError, Meaning};
use orlop_csi::v1;
use tokio::time::Instant;

use super::attempts::Fingerprint;
use super::decide::{self, ClaimContext, ClaimSituation, Idle};
use super::intent::{self, Intent};
use super::prepare::Secrets;
use super::save::in_use;
use super::volume::{self, Flaw};
use super::{AGAIN, DriverCall, ProvisionError, Provisioner, carries, class_name, size, version};
use orlop_client::client::{is_conflict, is_not_found, message_of};
use orlop_client::informer::split_key;
use orlop_client::names::{ANN_SELECTED_NODE, reason};
use orlop_client::recorder::EventType;
use orlop_volume::csi::handle;

/// How long the binder has to bind a claim whose volume is saved, and to remove the note with the same write. After that,
/// the provisioner removes it.
const BINDERS_TURN: Duration = Duration::from_secs(2);

/// The outcome of an attempt.
enum Outcome {
    /// The volume is saved.
    Saved,
    /// The driver has no volume and is not creating one.
    Nothing {
        /// The reason.
        why: String,
        /// The same request will fail again.
        infeasible: bool,
        /// Another node may succeed.
        reschedule: bool,
    },
    /// The driver may have a volume, or may be creating it.
    Unknown {
        /// The reason.
        why: String,
    },
}

impl Provisioner {
    pub(super) async fn sync_claim(self: Arc<Self>, key: String) -> Result<(), ProvisionError> {
        let Some(claim) = self.claims.get(&key) else { return Ok(()) };
        // A claim whose driver is not served here takes no permit; work that needs no driver is still done.
        let driver = decide::driver_of(&claim).filter(|driver| self.serves(driver));
        let _turn = match &driver {
            Some(driver) => self.turn(DriverCall::Create, driver).await,
            None => None,
        };
        // The claim may have changed during the wait.
        let Some(claim) = self.claims.get(&key) else { return Ok(()) };
        if self.is_old_news(&key, &claim) {
            return Ok(());
        }
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let volume = self.volumes.get(&intent::volume_name(&claim));
        let class = self.classes.get(class_name(&claim));
        let saved = self.memory().saved.get(uid).copied();
        let around =
            ClaimContext { volume: volume.as_deref(), saved: saved.is_some(), class: class.as_deref() };
        let situation = decide::claim(&claim, &around, |driver| self.serves(driver));
        if situation.asks().is_some_and(|asked| driver.as_deref() != Some(asked)) {
            // The claim now has another driver, and this permit belongs to the old one.
            self.claim_queue.add(key);
            return Ok(());
        }
        match situation {
            ClaimSituation::Nothing(Idle::HasVolume) => {
                if volume.is_some() {
                    self.memory().saved.remove(uid);
                }
                self.attempts.forget(uid);
                Ok(())
            }
            ClaimSituation::Nothing(Idle::NotOurs | Idle::Going | Idle::NoClass | Idle::WaitsForNode) => {
                Ok(())
            }
            ClaimSituation::Unreadable(why) => {
                self.tell_of_note(&claim, &format!("cannot be read: {why}"));
                Ok(())
            }
            ClaimSituation::FinalizerAlone => self.settle(&key, &claim).await,
            ClaimSituation::Saved { at_once } => {
                let since = saved.unwrap_or_else(|| {
                    let now = Instant::now();
                    self.memory().saved.insert(uid.to_owned(), now);
                    now
                });
                let left = BINDERS_TURN.saturating_sub(since.elapsed());
                if !at_once && !left.is_zero() {
                    self.claim_queue.add_after(key, left);
                    return Ok(());
                }
                self.settle(&key, &claim).await
            }
            ClaimSituation::Asked(intent) => {
                let of = Fingerprint::of(&intent.name);
                match self.attempts.wait(uid, of) {
                    Some(left) => self.claim_queue.add_after(key, left),
                    None => self.ask_again(&key, &claim, *intent).await?,
                }
                Ok(())
            }
            ClaimSituation::Wanted { driver, node } => {
                // Looked up first: without a class, the claim requests no volume.
                let (Some(class), Some(driver)) = (class, self.drivers.get(&driver)) else { return Ok(()) };
                let of = fingerprint(&claim, &class);
                match self.attempts.wait(uid, of) {
                    Some(left) => self.claim_queue.add_after(key, left),
                    None => self.ask_first(&key, &claim, &class, &driver, node.as_deref()).await?,
                }
                Ok(())
            }
        }
    }

    /// Whether the cache shows a claim older than our last write. Its next change queues it again.
    fn is_old_news(&self, key: &str, claim: &PersistentVolumeClaim) -> bool {
        let mut memory = self.memory();
        match memory.written.get(key) {
            Some(written) if version(&claim.metadata) < *written => true,
            Some(_) => {
                memory.written.remove(key);
                false
            }
            None => false,
        }
    }

    /// Calls the driver for the volume of a claim for the first time.
    async fn ask_first(
        &self,
        key: &str,
        claim: &Arc<PersistentVolumeClaim>,
        class: &StorageClass,
        driver: &Driver,
        node: Option<&str>,
    ) -> Result<(), ProvisionError> {
        let of = fingerprint(claim, class);
        let text = format!("External provisioner is provisioning volume for claim \"{key}\"");
        self.recorder(driver.name()).event(claim.as_ref(), EventType::Normal, reason::PROVISIONING, text);
        let prepared = match self.prepare(key, claim, class, driver, node).await {
            Ok(Some(prepared)) => prepared,
            // The claim belongs to another provisioner, see `prepare`.
            Ok(None) => return Ok(()),
            Err(refusal) => {
                let reschedule = refusal.may_reschedule();
                let why = refusal.to_string();
                let nothing = Outcome::Nothing { why, infeasible: false, reschedule };
                return self.finish(key, claim, None, driver.name(), of, nothing).await;
            }
        };
        let (intent, secrets) = prepared;
        let intent = self.seals.seal(intent).await?;
        let name = split_key(key).1;
        let change = intent::put(claim, &intent);
        let noted =
            match self.claims_api(key).patch(name, &PatchParams::default(), &Patch::Merge(change)).await {
                Ok(noted) => noted,
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) if is_conflict(&error) => {
                    self.claim_queue.add_after(key.to_owned(), AGAIN);
                    return Ok(());
                }
                Err(cause) => return Err(ProvisionError::Note { claim: key.to_owned(), cause }),
            };
        // Saved: the request to the driver, and the finalizer that keeps the claim until the outcome is known. Continues with:
        // the next sync of the claim, which sends the same request with the same name.
        self.wrote(key, &noted);
        let outcome = self.ask(&noted, &intent, driver, secrets, CallError::meaning).await;
        self.finish(key, &noted, Some(&intent), driver.name(), of, outcome).await
    }

    /// Repeats the noted request. The cache may be stale, so the claim is read from the server first: the note may have been
    /// settled and its volume deleted.
    async fn ask_again(
        &self,
        key: &str,
        cached: &PersistentVolumeClaim,
        intent: Intent,
    ) -> Result<(), ProvisionError> {
        let Some(driver) = self.drivers.get(&intent.driver) else { return Ok(()) };
        // Checked before a secret is read and before the driver is called.
        if !self.seals.is_ours(&intent).await? {
            self.tell_of_note(cached, "was not written by orlop, or was changed since");
            return Ok(());
        }
        let live = self.claims_api(key).get_opt(split_key(key).1).await;
        let live = live.map_err(|cause| ProvisionError::ReadClaim { claim: key.to_owned(), cause })?;
        let Some(claim) = live else { return Ok(()) };
        if claim.metadata.uid != cached.metadata.uid || !carries(&claim, &intent) {
            return Ok(());
        }
        let of = Fingerprint::of(&intent.name);
        let outcome = match self.secrets_of(&intent).await {
            Ok(secrets) => {
                self.ask(&claim, &intent, &driver, secrets, CallError::meaning_of_repetition).await
            }
            Err(error) => Outcome::Unknown { why: error.to_string() },
        };
        self.finish(key, &claim, Some(&intent), driver.name(), of, outcome).await
    }

    /// Calls the driver, and saves its answer.
    async fn ask(
        &self,
        claim: &PersistentVolumeClaim,
        intent: &Intent,
        driver: &Driver,
        secrets: Secrets,
        meaning: fn(&CallError) -> Meaning,
    ) -> Outcome {
        let for_deletion = secrets.clone();
        let answer = match driver.create_volume(intent.request(secrets)).await {
            Ok(answer) => answer,
            Err(error) => return failed(claim, driver, &error, meaning(&error)),
        };
        // Done outside: the driver has a volume of this name. Not saved: its id. Continues with: the next sync of the claim,
        // which requests the same name and receives the same volume.
        let volume = match volume::checked(intent, answer) {
            Ok(volume) => volume,
            Err((flaw @ Flaw::Nothing(_), _)) => return Outcome::Unknown { why: flaw.to_string() },
            Err((flaw @ (Flaw::TooSmall { .. } | Flaw::NoContent | Flaw::NotInTree(_)), id)) => {
                return self.take_back(driver, intent, id, for_deletion, &flaw).await;
            }
        };
        let id = volume.volume_id.clone();
        let object = match volume::object(intent, claim, volume, driver.can().has_topology()) {
            Ok(object) => object,
            Err(flaw) => return self.take_back(driver, intent, id, for_deletion, &flaw).await,
        };
        match self.save(intent, driver, &id, object).await {
            Ok(()) => Outcome::Saved,
            Err(why) => Outcome::Unknown { why },
        }
    }

    /// Deletes a volume that does not match the request.
    async fn take_back(
        &self,
        driver: &Driver,
        intent: &Intent,
        id: String,
        secrets: Secrets,
        flaw: &Flaw,
    ) -> Outcome {
        // The object may be saved although the response was lost, and another claim's may be about to be saved (I8).
        match self.volumes_api().get_opt(&intent.name).await {
            Ok(None) => {}
            Ok(Some(_)) => return Outcome::Unknown { why: in_use(&id, &intent.name) },
            Err(error) => return Outcome::Unknown { why: message_of(&error) },
        }
        if let Err(other) = self.reserve(driver.name(), &id, &intent.name) {
            return Outcome::Unknown { why: in_use(&id, &other) };
        }
        let unique = handle::unique_name(driver.name(), &id);
        match driver.delete_volume(v1::DeleteVolumeRequest { volume_id: id, secrets }).await {
            Ok(_) => {
                self.memory().handles.remove(&unique);
                Outcome::Nothing { why: flaw.to_string(), infeasible: false, reschedule: false }
            }
            Err(error) => {
                let why =
                    format!("{flaw}. Cleanup of volume {} failed, it is tried again: {error}", intent.name);
                Outcome::Unknown { why }
            }
        }
    }

    /// Reports the outcome to users, and decides when to continue.
    async fn finish(
        &self,
        key: &str,
        claim: &PersistentVolumeClaim,
        intent: Option<&Intent>,
        driver: &str,
        of: Fingerprint,
        outcome: Outcome,
    ) -> Result<(), ProvisionError> {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let recorder = self.recorder(driver);
        let warn =
            |text: String| recorder.event(claim, EventType::Warning, reason::PROVISIONING_FAILED, text);
        let class = intent.map_or(class_name(claim), |intent| intent.volume.class.as_str());
        match outcome {
            Outcome::Saved => {
                // Saved: the volume, which refers to the claim. Continues with: the binder, which binds and removes the note in one
                // write; otherwise the next sync of the claim.
                self.memory().saved.insert(uid.to_owned(), Instant::now());
                self.attempts.forget(uid);
                self.capacity_changed.notify_one();
                let text = format!("Successfully provisioned volume {}", intent::volume_name(claim));
                recorder.event(claim, EventType::Normal, reason::PROVISIONING_SUCCEEDED, text);
                if orlop_client::meta::is_terminating(claim) {
                    return self.settle(key, claim).await;
                }
                self.claim_queue.add_after(key.to_owned(), BINDERS_TURN);
                Ok(())
            }
            Outcome::Unknown { why } => {
                warn(format!("failed to provision volume with StorageClass \"{class}\": {why}"));
                let delay = self.attempts.failed(uid, Fingerprint::of(intent::volume_name(claim)), false);
                self.claim_queue.add_after(key.to_owned(), delay);
                Ok(())
            }
            Outcome::Nothing { why, infeasible, reschedule } => {
                warn(match infeasible {
                    true => {
                        format!(
                            "Volume provisioning failed with infeasible error. Retries will be delayed. {why}"
                        )
                    }
                    false => format!("failed to provision volume with StorageClass \"{class}\": {why}"),
                });
                let node = orlop_client::meta::annotation(claim, ANN_SELECTED_NODE).is_some();
                let reschedule = reschedule && node;
                // Counted before the write, because the change event of the write must find the count; and with the fingerprint of the
                // next request.
                let class = self.classes.get(class_name(claim));
                let of = class.map_or(of, |class| fingerprint(claim, &class));
                let delay = self.attempts.failed(uid, of, infeasible);
                if intent.is_some() || reschedule {
                    self.take_note_off(key, claim, intent, reschedule).await?;
                }
                // Saved: that no request is in progress, and that another node has to be chosen. Continues with: the next sync, with
                // the class and the claim of that time.
                self.claim_queue.add_after(key.to_owned(), delay);
                Ok(())
            }
        }
    }
}

/// The meaning of a failed call for the claim.
fn failed(claim: &PersistentVolumeClaim, driver: &Driver, error: &CallError, meaning: Meaning) -> Outcome {
    let why = error.to_string();
    match meaning {
        Meaning::Uncertain => Outcome::Unknown { why },
        Meaning::Infeasible => Outcome::Nothing { why, infeasible: true, reschedule: false },
        Meaning::Final => {
            let node = orlop_client::meta::annotation(claim, ANN_SELECTED_NODE).is_some();
            let reschedule = error.is_exhausted() && driver.can().has_topology() && node;
            Outcome::Nothing { why, infeasible: false, reschedule }
        }
    }
}

/// The fingerprint of a first request.
fn fingerprint(claim: &PersistentVolumeClaim, class: &StorageClass) -> Fingerprint {
    let spec = claim.spec.as_ref();
    Fingerprint::of((
        &class.metadata.uid,
        size::requested(claim),
        orlop_client::meta::annotation(claim, ANN_SELECTED_NODE),
        spec.and_then(|spec| spec.volume_attributes_class_name.as_deref()),
    ))
}
