//! Compares the driver's own list with the attachments (upstream: external-attacher's reconcile-sync). Drivers do not report
//! a lost attachment, so this runs periodically; a slow list lengthens the period.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::storage::v1::VolumeAttachment;
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::Driver;
use orlop_csi::v1::list_volumes_response::Entry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attachments::Attacher;
use super::decide::{is_attached, is_ours, place};
use orlop_client::meta::is_terminating;
use orlop_client::queue::WorkQueue;

/// Lists use at most this fraction of the time: one tenth.
const SHARE: u32 = 10;

/// The nodes of every volume, as listed by the driver.
struct Published(HashMap<String, HashSet<String>>);

impl Published {
    fn of(entries: Vec<Entry>) -> Self {
        let mut nodes: HashMap<String, HashSet<String>> = HashMap::new();
        for entry in entries {
            let Some(volume) = entry.volume else { continue };
            let published = entry.status.map(|status| status.published_node_ids).unwrap_or_default();
            nodes.entry(volume.volume_id).or_default().extend(published);
        }
        Published(nodes)
    }

    /// How the list contradicts an attachment whose status is `attached`, as a message.
    fn against(&self, attached: bool, driver: &str, handle: &str, node: &str) -> Option<String> {
        let nodes = self.0.get(handle);
        if nodes.is_some_and(|nodes| nodes.contains(node)) == attached {
            return None;
        }
        let mut elsewhere: Vec<&str> = nodes.into_iter().flatten().map(String::as_str).collect();
        elsewhere.sort_unstable();
        let found = match (nodes, elsewhere.as_slice()) {
            (None, _) => "has no such volume".to_owned(),
            (Some(_), []) => "has it on no node".to_owned(),
            (Some(_), nodes) => format!("has it on {}", nodes.join(", ")),
        };
        let but = if attached { "" } else { "not " };
        Some(format!(
            "volume {handle} should {but}be on node {node}, but the list of driver {driver} {found}"
        ))
    }
}

/// Compares periodically until `shutdown`.
pub(super) async fn follow(
    attacher: &Attacher,
    name: &str,
    queue: &WorkQueue<String>,
    period: Duration,
    shutdown: &CancellationToken,
) {
    let mut wait = period;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        let began = Instant::now();
        if let Some(driver) = attacher.drivers.get(name).filter(lists) {
            compare(attacher, &driver, queue).await;
        }
        wait = period.max(began.elapsed() * SHARE);
    }
}

fn lists(driver: &Driver) -> bool {
    let needed = [Rpc::PublishUnpublishVolume, Rpc::ListVolumes, Rpc::ListVolumesPublishedNodes];
    needed.iter().all(|rpc| driver.can().can(*rpc))
}

async fn compare(attacher: &Attacher, driver: &Driver, queue: &WorkQueue<String>) {
    let before: Vec<Arc<VolumeAttachment>> = attacher
        .attachments
        .each_by_index(Attacher::BY_DRIVER, driver.name())
        .filter(|attachment| is_at_rest(attachment))
        .collect();
    if before.is_empty() {
        return;
    }
    let published = match driver.all_volumes().await {
        Ok(entries) => Published::of(entries),
        Err(error) => {
            tracing::warn!(driver = driver.name(), %error, "attachments could not be compared with the driver's list");
            return;
        }
    };
    for attachment in before {
        let name = attachment.metadata.name.clone().unwrap_or_default();
        // An attachment that changed during the listing is compared with the next list.
        let now = attacher.latest.get(&attacher.attachments, &name);
        if now.is_none_or(|now| now.metadata.resource_version != attachment.metadata.resource_version) {
            continue;
        }
        let attached = is_attached(&attachment) && !is_terminating(attachment.as_ref());
        let place = attacher.with_view(attachment, driver, place);
        let Some((handle, node)) = place else { continue };
        match published.against(attached, driver.name(), &handle, &node) {
            Some(words) => {
                tracing::warn!(attachment = name, why = words, "attachment: the driver is asked again");
                attacher.doubts.raise(&name, words);
                queue.add(name);
            }
            None if attacher.doubts.settle(&name) => queue.add(name),
            None => {}
        }
    }
}

/// Whether no operation is in progress: it is attached, or it is detached and another finalizer keeps it.
fn is_at_rest(attachment: &VolumeAttachment) -> bool {
    if is_terminating(attachment) { !is_ours(attachment) } else { is_attached(attachment) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_contradicts_wrong_attachment_status() {
        let nodes = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
        let published =
            Published([("a".to_owned(), nodes(&["n1", "n2"])), ("b".to_owned(), nodes(&[]))].into());
        let table = [
            (true, "a", "n1", None),
            (true, "a", "n3", Some("should be on node n3, but the list of driver d has it on n1, n2")),
            (true, "b", "n1", Some("should be on node n1, but the list of driver d has it on no node")),
            (true, "c", "n1", Some("has no such volume")),
            (false, "a", "n1", Some("volume a should not be on node n1")),
            (false, "b", "n1", None),
            (false, "c", "n1", None),
        ];
        for (attached, handle, node, wanted) in table {
            let found = published.against(attached, "d", handle, node);
            match (found, wanted) {
                (None, None) => {}
                (Some(found), Some(wanted)) => assert!(found.contains(wanted), "{found}"),
                (found, wanted) => panic!("{attached} {handle} {node}: got {found:?}, expected {wanted:?}"),
            }
        }
    }
}
