//! Paths below the agent's directory, in the kubelet's layout, which CSI drivers and administrators expect
//! (upstream: pkg/kubelet/config/defaults.go, pkg/volume/csi).

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The directory of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    root: PathBuf,
}

/// The directory name of a plugin: `kubernetes.io~nfs`.
pub fn escaped(plugin: &str) -> String {
    plugin.replace('/', "~")
}

/// The plugin name of a directory.
pub fn unescaped(dir: &str) -> String {
    dir.replace('~', "/")
}

impl Paths {
    /// The layout below `root`, an absolute path.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of all pods.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The directory of a pod.
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// The volumes of a pod.
    pub fn pod_volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// The directory of one volume of a pod. CSI volumes are mounted at `mount` below it.
    pub fn pod_volume(&self, uid: &str, plugin: &str, dir_name: &str) -> PathBuf {
        self.pod_volumes(uid).join(escaped(plugin)).join(dir_name)
    }

    /// The path of a pod's link to a block device.
    pub fn pod_device(&self, uid: &str, plugin: &str, dir_name: &str) -> PathBuf {
        self.pod(uid).join("volumeDevices").join(escaped(plugin)).join(dir_name)
    }

    /// The files of a plugin for one pod (for example the marker that an emptyDir is set up).
    pub fn pod_plugin(&self, uid: &str, plugin: &str) -> PathBuf {
        self.pod(uid).join("plugins").join(escaped(plugin))
    }

    /// The files of a plugin for the node: global mounts.
    pub fn plugin(&self, plugin: &str) -> PathBuf {
        self.root.join("plugins").join(plugin)
    }

    /// The files of a CSI volume for the whole node: `globalmount` and `vol_data.json`.
    pub fn csi_global(&self, driver: &str, handle: &str) -> PathBuf {
        self.plugin("kubernetes.io/csi").join(driver).join(hex(&Sha256::digest(handle)))
    }

    /// The directory of CSI block volumes, with `staging/<pv>`, `publish/<pv>/<pod>` and `<pv>/dev/<pod>`.
    pub fn csi_devices(&self) -> PathBuf {
        self.plugin("kubernetes.io/csi").join("volumeDevices")
    }

    /// The directory of the sockets with which CSI drivers register.
    pub fn plugin_registry(&self) -> PathBuf {
        self.root.join("plugins_registry")
    }

    /// The directory of stable links: `<namespace>/<pod>/<volume>`.
    pub fn by_name(&self) -> PathBuf {
        self.root.join("by-name")
    }

    /// The quarantine: files that belong to no known pod or volume.
    pub fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// The logs of containers: `<namespace>_<pod>_<uid>/<container>/<restart>.log`.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }
}

/// Formats bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_matches_the_kubelet() {
        let paths = Paths::new("/r");
        for (found, expected) in [
            (paths.pod_volume("u", "kubernetes.io/nfs", "v"), "/r/pods/u/volumes/kubernetes.io~nfs/v"),
            (paths.pod_device("u", "kubernetes.io/csi", "v"), "/r/pods/u/volumeDevices/kubernetes.io~csi/v"),
            (paths.pod_plugin("u", "kubernetes.io/empty-dir"), "/r/pods/u/plugins/kubernetes.io~empty-dir"),
            (
                paths.csi_global("d", "h"),
                "/r/plugins/kubernetes.io/csi/d/aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123",
            ),
        ] {
            assert_eq!(found, Path::new(expected));
        }
        assert_eq!(unescaped(&escaped("kubernetes.io/csi")), "kubernetes.io/csi");
    }
}
