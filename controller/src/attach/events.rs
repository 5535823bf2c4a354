//! Event texts: upstream's texts letter by letter, followed by information that upstream omits: the pods that use the volume, since
//! when they use it, and when it will be released. Pure except for [`tell`].

use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use super::desired::PodRef;
use orlop_client::recorder::{EventType, Recorder};

/// Records an event about a pod.
pub(super) fn tell(
    recorder: &Recorder,
    pod: &PodRef,
    type_: EventType,
    reason: &str,
    message: impl Into<String>,
) {
    let pod = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.to_string()),
        name: Some(pod.name.to_string()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    };
    recorder.event_for(pod, type_, reason, message);
}

/// The attach was done. The blank at the end is upstream's.
pub(super) fn attached(volume: &str) -> String {
    format!("AttachVolume.Attach succeeded for volume \"{volume}\" ")
}

/// The attach failed.
pub(super) fn attach_failed(volume: &str, error: &str) -> String {
    format!("AttachVolume.Attach failed for volume \"{volume}\" : {error}")
}

/// Upstream's refusal for a pod of `namespace`; `users` are the pods on the nodes that have the volume.
// Tests: AD-043, AD-051, AD-054
pub(super) fn refused(volume: &str, namespace: &str, users: &[Arc<PodRef>]) -> String {
    let (here, elsewhere) = names(namespace, users);
    let mut text = format!("Multi-Attach error for volume \"{volume}\" ");
    // Writing to a text cannot fail.
    let _ = match (here.is_empty(), elsewhere) {
        (true, 0) => {
            write!(
                text,
                "Volume is already exclusively attached to one node and can't be attached to another"
            )
        }
        (true, n) => write!(text, "Volume is already used by {n} pod(s) in different namespaces"),
        (false, 0) => write!(text, "Volume is already used by pod(s) {}", here.join(", ")),
        (false, n) => {
            let here = here.join(", ");
            write!(text, "Volume is already used by pod(s) {here} and {n} pod(s) in different namespaces")
        }
    };
    text
}

/// The names of the pods in the namespace, and the number of pods in other namespaces, whose names must not be disclosed.
fn names<'a>(namespace: &str, users: &'a [Arc<PodRef>]) -> (Vec<&'a str>, usize) {
    let here: Vec<&str> =
        users.iter().filter(|pod| *pod.namespace == *namespace).map(|pod| &*pod.name).collect();
    let elsewhere = users.len() - here.len();
    (here, elsewhere)
}

/// A node with a volume that another node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurrentUser {
    pub(super) node: Arc<str>,
    /// Pods there that need it.
    pub(super) pods: Vec<Arc<PodRef>>,
    /// Its VolumeAttachment, and the creation time.
    pub(super) attachment: Option<(String, Option<String>)>,
    pub(super) ends: Ends,
}

/// When it will be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// When the pods on the node have ended.
    WithPods,
    /// When the node no longer reports it in use.
    Unmounted,
    /// The same, or by force at this time.
    Forced(String),
    /// The node is unhealthy, and forced detach is off.
    NeverForced,
    /// When its VolumeAttachment is deleted.
    Detached,
}

/// The current users of the volume.
// Tests: NEW-AD-HELD
pub(super) fn held(volume: &str, namespace: &str, holders: &[CurrentUser]) -> String {
    let users: Vec<String> = holders.iter().map(|held| one_held(namespace, held)).collect();
    format!("Multi-Attach error for volume \"{volume}\": {}", users.join("; "))
}

fn one_held(namespace: &str, held: &CurrentUser) -> String {
    let (here, elsewhere) = names(namespace, &held.pods);
    let mut users: Vec<String> = here.iter().map(|name| format!("pod {namespace}/{name}")).collect();
    if elsewhere > 0 {
        users.push(format!("{elsewhere} pod(s) in different namespaces"));
    }
    let users = if users.is_empty() { "no pod any more".to_owned() } else { users.join(", ") };
    let node = &held.node;
    let mut text = format!("used by {users} on node {node}");
    // Writing to a text cannot fail.
    if let Some((name, since)) = &held.attachment {
        let _ = write!(text, " through attachment {name}");
        if let Some(since) = since {
            let _ = write!(text, ", since {since}");
        }
    }
    let _ = match &held.ends {
        Ends::WithPods => write!(text, "; will be released when these pods have ended"),
        Ends::Unmounted => write!(text, "; will be released when node {node} reports it as not in use"),
        Ends::Forced(at) => write!(
            text,
            "; will be released when node {node} reports it as not in use, at the latest by force at {at}"
        ),
        Ends::NeverForced => write!(
            text,
            "; node {node} is not ready, and forced detach is off: bring the node back, or taint it as out of service"
        ),
        Ends::Detached => write!(text, "; will be released when its attacher has detached it"),
    };
    text
}

/// A countdown begins.
pub(super) fn waiting(volume: &str, node: &str, at: &str) -> String {
    format!(
        "no pod on node {node} uses volume \"{volume}\" any more, but the node is not ready and has not reported the volume as \
         unmounted; it will be force-detached at {at}"
    )
}

/// The volume was detached by force. `why` is the reason in the annotation of the VolumeAttachment.
pub(super) fn forced(volume: &str, node: &str, why: &str) -> String {
    format!("volume \"{volume}\" is detached from node {node} by force: {why}")
}
