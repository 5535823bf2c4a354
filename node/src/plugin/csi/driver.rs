//! Looks up the driver of a volume: its registration, its CSIDriver object, the capabilities of its node service,
//! and the outcome of its errors.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use orlop_client::informer::Informer;
use orlop_csi::capabilities::NodeCapabilities;
use orlop_csi::driver::Driver;
use orlop_csi::error::CallError;
use orlop_csi::v1::NodeGetCapabilitiesRequest;
use tokio::sync::watch;

use super::source::VolumeLifecycle;
use crate::host::Host;
use crate::plugin::{Outcome, PluginError};
use orlop_volume::crash_points;

/// The facts known about drivers without calling them. Clones share them.
#[derive(Clone)]
pub struct DriverRegistry {
    objects: Informer<CSIDriver>,
    node: Arc<RwLock<BTreeMap<String, NodeCapabilities>>>,
    /// Counts reasons to query the drivers' node info again.
    doubts: Arc<watch::Sender<u64>>,
}

impl DriverRegistry {
    /// Reads the CSIDriver objects of the cluster from this informer.
    pub fn new(objects: Informer<CSIDriver>) -> Self {
        Self { objects, node: Arc::default(), doubts: Arc::default() }
    }

    /// The informer of the CSIDriver objects.
    pub fn objects(&self) -> &Informer<CSIDriver> {
        &self.objects
    }

    /// The CSIDriver object of a driver, if there is one.
    pub(crate) fn object(&self, driver: &str) -> Option<Arc<CSIDriver>> {
        self.objects.get(driver)
    }

    /// Reports that a driver refused a volume because the node is full: the published volume limit is wrong.
    pub(crate) fn doubt(&self) {
        self.doubts.send_modify(|doubts| *doubts += 1);
    }

    /// Notified of each such report.
    pub(crate) fn doubts(&self) -> watch::Receiver<u64> {
        self.doubts.subscribe()
    }

    /// Whether the CSIDriver objects are complete: an empty informer that has not synced does not mean a cluster
    /// without objects.
    pub(super) fn synced(&self) -> Result<(), PluginError> {
        match self.objects.has_synced() {
            true => Ok(()),
            false => Err(PluginError::plain("kubernetes.io/csi: CSIDrivers has not been synced yet")),
        }
    }

    /// The capabilities of a driver's node service as of the last query.
    pub(crate) fn node(&self, driver: &str) -> Option<NodeCapabilities> {
        self.node.read().get(driver).cloned()
    }

    /// Queries the capabilities of a driver's node service.
    ///
    /// # Errors
    /// The call failed.
    pub(crate) async fn ask(&self, driver: &Driver) -> Result<NodeCapabilities, CallError> {
        let answer = driver.node_get_capabilities(NodeGetCapabilitiesRequest {}).await?;
        let can = NodeCapabilities::new(&answer);
        let mut node = self.node.write();
        node.insert(driver.name().to_owned(), can.clone());
        Ok(can)
    }

    /// The driver and the current capabilities of its node service: they may change when the driver restarts. `whose`
    /// names the volume in an error.
    pub(super) async fn reach(
        &self,
        host: &Host,
        name: &str,
        whose: &str,
    ) -> Result<(Driver, NodeCapabilities), PluginError> {
        let driver = registered(host, name, whose)?;
        // This call changes nothing, whatever its outcome.
        let can = self.ask(&driver).await.map_err(|error| {
            let message =
                format!("kubernetes.io/csi: {whose}: cannot get the capabilities of the driver: {error}");
            PluginError::plain(message).caused(error)
        })?;
        Ok((driver, can))
    }
}

/// A driver that is registered on this node. `whose` names the volume in an error.
pub(super) fn registered(host: &Host, name: &str, whose: &str) -> Result<Driver, PluginError> {
    let missing = "not found in the list of registered CSI drivers";
    let missing = || PluginError::plain(format!("kubernetes.io/csi: {whose}: driver name {name} {missing}"));
    host.drivers.get(name).ok_or_else(missing)
}

/// Calls a driver for a path. The files on disk describe the call from before it until its answer has arrived.
pub(super) async fn asked<T>(what: &str, place: &Path, call: impl Future<Output = T>) -> T {
    crash_points::reached(&format!("before {what}"), place);
    let answer = call.await;
    crash_points::reached(&format!("after {what}"), place);
    answer
}

/// Converts a failed call. `begin` precedes the driver's text.
pub(super) fn failed(begin: &str, error: CallError) -> PluginError {
    let outcome = if error.is_uncertain() { Outcome::Uncertain } else { Outcome::Final };
    PluginError { message: format!("{begin}{error}"), outcome, source: Some(Box::new(error)) }
}

/// Checks that a driver supports a volume lifecycle mode (upstream: supportsVolumeLifecycleMode).
pub(super) fn takes(
    driver: &str,
    object: Option<&CSIDriver>,
    life: VolumeLifecycle,
) -> Result<(), PluginError> {
    let mode = life.as_str();
    let Some(object) = object else {
        return match life {
            VolumeLifecycle::Persistent => Ok(()),
            VolumeLifecycle::Ephemeral => Err(PluginError::plain(format!(
                "volume mode {mode:?} not supported by driver {driver} (no CSIDriver object)"
            ))),
        };
    };
    let modes = lives(&object.spec);
    if modes.iter().any(|given| given == mode) {
        return Ok(());
    }
    let modes: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
    Err(PluginError::plain(format!(
        "volume mode {mode:?} not supported by driver {driver} (only supports [{}])",
        modes.join(" ")
    )))
}

/// The lifecycle modes of a driver. The API server fills in the default; other stores may not.
fn lives(spec: &CSIDriverSpec) -> Vec<String> {
    match spec.volume_lifecycle_modes.as_deref() {
        None | Some([]) => vec![VolumeLifecycle::Persistent.as_str().to_owned()],
        Some(modes) => modes.to_vec(),
    }
}

/// Whether volumes of a driver must be attached (upstream: skipAttach).
pub(super) fn is_attached(object: Option<&CSIDriver>) -> bool {
    object.and_then(|object| object.spec.attach_required).unwrap_or(true)
}

/// Whether volumes of a driver are republished periodically (upstream: RequiresRemount).
pub(super) fn is_refreshed(object: Option<&CSIDriver>) -> bool {
    object.and_then(|object| object.spec.requires_republish).unwrap_or(false)
}

/// Whether the agent applies the pod's fsGroup to a volume (upstream: csiMountMgr.supportsFSGroup). `modes` are
/// those of its PersistentVolume; an inline volume counts as ReadWriteOnce.
pub(super) fn is_owned(
    object: Option<&CSIDriver>,
    read_only: bool,
    fs_type: &str,
    modes: Option<&[String]>,
) -> bool {
    if read_only {
        return false;
    }
    match object.and_then(|object| object.spec.fs_group_policy.as_deref()) {
        Some("None") => false,
        Some("File") => true,
        Some(_) | None => {
            let once = modes.is_none_or(|modes| modes.iter().any(|mode| mode == "ReadWriteOnce"));
            !fs_type.is_empty() && once
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(spec: Value) -> CSIDriver {
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()
    }

    #[test]
    fn lifecycle_modes_of_drivers_are_checked() {
        for (spec, life, expected) in [
            (None, VolumeLifecycle::Persistent, Ok(())),
            (
                None,
                VolumeLifecycle::Ephemeral,
                Err("volume mode \"Ephemeral\" not supported by driver d (no CSIDriver object)"),
            ),
            (Some(json!({})), VolumeLifecycle::Persistent, Ok(())),
            (
                Some(json!({"volumeLifecycleModes": ["Persistent", "Ephemeral"]})),
                VolumeLifecycle::Ephemeral,
                Ok(()),
            ),
            (
                Some(json!({})),
                VolumeLifecycle::Ephemeral,
                Err("volume mode \"Ephemeral\" not supported by driver d (only supports [\"Persistent\"])"),
            ),
            (
                Some(json!({"volumeLifecycleModes": ["Ephemeral"]})),
                VolumeLifecycle::Persistent,
                Err("volume mode \"Persistent\" not supported by driver d (only supports [\"Ephemeral\"])"),
            ),
        ] {
            let object = spec.clone().map(object);
            let found = takes("d", object.as_ref(), life).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{spec:?} {life:?}");
        }
    }

    #[test]
    fn fs_group_is_applied_by_policy_and_access_mode() {
        let (once, many) = (["ReadWriteOnce".to_owned()], ["ReadWriteMany".to_owned()]);
        for (policy, read_only, fs_type, modes, expected) in [
            (None, false, "ext4", Some(&once[..]), true),
            (None, false, "", Some(&once[..]), false),
            (None, false, "ext4", Some(&many[..]), false),
            (None, false, "ext4", Some(&[][..]), false),
            (None, false, "ext4", None, true),
            (None, true, "ext4", Some(&once[..]), false),
            (Some("ReadWriteOnceWithFSType"), false, "ext4", Some(&once[..]), true),
            (Some("None"), false, "ext4", Some(&once[..]), false),
            (Some("File"), false, "", Some(&many[..]), true),
            (Some("File"), true, "", Some(&many[..]), false),
        ] {
            let object = object(json!({"fsGroupPolicy": policy}));
            let found = is_owned(Some(&object), read_only, fs_type, modes);
            assert_eq!(found, expected, "{policy:?} {read_only} {fs_type} {modes:?}");
        }
        assert!(is_owned(None, false, "ext4", Some(&once)));
    }

    #[test]
    fn attach_and_republish_follow_the_csi_driver_object() {
        assert!(is_attached(None) && !is_refreshed(None));
        assert!(is_attached(Some(&object(json!({})))) && !is_refreshed(Some(&object(json!({})))));
        assert!(!is_attached(Some(&object(json!({"attachRequired": false})))));
        assert!(is_refreshed(Some(&object(json!({"requiresRepublish": true})))));
    }
}
