//! Follows VolumeAttachments with a watch: which volume is attached to which node, and when each event arrived.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::endpoint::Endpoint;
use crate::error::BenchError;

/// The path of the VolumeAttachment collection.
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// The attachments observed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachmentCounts {
    /// Every existing attachment, with the time at which the watch first reported it as attached.
    pub(crate) now: HashMap<(String, String), Option<Instant>>,
    /// The number of attachments that are attached now.
    pub(crate) attached: usize,
    /// When the last event arrived.
    pub(crate) last: Option<Instant>,
}

/// A watch that runs in a separate task.
pub(crate) struct Attached {
    seen: watch::Receiver<AttachmentCounts>,
    _task: JoinSet<Result<(), BenchError>>,
}

impl Attached {
    /// Starts the watch at `revision`.
    pub(crate) fn start(endpoint: &Arc<Endpoint>, revision: u64) -> Self {
        let (tell, seen) = watch::channel(AttachmentCounts::default());
        let mut task = JoinSet::new();
        task.spawn(follow(endpoint.clone(), revision, tell));
        Attached { seen, _task: task }
    }

    /// Waits until the attachments satisfy a condition.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&AttachmentCounts) -> bool,
    ) -> Result<AttachmentCounts, BenchError> {
        let reached = tokio::time::timeout(patience, self.seen.wait_for(|seen| holds(seen))).await;
        if let Ok(Ok(seen)) = reached {
            return Ok(seen.clone());
        }
        drop(reached);
        let seen = self.seen.borrow();
        let (exist, attached) = (seen.now.len(), seen.attached);
        let what = format!("expected: {what}; {exist} attachments exist, {attached} are attached");
        Err(BenchError::Late { what, seconds: patience.as_secs() })
    }
}

async fn follow(
    endpoint: Arc<Endpoint>,
    mut revision: u64,
    tell: watch::Sender<AttachmentCounts>,
) -> Result<(), BenchError> {
    loop {
        let connection = Connection::new(endpoint.clone());
        let path = format!("{ATTACHMENTS}?watch=1&resourceVersion={revision}");
        let mut watch = connection.watch(&path).await?;
        while watch.more(|event| tell.send_modify(|seen| take(seen, &mut revision, event))).await? {}
    }
}

/// Applies one event.
fn take(seen: &mut AttachmentCounts, revision: &mut u64, event: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Value>(event) else { return };
    let object = &event["object"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Ok(version) = text(&object["metadata"]["resourceVersion"]).parse() else { return };
    *revision = version;
    let spec = &object["spec"];
    let key = (text(&spec["source"]["persistentVolumeName"]), text(&spec["nodeName"]));
    let at = Instant::now();
    seen.last = Some(at);
    if event["type"] == "DELETED" {
        seen.attached -= usize::from(seen.now.remove(&key).flatten().is_some());
        return;
    }
    let entry = seen.now.entry(key).or_default();
    if object["status"]["attached"] == true && entry.is_none() {
        *entry = Some(at);
        seen.attached += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_are_counted() {
        let event = |kind: &str, version: u32, attached: bool| {
            format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"name":"csi-1","resourceVersion":"{version}"}},"spec":{{"nodeName":"n","source":{{"persistentVolumeName":"v"}}}},"status":{{"attached":{attached}}}}}}}"#
            )
        };
        let (mut seen, mut revision) = (AttachmentCounts::default(), 1);
        for (text, exist, attached) in [
            (event("ADDED", 5, false), 1, 0),
            (event("MODIFIED", 6, true), 1, 1),
            (event("DELETED", 7, true), 0, 0),
            ("nonsense".to_owned(), 0, 0),
        ] {
            take(&mut seen, &mut revision, text.as_bytes());
            assert_eq!((seen.now.len(), seen.attached), (exist, attached), "{text}");
        }
        assert_eq!(revision, 7);
    }
}
