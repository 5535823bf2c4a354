//! Reads the VolumeAttachment of a volume that waits for its attachment, periodically: the Node authorizer permits no
//! watch of it. Only the Node reports that a volume is attached; the VolumeAttachment provides the error, for events and
//! for pods that can never start on this node.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::storage::v1::VolumeAttachment;
use orlop_client::api::Api;

use super::attach_error::{AttachError, AttachmentWatch, name_of, trouble_of};
use super::manager::Manager;

/// The time between two reads.
const PERIOD: Duration = Duration::from_secs(2);

impl Manager {
    /// Starts to read the VolumeAttachment of a volume, if it has one.
    pub(super) fn watch_attachment(self: &Arc<Self>, unique: &Arc<str>) -> Option<AttachmentWatch> {
        let name = name_of(unique, &self.host.config.name)?;
        let token = self.shutdown.child_token();
        let end = token.clone().drop_guard();
        let (this, unique) = (Arc::clone(self), Arc::clone(unique));
        self.spawn(async move {
            let follow = async {
                let api: Api<VolumeAttachment> = Api::all(this.host.client.clone());
                loop {
                    match api.get_opt(&name).await {
                        Ok(found) => this.attachment_seen(&unique, found.as_ref().and_then(trouble_of)),
                        // The node may not read an attachment that does not exist yet.
                        Err(error) => tracing::debug!(attachment = name, %error, "cannot read an attachment"),
                    }
                    tokio::time::sleep(PERIOD).await;
                }
            };
            tokio::select! {
                () = follow => {}
                () = token.cancelled() => {}
            }
        });
        Some(AttachmentWatch::new(end))
    }

    fn attachment_seen(&self, unique: &Arc<str>, trouble: Option<AttachError>) {
        let mut state = self.state();
        let watched = state.actual.get_mut(unique).and_then(|volume| volume.attachment.as_mut());
        let Some(watched) = watched else { return };
        if watched.trouble == trouble {
            return;
        }
        watched.trouble = trouble;
        let waiting: Vec<_> = state.desired.of_volume(unique).map(|(uid, _, _)| uid.clone()).collect();
        waiting.iter().for_each(|uid| self.report(&state, uid));
    }
}
