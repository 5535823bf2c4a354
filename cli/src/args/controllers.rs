//! Flags of the controllers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::values;

/// The control loops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct LoopArgs {
    /// Controllers to run: * is all that run by default, NAME runs one, -NAME leaves one out
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<String>,
    /// How often the volume binder looks at all claims and volumes again, changed or not
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub pvclaimbinder_sync_period: Duration,
    /// Make volumes for claims whose class names a provisioner
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub enable_dynamic_provisioning: bool,
    /// Make volumes from directories of this machine when no other provisioner does; for tests only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub enable_hostpath_provisioner: bool,
    /// File with the pod that scrubs NFS volumes
    #[arg(long, value_name = "FILE")]
    pub pv_recycler_pod_template_filepath_nfs: Option<PathBuf>,
    /// Least time that scrubbing an NFS volume may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub pv_recycler_minimum_timeout_nfs: u32,
    /// Time added for each Gi of an NFS volume, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub pv_recycler_increment_timeout_nfs: u32,
    /// File with the pod that scrubs hostPath volumes; for tests only
    #[arg(long, value_name = "FILE")]
    pub pv_recycler_pod_template_filepath_hostpath: Option<PathBuf>,
    /// Least time that scrubbing a hostPath volume may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub pv_recycler_minimum_timeout_hostpath: u32,
    /// Time added for each Gi of a hostPath volume, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub pv_recycler_timeout_increment_hostpath: u32,
    /// Finished pods that are kept before the oldest are deleted; 0 or less keeps all
    #[arg(long, value_name = "N", default_value_t = 12_500, allow_negative_numbers = true)]
    pub terminated_pod_gc_threshold: i32,
    /// How long this process may stand still before it counts as one that has heard nothing of any node
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub node_monitor_period: Duration,
    /// Silence after which a node is lost
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = values::duration)]
    pub node_monitor_grace_period: Duration,
    /// The same for a node that has said nothing yet
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub node_startup_grace_period: Duration,
    /// Nodes that never had a Lease (made by hand) are lost after their time too; false leaves them as they are
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub monitor_nodes_without_lease: bool,
    /// Lost nodes per second and zone from which pods begin to be driven off
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub node_eviction_rate: f32,
    /// The same in a large zone of which much is lost
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub secondary_node_eviction_rate: f32,
    /// Zones with more nodes are large
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub large_cluster_size_threshold: usize,
    /// Share of lost nodes from which on pods are driven off slowly (large zones) or not at all (others)
    #[arg(long, value_name = "SHARE", default_value_t = 0.55)]
    pub unhealthy_zone_threshold: f32,
    /// How long a node that is not ready may keep a volume that no pod wants there, before it is detached by force; annotations
    /// (orlop.dev/force-detach-after) of classes, volumes and nodes win
    #[arg(long, value_name = "DURATION", default_value = "6m0s", value_parser = values::duration)]
    pub attach_detach_force_detach_after: Duration,
    /// Detach nothing by force but where an annotation or the out-of-service taint asks for it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub disable_force_detach_on_timeout: bool,
    /// Believe for ever that what was attached is attached
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub disable_attach_detach_reconcile_sync: bool,
    /// How often all attached volumes are compared with their VolumeAttachments, changed or not
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub attach_detach_reconcile_sync_period: Duration,
    /// Workers that make claims for ephemeral volumes
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_ephemeralvolume_syncs: usize,
    /// Accepted for upstream's command lines: a namespace is looked at when it changes, not by period
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub namespace_sync_period: Duration,
    /// Delete objects whose owners are gone
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true",
        value_parser = values::boolean,
        action = ArgAction::Set
    )]
    pub enable_garbage_collector: bool,
    /// Certificates (PEM) that every namespace's kube-root-ca.crt shall hold [default: the last one of
    /// --tls-cert-file; for a controller process those that it trusts the server by]
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// How often the usage of every resource quota is counted again, changed or not
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub resource_quota_sync_period: Duration,
    /// Workers that count the usage of resource quotas
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_resource_quota_syncs: usize,
    /// Workers that empty namespaces that are being deleted
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub concurrent_namespace_syncs: usize,
    /// Workers that delete objects whose owners are gone
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub concurrent_gc_syncs: usize,
    /// Workers that keep the number of pods of ReplicationControllers
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_rc_syncs: usize,
    /// Workers that keep the number of pods of ReplicaSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_replicaset_syncs: usize,
    /// Workers that roll out Deployments
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_deployment_syncs: usize,
    /// How long a pod that was given a node waits for its claims before another node is looked for
    #[arg(long, value_name = "DURATION", default_value = "10m0s", value_parser = values::duration)]
    pub scheduler_bind_timeout: Duration,
    /// Workers that keep the pods and claims of StatefulSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_statefulset_syncs: usize,
    /// CSI driver that is called from here, as NAME=unix:///path; may be given several times
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub csi_endpoint: Vec<orlop_csi::drivers::Endpoint>,
    /// Directory in which CSI drivers register, as they do with a kubelet
    #[arg(long, value_name = "DIR")]
    pub csi_plugin_dir: Option<PathBuf>,
    /// Longest time that a call to a CSI driver may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub csi_timeout: Duration,
    /// Calls of one kind that one CSI driver is asked at the same time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub csi_worker_threads: usize,
    /// How often attachments are compared with the list of their CSI driver, where it gives one
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub csi_reconcile_sync: Duration,
    /// Tell CSI drivers the names of claim and volume with every new volume
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_extra_create_metadata: bool,
    /// File system of new CSI volumes whose class names none [default: what the driver chooses]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub csi_default_fstype: String,
    /// Tell CSI drivers only the segment of the node that was chosen for a pod
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_strict_topology: bool,
    /// Tell CSI drivers all segments of the cluster when no node was chosen
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_immediate_topology: bool,
    /// Publish how much room CSI drivers have left (CSIStorageCapacity)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_enable_capacity: bool,
}
