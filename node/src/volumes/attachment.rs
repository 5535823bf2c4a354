//! Watches the VolumeAttachment of a volume that waits for its attachment. Only the Node reports that a volume is
//! attached; the VolumeAttachment provides the error, for events and for pods that can never start on this node.

use std::sync::Arc;

use super::attach_error::{AttachError, AttachmentWatch, name_of, trouble_of};
use super::manager::Manager;
use crate::objects::object_watch::Observed;

impl Manager {
    /// Starts the watch of the VolumeAttachment of a volume, if it has one.
    pub(super) fn watch_attachment(self: &Arc<Self>, unique: &Arc<str>) -> Option<AttachmentWatch> {
        let name = name_of(unique, &self.host.config.name)?;
        let token = self.shutdown.child_token();
        let end = token.clone().drop_guard();
        let (this, unique) = (Arc::clone(self), Arc::clone(unique));
        self.spawn(async move {
            let follow = async {
                let mut following = this.attachments.follow("", &name);
                loop {
                    let trouble = match following.get() {
                        Observed::There(attachment) => trouble_of(&attachment),
                        Observed::Unknown | Observed::Absent => None,
                    };
                    this.attachment_seen(&unique, trouble);
                    if !following.changed().await {
                        return;
                    }
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
