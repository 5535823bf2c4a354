//! Scrubbing a released volume with policy Recycle: a pod mounts it and deletes everything in it; then the volume is
//! untied from its claim and offered again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Container, Event, PersistentVolume, Pod, PodSpec, Volume, VolumeMount};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::mpsc;

use super::controller::Binder;
use super::error::{SyncError, chain};
use super::object::{self, claim_ref, reference_key, reference_uid};
use super::pods::users;
use crate::client::{is_already_exists, is_not_found, message_of};
use crate::informer::Informer;
use crate::names::reason;
use crate::options::RecyclerOptions;
use crate::recorder::{EventType, Recorder};

/// Where recycler pods live.
const NAMESPACE: &str = "default";
/// Names of recycler pods begin with it; the volume's name follows.
pub const NAME_PREFIX: &str = "recycler-for-";
/// Upstream's image: any shell with coreutils and findutils will do.
const IMAGE: &str = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6";
/// Fails unless the volume is mounted, everything in it could be deleted, and nothing is left.
const SCRIPT: &str =
    "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";
/// How often the server is asked whether the pod is still there, in case its end was not seen.
const CHECK: Duration = Duration::from_secs(30);
/// How long a pod has to end whose volume was taken from it, seconds.
const SHORT_GRACE: u32 = 1;
/// Bytes in a GiB.
const GIB: i64 = 1 << 30;

// === the operation ===

impl Binder {
    /// The operation behind policy Recycle. Failures are told on the volume and never slow the next attempt down: it comes
    /// with the next resync.
    pub(super) async fn recycle_operation(&self, volume: Arc<PersistentVolume>) -> Result<(), SyncError> {
        if let Err(error) = self.recycle(&volume).await {
            tracing::debug!(volume = object::name(&volume.metadata), error = %chain(&error), "recycling stopped");
        }
        Ok(())
    }

    async fn recycle(&self, volume: &PersistentVolume) -> Result<(), SyncError> {
        let Some(volume) = self.still_released(volume).await? else { return Ok(()) };
        let Some(reference) = claim_ref(&volume) else { return Ok(()) };
        let key = reference_key(reference);
        // A claim of that name in the store is a new one, and the pods are its own.
        // Tests: PV-6-9
        if self.stored_claim(&key).is_none() {
            // The cache first; where that knows of nobody, the server: a pod that was just made must not lose its data.
            let mut in_use_by = users(&self.pods_of_claim(&key));
            if in_use_by.is_empty() {
                in_use_by = users(&self.read_pods_of_claim(&key).await?);
            }
            if !in_use_by.is_empty() {
                let message = format!("Volume is used by pods: {}", in_use_by.join(","));
                self.volume_event(&volume, EventType::Normal, reason::VOLUME_FAILED_RECYCLE, &message);
                return Ok(());
            }
        }
        let Ok(plugin) = self.plugins.recyclable(&volume) else {
            let message = "No recycler plugin found for the volume!";
            self.fail_volume(&volume, reason::VOLUME_FAILED_RECYCLE, message).await?;
            return Ok(());
        };
        let Some(recycler) = plugin.recycler() else { return Ok(()) };
        // Tests: PV-6-2, PV-6-5
        if let Err(error) = recycler.recycle(&volume, &self.pod_runner).await {
            let message = format!("Recycle failed: {error}");
            self.fail_volume(&volume, reason::VOLUME_FAILED_RECYCLE, &message).await?;
            return Ok(());
        }
        self.volume_event(&volume, EventType::Normal, reason::VOLUME_RECYCLED, "Volume recycled");
        // Done outside: the data is gone. Not saved: anything. Who finishes: the next sync of the volume, which still finds
        // it released and scrubs it once more; that does no harm.
        self.unbind(&volume).await
    }
}

// === the pod ===

/// How recycler pods of one kind of volume are made.
#[derive(Clone, Debug)]
pub struct PodRecipe {
    template: Pod,
    minimum: Duration,
    per_gib: Duration,
}

/// A pod template that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read the recycler pod template {path}: {message}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
    /// The file is no pod.
    #[error("the recycler pod template {path} is no pod in YAML or JSON: {message}")]
    Parse {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
    /// The pod has nothing to scrub.
    #[error("the recycler pod template {path} has no volume; it needs one, whose source will be replaced")]
    NoVolume {
        /// The file.
        path: String,
    },
}

impl PodRecipe {
    /// The recipe that the options ask for.
    pub fn new(options: &RecyclerOptions) -> Result<Self, RecipeError> {
        let template = match options.pod_template_filepath.as_deref() {
            Some(path) => read_template(path)?,
            None => standard_pod(),
        };
        Ok(Self { template, minimum: options.minimum_timeout, per_gib: options.increment_timeout })
    }

    /// The pod that scrubs `volume`, with the volume's source put into its first volume by `set_source`.
    pub fn pod(&self, volume: &PersistentVolume, set_source: impl FnOnce(&mut Volume)) -> Pod {
        let mut pod = self.template.clone();
        pod.metadata.name = Some(format!("{NAME_PREFIX}{}", object::name(&volume.metadata)));
        pod.metadata.generate_name = None;
        pod.metadata.namespace = Some(pod.metadata.namespace.unwrap_or_else(|| NAMESPACE.to_owned()));
        let spec = pod.spec.get_or_insert_default();
        spec.active_deadline_seconds =
            Some(i64::try_from(self.timeout(volume).as_secs()).unwrap_or(i64::MAX));
        let volumes = spec.volumes.get_or_insert_default();
        if let Some(first) = volumes.first_mut() {
            *first = Volume { name: std::mem::take(&mut first.name), ..Volume::default() };
            set_source(first);
        }
        pod
    }

    /// Time to scrub: grows with the size, never below the minimum.
    fn timeout(&self, volume: &PersistentVolume) -> Duration {
        let bytes = super::fit::capacity(volume).map_or(0, |capacity| capacity.value());
        let gib = u32::try_from(bytes / GIB).unwrap_or(0);
        self.per_gib.saturating_mul(gib).max(self.minimum)
    }
}

fn read_template(path: &Path) -> Result<Pod, RecipeError> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| RecipeError::Read { path: shown(), message: error.to_string() })?;
    let pod: Pod = serde_saphyr::from_str(&text)
        .map_err(|error| RecipeError::Parse { path: shown(), message: error.to_string() })?;
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).map_or(0, Vec::len);
    if volumes == 0 {
        return Err(RecipeError::NoVolume { path: shown() });
    }
    Ok(pod)
}

/// The pod that scrubs where no other template is given; its volume has no source yet.
pub fn standard_pod() -> Pod {
    let container = Container {
        name: "pv-recycler".to_owned(),
        image: Some(IMAGE.to_owned()),
        command: Some(vec!["/bin/sh".to_owned()]),
        args: Some(vec!["-c".to_owned(), SCRIPT.to_owned()]),
        volume_mounts: Some(vec![VolumeMount {
            name: "vol".to_owned(),
            mount_path: "/scrub".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    Pod {
        metadata: kube::core::ObjectMeta { namespace: Some(NAMESPACE.to_owned()), ..Default::default() },
        spec: Some(PodSpec {
            restart_policy: Some("Never".to_owned()),
            containers: vec![container],
            volumes: Some(vec![Volume { name: "vol".to_owned(), ..Volume::default() }]),
            ..PodSpec::default()
        }),
        status: None,
    }
}

// === running it ===

/// Runs recycler pods: creates one, follows it to its end, repeats its events on the volume, and removes it.
#[derive(Clone)]
pub struct PodRunner {
    client: Client,
    pods: Informer<Pod>,
    recorder: Recorder,
}

/// What is seen of a recycler pod.
enum Seen {
    /// It is there, or another one of its name is.
    Pod(Arc<Pod>),
    /// The one with this UID is gone.
    Gone(String),
}

impl PodRunner {
    /// A runner that follows pods through this informer.
    pub fn new(client: Client, pods: Informer<Pod>, recorder: Recorder) -> Self {
        Self { client, pods, recorder }
    }

    /// Runs `pod` for `volume` until it has ended, and removes it. The error is what goes behind `Recycle failed: `.
    pub async fn run(&self, volume: &PersistentVolume, pod: &Pod) -> Result<(), String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
        let name = object::name(&pod.metadata);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // Listening begins before the pod is there, so that nothing of its life is missed.
        let (tell, mut seen) = mpsc::unbounded_channel();
        let key = format!("{namespace}/{name}");
        let registration = self.pods.add_handler(move |change| {
            if *key != **change.key() {
                return;
            }
            let _ = match (&change.new, change.gone_uid()) {
                (Some(pod), _) => tell.send(Seen::Pod(Arc::clone(pod))),
                (None, Some(uid)) => tell.send(Seen::Gone(uid.to_string())),
                (None, None) => Ok(()),
            };
        });
        let created = match api.create(&PostParams::default(), pod).await {
            Ok(created) => created,
            Err(error) if is_already_exists(&error) => {
                // Left by a controller before this one. It may be scrubbing, or its result may be old.
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
        // The volume is clean, but with the pod in the way the next recycling could not start.
        removed.map_err(|error| format!("failed to delete recycler pod: {error}"))
    }

    /// Ends when the volume is not any more what the pod was made for: a person freed it, or said that its data stays. The next claim must not
    /// find a pod at work that began for the last one (I8). Upstream lets that pod go on.
    async fn taken(&self, volume: &PersistentVolume) {
        let name = object::name(&volume.metadata);
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut changes = std::pin::pin!(watcher(api, config));
        let mut is_there = false;
        loop {
            match changes.next().await {
                Some(Ok(watcher::Event::Init)) => is_there = false,
                Some(Ok(watcher::Event::InitApply(live) | watcher::Event::Apply(live))) => {
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
                    if object::name(&gone.metadata) == name {
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

    /// Repeats every event of the pod on the volume. Never ends by itself: losing events stops nothing.
    async fn repeat_events(
        &self,
        volume: &PersistentVolume,
        namespace: &str,
        pod: &str,
        uid: &str,
    ) -> std::convert::Infallible {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let config = watcher::Config::default().fields(&format!("involvedObject.name={pod}"));
        let mut events = std::pin::pin!(watcher(api, config));
        let mut repeated = std::collections::HashSet::new();
        loop {
            match events.next().await {
                Some(Ok(watcher::Event::InitApply(event) | watcher::Event::Apply(event))) => {
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

/// Whether a volume is still as it was when its pod was made, as far as its data goes. Pure.
fn is_to_be_emptied(then: &PersistentVolume, now: &PersistentVolume) -> bool {
    then.metadata.uid == now.metadata.uid
        && claim_ref(then).map(reference_uid) == claim_ref(now).map(reference_uid)
        && object::reclaim_policy(then) == object::reclaim_policy(now)
}

/// Waits for the end of the pod with this UID.
async fn follow(
    api: &Api<Pod>,
    name: &str,
    uid: &str,
    seen: &mut mpsc::UnboundedReceiver<Seen>,
) -> Result<(), String> {
    loop {
        let next = tokio::select! {
            next = seen.recv() => next,
            () = tokio::time::sleep(CHECK) => match api.get_opt(name).await {
                Ok(Some(pod)) => Some(Seen::Pod(Arc::new(pod))),
                Ok(None) => Some(Seen::Gone(uid.to_owned())),
                // The server is away; the informer will tell when it is back.
                Err(_) => continue,
            },
        };
        match next {
            // An older pod of this name: the informer is behind.
            Some(Seen::Pod(pod)) if object::uid(&pod.metadata) != uid => {}
            Some(Seen::Gone(gone)) if gone != uid => {}
            Some(Seen::Pod(pod)) => {
                if let Some(end) = end_of(&pod) {
                    return end;
                }
            }
            Some(Seen::Gone(_)) => return Err("recycler pod was deleted".to_owned()),
            None => return Err("recycler pod watcher failed".to_owned()),
        }
    }
}

/// How the pod ended, if it did.
fn end_of(pod: &Pod) -> Option<Result<(), String>> {
    match crate::pods::phase(pod) {
        "Succeeded" => Some(Ok(())),
        "Failed" => {
            let message = pod.status.as_ref().and_then(|status| status.message.clone());
            let message = message.filter(|message| !message.is_empty());
            Some(Err(message.unwrap_or_else(|| "pod failed, pod.Status.Message unknown".to_owned())))
        }
        _ => None,
    }
}
