//! CSI ephemeral inline volumes: created when they are published, deleted with their pod. The node marks them in
//! the volume context. They are directories and are never staged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use orlop_csi::v1::NodePublishVolumeRequest;
use tonic::Status;

use crate::controller::failed;
use crate::records::{Form, RecordState, Volume};
use crate::{Driver, content, mounts};

/// The volume context key that marks an ephemeral volume.
const KEY: &str = "csi.storage.k8s.io/ephemeral";

/// Returns whether a request is for an ephemeral volume.
pub(crate) fn is_asked_for(request: &NodePublishVolumeRequest) -> bool {
    request.volume_context.get(KEY).is_some_and(|value| value == "true")
}

impl Driver {
    /// Creates an ephemeral volume, or finds the existing one, and publishes it at its target.
    pub(crate) fn publish_ephemeral(
        &self,
        state: &mut RecordState,
        request: &NodePublishVolumeRequest,
        target: &Path,
        block: bool,
    ) -> Result<(), Status> {
        let id = &request.volume_id;
        // The id comes from the node and becomes a directory name.
        if block || id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Status::invalid_argument(
                "an ephemeral volume is a directory with an id of letters and digits",
            ));
        }
        let mut volume = match state.volumes.get(id) {
            Some(known) if known.ephemeral => known.clone(),
            Some(_) => return Err(Status::already_exists(format!("volume {id} is not an ephemeral one"))),
            None => {
                content::make(&self.records.volume_dir(id), Form::Directory, 0)
                    .map_err(failed("the volume could not be created"))?;
                Volume {
                    id: id.clone(),
                    name: id.clone(),
                    bytes: 0,
                    form: Form::Directory,
                    node: self.options.topology.then(|| self.options.node_id.clone()),
                    context: BTreeMap::new(),
                    mutable: BTreeMap::new(),
                    source: None,
                    published: BTreeMap::new(),
                    staged: BTreeSet::new(),
                    targets: BTreeMap::new(),
                    ephemeral: true,
                }
            }
        };
        if volume.targets.get(target).is_some_and(|readonly| *readonly != request.readonly) {
            return Err(Status::already_exists("it is published there with another readonly"));
        }
        // Recorded before the mount, so that unpublishing finds it.
        volume.targets.insert(target.to_owned(), request.readonly);
        self.records.put_volume(state, volume)?;
        if mounts::is_mounted(target).map_err(failed("the volume could not be mounted"))? {
            return Ok(());
        }
        let content = content::path(&self.records.volume_dir(id), Form::Directory);
        mounts::bind(&content, target, request.readonly).map_err(failed("the volume could not be mounted"))
    }

    /// Removes a target of an ephemeral volume and, after the last target, the volume with its content.
    pub(crate) fn forget_ephemeral(
        &self,
        state: &mut RecordState,
        mut volume: Volume,
        target: &Path,
    ) -> Result<(), Status> {
        volume.targets.remove(target);
        if volume.targets.is_empty() {
            self.records.drop_volume(state, &volume.id)?;
        } else {
            self.records.put_volume(state, volume)?;
        }
        Ok(())
    }
}
