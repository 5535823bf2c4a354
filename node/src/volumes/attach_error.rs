//! The VolumeAttachment of a volume: its name, and the error that it reports. Pure.

use k8s_openapi::api::storage::v1::VolumeAttachment;
use orlop_volume::attachment;
use orlop_volume::csi::handle;
use tokio_util::sync::DropGuard;

/// The gRPC code with which a driver reports that the node is at its volume limit.
const RESOURCE_EXHAUSTED: i32 = 8;

/// Why a volume is not attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttachError {
    /// The message of the driver.
    pub(super) message: String,
    /// The node is at the volume limit of the driver.
    pub(super) exhausted: bool,
}

/// A VolumeAttachment that is read periodically.
pub(super) struct AttachmentWatch {
    pub(super) trouble: Option<AttachError>,
    _end: DropGuard,
}

impl AttachmentWatch {
    /// Starts without an error. Dropping it drops `end`, which stops the reads.
    pub(super) fn new(end: DropGuard) -> Self {
        Self { trouble: None, _end: end }
    }
}

/// The name of the VolumeAttachment of a volume on a node; `None` for a volume without one.
pub(super) fn name_of(unique: &str, node: &str) -> Option<String> {
    let (driver, handle) = handle::of_unique_name(unique)?;
    Some(attachment::name(driver, handle, node))
}

/// The attach error in the status of a VolumeAttachment.
pub(super) fn trouble_of(attachment: &VolumeAttachment) -> Option<AttachError> {
    let error = attachment.status.as_ref()?.attach_error.as_ref()?;
    let exhausted = error.error_code == Some(RESOURCE_EXHAUSTED);
    Some(AttachError { message: error.message.clone().unwrap_or_default(), exhausted })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::paths::hex;

    #[test]
    fn attachment_name_and_error_match_upstream() {
        let name = name_of("kubernetes.io/csi/d^h", "n").unwrap();
        assert_eq!(name, format!("csi-{}", hex(&Sha256::digest("hdn"))));
        assert_eq!(name_of("kubernetes.io/iscsi/1.2.3.4:iqn:0", "n"), None);
        let says = |status| {
            let attachment = json!({"metadata": {"name": "a"}, "status": status,
                "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
            trouble_of(&serde_json::from_value(attachment).unwrap())
        };
        assert_eq!(says(json!({"attached": false})), None);
        let trouble = |exhausted| Some(AttachError { message: "no".to_owned(), exhausted });
        assert_eq!(says(json!({"attached": false, "attachError": {"message": "no"}})), trouble(false));
        assert_eq!(
            says(json!({"attached": false, "attachError": {"message": "no", "errorCode": 8}})),
            trouble(true)
        );
    }
}
