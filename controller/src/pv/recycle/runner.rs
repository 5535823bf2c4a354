//! The recycler pod runner: creates a recycler pod, follows it until it ends, and removes it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, Pod};
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use orlop_client::api::Api;
use orlop_client::watcher::{self, Selection};
use tokio::sync::mpsc;

use orlop_client::client::{is_already_exists, is_not_found, message_of};
use orlop_client::informer::Informer;
use orlop_client::names::reason;
use orlop_client::recorder::{EventType, Recorder};
use orlop_volume::object::{self, claim_ref, reference_uid};
use orlop_volume::recycle::NAMESPACE;

/// The interval for reading the pod from the server, in case the watch missed its end.
const CHECK: Duration = Duration::from_secs(30);
/// Grace period in seconds for a pod whose volume must not be scrubbed any more.
const SHORT_GRACE: u32 = 1;

/// Runs recycler pods: creates one, follows it until it ends, copies its events to the volume, and removes it.
#[derive(Clone)]
pub struct PodRunner {
    client: Client,
    pods: Informer<Pod>,
    recorder: Recorder,
}

/// A change of a recycler pod.
enum PodChange {
    /// The pod exists, or another one of the same name does.
    Pod(Arc<Pod>),
    /// The pod with this UID was deleted.
    Gone(String),
}

impl PodRunner {
    /// A runner that follows pods through this informer.
    pub fn new(client: Client, pods: Informer<Pod>, recorder: Recorder) -> Self {
        Self { client, pods, recorder }
    }

    /// Runs `pod` for `volume` until it has ended, and removes it. The error is the text after `Recycle failed: `.
    pub async fn run(&self, volume: &PersistentVolume, pod: &Pod) -> Result<(), String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
        let name = object::name(&pod.metadata);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // The handler is registered before the pod is created, so that no change is missed.
        let (tell, mut seen) = mpsc::unbounded_channel();
        let key = format!("{namespace}/{name}");
        let registration = self.pods.add_handler(move |change| {
            if *key != **change.key() {
                return;
            }
            let _ = match (&change.new, change.gone_uid()) {
                (Some(pod), _) => tell.send(PodChange::Pod(Arc::clone(pod))),
                (None, Some(uid)) => tell.send(PodChange::Gone(uid.to_string())),
                (None, None) => Ok(()),
            };
        });
        let created = match api.create(&PostParams::default(), pod).await {
            Ok(created) => created,
            Err(error) if is_already_exists(&error) => {
                // Left by an earlier controller process. It may still be scrubbing, or its result may be outdated.
                self.remove(&api, name, None).await.map_err(|error| {
                    format!("failed to delete old recycler pod {namespace}/{name}: {error}")
                })?;
                return Err("old recycler pod found, will retry later".to_owned());
            }
            Err(error) => {
                return Err(format!("unexpected error creating recycler pod:  {}", message_of(&error)));
            }
        };
        let uid = object::uid(&created.metadata);
        let mut grace = None;
        let outcome = tokio::select! {
            outcome = follow(&api, name, uid, &mut seen) => outcome,
            never = self.repeat_events(volume, namespace, name, uid) => match never {},
            () = self.taken(volume) => {
                grace = Some(SHORT_GRACE);
                Err("the volume is not to be emptied any more".to_owned())
            }
        };
        drop(registration);
        let removed = self.remove(&api, name, grace).await;
        outcome.map_err(|error| format!("failed to recycle volume: {error}"))?;
        // The volume is clean, but the remaining pod would block the next recycling.
        removed.map_err(|error| format!("failed to delete recycler pod: {error}"))
    }

    /// Completes when the volume must not be scrubbed any more: it was freed, or its policy was changed to keep the
    /// data. The next claim must not share the volume with a pod that scrubs for the previous one (I8). Upstream does
    /// not stop the pod.
    async fn taken(&self, volume: &PersistentVolume) {
        let name = object::name(&volume.metadata);
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let config = Selection::fields(&format!("metadata.name={name}"));
        let mut changes = watcher::watcher(&api, &config);
        let mut is_there = false;
        loop {
            match changes.next().await {
                Some(Ok(watcher::Event::Init)) => is_there = false,
                // It is unknown whether the volume must still be scrubbed.
                Some(Ok(watcher::Event::InitApply(Err(_)) | watcher::Event::Apply(Err(_)))) => return,
                Some(Ok(watcher::Event::InitApply(Ok(live)) | watcher::Event::Apply(Ok(live)))) => {
                    if object::name(&live.metadata) != name {
                        continue;
                    }
                    is_there = true;
                    if !is_to_be_emptied(volume, &live) {
                        return;
                    }
                }
                Some(Ok(watcher::Event::InitDone)) if is_there => {}
                Some(Ok(watcher::Event::InitDone)) => return,
                Some(Ok(watcher::Event::Delete(gone))) => {
                    if gone.map_or_else(|gone| gone.key == name, |gone| object::name(&gone.metadata) == name)
                    {
                        return;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(volume = name, %error, "cannot watch a volume that is recycled");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn remove(&self, api: &Api<Pod>, name: &str, grace: Option<u32>) -> Result<(), String> {
        let parameters = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        match api.delete(name, &parameters).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(message_of(&error)),
        }
    }

    /// Copies every event of the pod to the volume. Never completes: lost events do not affect the recycling.
    async fn repeat_events(
        &self,
        volume: &PersistentVolume,
        namespace: &str,
        pod: &str,
        uid: &str,
    ) -> std::convert::Infallible {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let config = Selection::fields(&format!("involvedObject.name={pod}"));
        let mut events = watcher::watcher(&api, &config);
        let mut repeated = std::collections::HashSet::new();
        loop {
            match events.next().await {
                Some(Ok(watcher::Event::InitApply(event) | watcher::Event::Apply(event))) => {
                    let Ok(event) = event else { continue };
                    let about = &event.involved_object;
                    let ours = about.name.as_deref() == Some(pod) && about.uid.as_deref() == Some(uid);
                    if ours && repeated.insert(event.metadata.uid.clone()) {
                        let type_ = match event.type_.as_deref() {
                            Some("Warning") => EventType::Warning,
                            Some(_) | None => EventType::Normal,
                        };
                        let text = event.message.as_deref().unwrap_or_default();
                        let message = format!("Recycler pod: {text}");
                        self.recorder.event(volume, type_, reason::RECYCLER_POD, message);
                    }
                }
                Some(Ok(watcher::Event::Init | watcher::Event::InitDone | watcher::Event::Delete(_))) => {}
                Some(Err(error)) => {
                    tracing::debug!(pod, %error, "cannot watch the events of a recycler pod");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                None => std::future::pending().await,
            }
        }
    }
}

/// Whether a volume must still be scrubbed, compared with its state when the pod was created. Pure.
fn is_to_be_emptied(then: &PersistentVolume, now: &PersistentVolume) -> bool {
    then.metadata.uid == now.metadata.uid
        && claim_ref(then).map(reference_uid) == claim_ref(now).map(reference_uid)
        && object::reclaim_policy(then) == object::reclaim_policy(now)
}

/// Waits until the pod with this UID ends.
async fn follow(
    api: &Api<Pod>,
    name: &str,
    uid: &str,
    seen: &mut mpsc::UnboundedReceiver<PodChange>,
) -> Result<(), String> {
    loop {
        let next = tokio::select! {
            next = seen.recv() => next,
            () = tokio::time::sleep(CHECK) => match api.get_opt(name).await {
                Ok(Some(pod)) => Some(PodChange::Pod(Arc::new(pod))),
                Ok(None) => Some(PodChange::Gone(uid.to_owned())),
                // The server is unavailable; the informer reports the pod when the server is back.
                Err(_) => continue,
            },
        };
        match next {
            // An older pod of this name: the informer lags behind.
            Some(PodChange::Pod(pod)) if object::uid(&pod.metadata) != uid => {}
            Some(PodChange::Gone(gone)) if gone != uid => {}
            Some(PodChange::Pod(pod)) => {
                if let Some(end) = end_of(&pod) {
                    return end;
                }
            }
            Some(PodChange::Gone(_)) => return Err("recycler pod was deleted".to_owned()),
            None => return Err("recycler pod watcher failed".to_owned()),
        }
    }
}

/// The result of the pod, if it has ended.
fn end_of(pod: &Pod) -> Option<Result<(), String>> {
    match orlop_client::pods::phase(pod) {
        "Succeeded" => Some(Ok(())),
        "Failed" => {
            let message = pod.status.as_ref().and_then(|status| status.message.clone());
            let message = message.filter(|message| !message.is_empty());
            Some(Err(message.unwrap_or_else(|| "pod failed, pod.Status.Message unknown".to_owned())))
        }
        _ => None,
    }
}
