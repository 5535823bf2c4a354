//! `orlop node drain`: evicts the pods of a node and reports progress. It cordons the node, checks that no data
//! is lost (`pods`), evicts each pod (retrying while a disruption budget refuses), and waits until the pods are
//! gone and their volumes are unmounted and detached. `orlop node uncordon` reverts the cordon.

mod pods;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Client;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::client::{ConnectError, Endpoint, is_not_found, message_of, status_of};
use orlop_client::pods::claim_names;
use orlop_controller::attach::unique_name_of;
use serde_json::json;
use tokio::time::Instant;

use self::pods::{Allowed, DrainVerdict, judge};
use crate::args::DrainArgs;
use crate::local_admin;

/// Period of the checks for remaining pods and volumes.
const LOOK: Duration = Duration::from_secs(1);
/// Number of checks after which the progress is printed again.
const SAY_AGAIN: u32 = 30;

/// The node to drain, and its server.
pub(crate) struct Drain {
    pub(crate) args: Box<DrainArgs>,
    pub(crate) server: Endpoint,
}

/// Why a drain failed.
#[derive(Debug, thiserror::Error)]
enum DrainError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot {what}: {}", message_of(cause))]
    Request { what: String, cause: kube::Error },
    #[error("no pod was evicted from node {node}: {}", why.join("; "))]
    Forbidden { node: String, why: Vec<String> },
    #[error("node {node} is not drained after {seconds} s: {left}")]
    Late { node: String, seconds: u64, left: String },
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Drains the node and returns the exit code.
pub(crate) fn run(drain: Drain) -> ExitCode {
    let Drain { args, server } = drain;
    done(server, async |client| empty(&client, &args).await)
}

/// Makes the node schedulable and returns the exit code.
pub(crate) fn uncordon(node: String, server: Endpoint) -> ExitCode {
    done(server, async |client| {
        let is_new = cordon(&client, &node, false, false).await?;
        println!("node {node} is {}", if is_new { "uncordoned" } else { "uncordoned already" });
        Ok(())
    })
}

fn done(server: Endpoint, work: impl AsyncFnOnce(Client) -> Result<(), DrainError>) -> ExitCode {
    let all = || -> Result<(), DrainError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { work(local_admin::connect(server).await?).await })
    };
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

fn failed(what: impl Into<String>) -> impl FnOnce(kube::Error) -> DrainError {
    let what = what.into();
    move |cause| DrainError::Request { what, cause }
}

fn key(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// Cordons or uncordons a node. Returns whether that changed the node.
async fn cordon(client: &Client, name: &str, closed: bool, dry_run: bool) -> Result<bool, DrainError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(name).await.map_err(failed(format!("read node {name}")))?;
    let is_closed = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if is_closed == closed {
        return Ok(false);
    }
    let value = if closed { json!(true) } else { json!(null) };
    let patch = json!({"metadata": {"uid": node.metadata.uid}, "spec": {"unschedulable": value}});
    let parameters = PatchParams { dry_run, ..PatchParams::default() };
    let patched = nodes.patch(name, &parameters, &Patch::Merge(&patch)).await;
    let verb = if closed { "cordon" } else { "uncordon" };
    patched.map_err(failed(format!("{verb} node {name}")))?;
    Ok(true)
}

async fn empty(client: &Client, args: &DrainArgs) -> Result<(), DrainError> {
    let name = args.node.as_str();
    match (cordon(client, name, true, args.dry_run).await?, args.dry_run) {
        (false, _) => println!("node {name} is already cordoned"),
        (true, true) => println!("node {name} would be cordoned"),
        (true, false) => println!("node {name} is cordoned"),
    }
    let mut round = Round { client, args, asked: BTreeSet::new() };
    let pods = round.pods().await?;
    forbid(name, &pods, round.allowed())?;
    if args.dry_run {
        for pod in &pods {
            round.ask_whether(pod).await?;
        }
        println!("nothing was changed");
        return Ok(());
    }
    let until = (!args.timeout.is_zero()).then(|| Instant::now() + args.timeout);
    let mut said = String::new();
    let mut looks = 0_u32;
    loop {
        let left = round.look().await?;
        let Some(left) = left else {
            println!("node {name} is drained: it has no pods to evict and no attached volumes");
            return Ok(());
        };
        if left != said || looks.is_multiple_of(SAY_AGAIN) {
            println!("{left}");
            said.clone_from(&left);
        }
        looks += 1;
        if until.is_some_and(|until| Instant::now() >= until) {
            let seconds = args.timeout.as_secs();
            return Err(DrainError::Late { node: name.to_owned(), seconds, left });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Fails if a pod or its data would be lost. Runs before any eviction.
fn forbid(node: &str, pods: &[Pod], allowed: Allowed) -> Result<(), DrainError> {
    let of = |verdict: DrainVerdict| -> Vec<String> {
        pods.iter().filter(|pod| judge(pod, allowed) == verdict).map(key).collect()
    };
    let mut why = Vec::new();
    for (verdict, text) in [
        (DrainVerdict::Unmanaged, "no controller manages these pods (--force evicts them anyway)"),
        (
            DrainVerdict::LocalData,
            "these pods use emptyDir volumes, whose data would be deleted (--delete-emptydir-data evicts them anyway)",
        ),
    ] {
        let pods = of(verdict);
        if !pods.is_empty() {
            why.push(format!("{text}: {}", pods.join(", ")));
        }
    }
    if why.is_empty() { Ok(()) } else { Err(DrainError::Forbidden { node: node.to_owned(), why }) }
}

/// The state of the eviction loop.
struct Round<'a> {
    client: &'a Client,
    args: &'a DrainArgs,
    /// UIDs of pods whose eviction was accepted.
    asked: BTreeSet<String>,
}

impl Round<'_> {
    fn allowed(&self) -> Allowed {
        Allowed { unmanaged: self.args.force, local_data: self.args.delete_emptydir_data }
    }

    async fn pods(&self) -> Result<Vec<Pod>, DrainError> {
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.args.node));
        let pods = Api::<Pod>::all(self.client.clone()).list(&here).await.map_err(failed("list pods"))?;
        Ok(pods.items)
    }

    /// Evicts a pod. The inner error is the message of a disruption budget that refuses the eviction for now.
    async fn evict(&self, pod: &Pod) -> Result<Result<(), String>, DrainError> {
        let api: Api<Pod> =
            Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        let options = DeleteParams {
            grace_period_seconds: self.args.grace_period,
            preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
            dry_run: self.args.dry_run,
            ..DeleteParams::default()
        };
        let parameters = EvictParams {
            delete_options: Some(options),
            post_options: PostParams { dry_run: self.args.dry_run, ..PostParams::default() },
        };
        match api.evict(pod.metadata.name.as_deref().unwrap_or_default(), &parameters).await {
            Ok(_) => Ok(Ok(())),
            Err(error) if is_not_found(&error) => Ok(Ok(())),
            Err(error) if status_of(&error).is_some_and(|status| status.code == 429) => {
                Ok(Err(message_of(&error)))
            }
            Err(cause) => Err(failed(format!("evict pod {}", key(pod)))(cause)),
        }
    }

    /// Prints the action of a drain for a pod.
    async fn ask_whether(&self, pod: &Pod) -> Result<(), DrainError> {
        let shown = key(pod);
        match judge(pod, self.allowed()) {
            DrainVerdict::Stays => println!("pod {shown} would stay"),
            DrainVerdict::Goes if pod.metadata.deletion_timestamp.is_some() => {
                println!("pod {shown} is terminating")
            }
            DrainVerdict::Goes | DrainVerdict::Unmanaged | DrainVerdict::LocalData => {
                match self.evict(pod).await? {
                    Ok(()) => println!("pod {shown} would be evicted"),
                    Err(why) => println!("pod {shown} could not be evicted yet ({why})"),
                }
            }
        }
        Ok(())
    }

    /// Evicts the remaining pods. Returns the reason to wait; `None` if no pod is left.
    async fn look(&mut self) -> Result<Option<String>, DrainError> {
        let (mut waiting, mut staying, mut forbidden) = (Vec::new(), Vec::new(), Vec::new());
        for pod in self.pods().await? {
            let (shown, uid) = (key(&pod), pod.metadata.uid.clone().unwrap_or_default());
            match judge(&pod, self.allowed()) {
                DrainVerdict::Stays => staying.push(pod),
                DrainVerdict::Goes
                    if pod.metadata.deletion_timestamp.is_some() || self.asked.contains(&uid) =>
                {
                    waiting.push(format!("{shown} is terminating"));
                }
                DrainVerdict::Goes => match self.evict(&pod).await? {
                    Ok(()) => {
                        println!("pod {shown} was evicted");
                        self.asked.insert(uid);
                        waiting.push(format!("{shown} is terminating"));
                    }
                    Err(why) => waiting.push(format!("{shown} cannot be evicted yet ({why})")),
                },
                // The pod was created after the first check.
                DrainVerdict::Unmanaged | DrainVerdict::LocalData => forbidden.push(pod),
            }
        }
        forbid(&self.args.node, &forbidden, self.allowed())?;
        if !waiting.is_empty() {
            return Ok(Some(format!("waiting for pods: {}", waiting.join(", "))));
        }
        self.volumes(&staying).await
    }

    /// Volumes that are still mounted or attached for pods that do not stay.
    async fn volumes(&self, staying: &[Pod]) -> Result<Option<String>, DrainError> {
        let name = self.args.node.as_str();
        let node = Api::<Node>::all(self.client.clone()).get_opt(name).await;
        let node = node.map_err(failed(format!("read node {name}")))?;
        let status = node.and_then(|node| node.status).unwrap_or_default();
        let in_use = status.volumes_in_use.unwrap_or_default();
        let all = Api::<VolumeAttachment>::all(self.client.clone()).list(&ListParams::default()).await;
        let all = all.map_err(failed("list volumeattachments"))?.items;
        let attached: Vec<&VolumeAttachment> = all.iter().filter(|one| one.spec.node_name == name).collect();
        if in_use.is_empty() && attached.is_empty() {
            return Ok(None);
        }
        let kept = self.kept(staying).await?;
        let mounted: Vec<&str> =
            in_use.iter().map(String::as_str).filter(|unique| !kept.unique.contains(*unique)).collect();
        if !mounted.is_empty() {
            return Ok(Some(format!("waiting for volumes to be unmounted: {}", mounted.join(", "))));
        }
        let attached = attached.into_iter().filter_map(|attachment| {
            let volume = attachment.spec.source.persistent_volume_name.as_deref();
            match volume {
                Some(volume) => (!kept.names.contains(volume)).then_some(volume),
                None => attachment.metadata.name.as_deref(),
            }
        });
        let attached: Vec<&str> = attached.collect();
        Ok((!attached.is_empty())
            .then(|| format!("waiting for volumes to be detached: {}", attached.join(", "))))
    }

    /// The volumes of pods that stay.
    async fn kept(&self, staying: &[Pod]) -> Result<StayingVolumes, DrainError> {
        let mut kept = StayingVolumes::default();
        for pod in staying {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            for claim in claim_names(pod) {
                let found = claims.get_opt(&claim).await;
                let found = found.map_err(failed(format!("read the claim {namespace}/{claim}")))?;
                let Some(volume) = found.and_then(|claim| claim.spec?.volume_name) else { continue };
                let found = Api::<PersistentVolume>::all(self.client.clone()).get_opt(&volume).await;
                let found = found.map_err(failed(format!("read the volume {volume}")))?;
                kept.unique.extend(found.as_ref().and_then(unique_name_of));
                kept.names.insert(volume);
            }
        }
        Ok(kept)
    }
}

/// Volumes of pods that stay.
#[derive(Default)]
struct StayingVolumes {
    /// Names of PersistentVolumes.
    names: BTreeSet<String>,
    /// Unique names, as in the status of the node.
    unique: BTreeSet<String>,
}
