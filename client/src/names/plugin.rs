//! Names of volume plugins.

/// Plugin name of hostPath volumes.
pub const PLUGIN_HOST_PATH: &str = "kubernetes.io/host-path";
/// Plugin name of NFS volumes.
pub const PLUGIN_NFS: &str = "kubernetes.io/nfs";
/// Plugin name of local volumes.
pub const PLUGIN_LOCAL: &str = "kubernetes.io/local-volume";
/// Prefix of every plugin name that belongs to Kubernetes itself.
pub const IN_TREE_PREFIX: &str = "kubernetes.io/";
/// In-tree plugins and the CSI drivers that replace them. All plugins are always migrated.
pub const MIGRATED_PLUGINS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];
/// The CSI driver of a migrated in-tree plugin.
pub fn migrated_driver(plugin: &str) -> Option<&'static str> {
    MIGRATED_PLUGINS.iter().find(|(p, _)| *p == plugin).map(|(_, driver)| *driver)
}
