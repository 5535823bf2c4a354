//! Flags of the controllers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::values;

/// The control loops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub struct LoopArgs {
    /// Controllers to run: * is every controller that is on by default, NAME enables one, -NAME disables one. Run each controller
    /// only once in a cluster: if it has kube-controller-manager, name only the controllers that kube-controller-manager lacks
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Vec<String>,
    /// Run each controller with the credentials of its own service account, which has only the rights that the controller
    /// needs. In `serve`, this flag changes nothing: each controller always has its own user
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub use_service_account_credentials: bool,
    /// Interval at which the volume binder checks all claims and volumes, changed or not
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub pvclaimbinder_sync_period: Duration,
    /// Provision volumes for claims whose class names a provisioner
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub enable_dynamic_provisioning: bool,
    /// Provision volumes from directories of this machine if there is no other provisioner; for tests only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub enable_hostpath_provisioner: bool,
    /// Local directory in which orlop may erase hostPath volumes (reclaim policies Delete and Recycle) and change the group of
    /// local volumes (fsGroup); can be repeated [default: none]
    #[arg(long, value_name = "DIR", value_parser = values::host_path_root)]
    pub host_path_roots: Vec<orlop_volume::host_path_roots::HostPathRoots>,
    /// File with the template of the pod that scrubs NFS volumes
    #[arg(long, value_name = "FILE")]
    pub pv_recycler_pod_template_filepath_nfs: Option<PathBuf>,
    /// Minimum timeout for scrubbing an NFS volume, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub pv_recycler_minimum_timeout_nfs: u32,
    /// Timeout for scrubbing an NFS volume, in seconds for each Gi of its size
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub pv_recycler_increment_timeout_nfs: u32,
    /// File with the template of the pod that scrubs hostPath volumes; for tests only
    #[arg(long, value_name = "FILE")]
    pub pv_recycler_pod_template_filepath_hostpath: Option<PathBuf>,
    /// Minimum timeout for scrubbing a hostPath volume, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub pv_recycler_minimum_timeout_hostpath: u32,
    /// Timeout for scrubbing a hostPath volume, in seconds for each Gi of its size
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub pv_recycler_timeout_increment_hostpath: u32,
    /// Certificate (PEM) of the authority that signs certificate requests [default: the server's own authority, in `serve`]
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    pub cluster_signing_cert_file: Option<PathBuf>,
    /// Private key (PEM) of --cluster-signing-cert-file
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    pub cluster_signing_key_file: Option<PathBuf>,
    /// Maximum lifetime of a signed certificate; a request can set a shorter one
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = values::duration)]
    pub cluster_signing_duration: Duration,
    /// Private key (PEM) that signs tokens in Secrets of the type kubernetes.io/service-account-token; the server must accept it
    /// [default: the server's own key, in `serve`; none, in `controller`]
    #[arg(long, value_name = "FILE")]
    pub service_account_private_key_file: Option<PathBuf>,
    /// Time after which an unused token that Kubernetes created for a service account is marked as invalid, and after which an
    /// invalid one is deleted
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = values::duration)]
    pub legacy_service_account_token_clean_up_period: Duration,
    /// Number of finished pods above which the oldest are deleted; 0 or less deletes none
    #[arg(long, value_name = "N", default_value_t = 12_500, allow_negative_numbers = true)]
    pub terminated_pod_gc_threshold: i32,
    /// Interval at which this process checks whether it was suspended; after a suspension of more than three intervals,
    /// every node gets its full grace period again
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub node_monitor_period: Duration,
    /// Time without a heartbeat after which a node is marked unhealthy
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = values::duration)]
    pub node_monitor_grace_period: Duration,
    /// Time without a heartbeat after which a node that has never reported its status is marked unhealthy
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub node_startup_grace_period: Duration,
    /// Also mark nodes that never had a Lease, such as manually created ones, as unhealthy
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub monitor_nodes_without_lease: bool,
    /// Eviction rate of each zone: number of unhealthy nodes per second from which pods are evicted
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub node_eviction_rate: f32,
    /// Eviction rate, in nodes per second, of a large zone that has reached --unhealthy-zone-threshold
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub secondary_node_eviction_rate: f32,
    /// Number of nodes above which a zone is large
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub large_cluster_size_threshold: usize,
    /// Fraction of unhealthy nodes at which evictions in a zone slow down, if at least three nodes are unhealthy. Pods of
    /// a large zone are then evicted at --secondary-node-eviction-rate, and pods of a small zone are not evicted
    #[arg(long, value_name = "SHARE", default_value_t = 0.55)]
    pub unhealthy_zone_threshold: f32,
    /// Timeout after which a volume is detached by force from an unhealthy node, if no pod uses it there
    ///
    /// The annotation orlop.dev/force-detach-after of a class, volume or node takes precedence.
    #[arg(long, value_name = "DURATION", default_value = "6m0s", value_parser = values::duration)]
    pub attach_detach_force_detach_after: Duration,
    /// Detach by force only where an annotation or the out-of-service taint requests it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub disable_force_detach_on_timeout: bool,
    /// Do not compare attached volumes with their VolumeAttachments
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub disable_attach_detach_reconcile_sync: bool,
    /// Interval at which all attached volumes are compared with their VolumeAttachments, changed or not
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub attach_detach_reconcile_sync_period: Duration,
    /// Number of workers that create claims for ephemeral volumes
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_ephemeralvolume_syncs: usize,
    /// Accepted for compatibility: namespaces are processed when they change, not periodically
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub namespace_sync_period: Duration,
    /// Delete objects whose owners no longer exist
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
    /// Certificates (PEM) for the ConfigMap kube-root-ca.crt of every namespace [default: the last certificate of
    /// --tls-cert-file, or that of the server's own authority; in `controller`, the certificates that verify the server]
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// Interval at which the usage of every resource quota is recalculated, changed or not
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub resource_quota_sync_period: Duration,
    /// Number of workers that calculate the usage of resource quotas
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_resource_quota_syncs: usize,
    /// Number of workers that delete the content of terminating namespaces
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub concurrent_namespace_syncs: usize,
    /// Number of workers that delete objects whose owners no longer exist
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub concurrent_gc_syncs: usize,
    /// Number of workers for ReplicationControllers
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_rc_syncs: usize,
    /// Number of workers for ReplicaSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_replicaset_syncs: usize,
    /// Number of workers for Deployments
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_deployment_syncs: usize,
    /// How long the scheduler waits for the claims of a pod to be bound, after it has selected a node for the pod. After
    /// the timeout, it selects a node again
    #[arg(long, value_name = "DURATION", default_value = "10m0s", value_parser = values::duration)]
    pub scheduler_bind_timeout: Duration,
    /// Number of workers for StatefulSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_statefulset_syncs: usize,
    /// Number of workers for Endpoints
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_endpoint_syncs: usize,
    /// Delay between the change of a pod and the write of Endpoints. A longer delay saves writes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub endpoint_updates_batch_period: Duration,
    /// Number of workers for EndpointSlices
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_service_endpoint_syncs: usize,
    /// Maximum number of endpoints in an EndpointSlice
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_endpoints_per_slice: usize,
    /// Delay between the change of a pod and the write of EndpointSlices. A longer delay saves writes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub endpointslice_updates_batch_period: Duration,
    /// Number of workers that mirror Endpoints to EndpointSlices
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    /// Maximum number of addresses that are mirrored from each subset of Endpoints
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub mirroring_max_endpoints_per_subset: usize,
    /// Delay between the change of a mirrored EndpointSlice and its repair
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// Number of workers for DaemonSets
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub concurrent_daemonset_syncs: usize,
    /// Number of workers for Jobs
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_job_syncs: usize,
    /// Number of workers for CronJobs
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_cron_job_syncs: usize,
    /// Number of workers that delete finished Jobs after their time to live
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_ttl_after_finished_syncs: usize,
    /// CSI driver to call, as NAME=unix:///path; can be repeated
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub csi_endpoint: Vec<orlop_csi::drivers::Endpoint>,
    /// Directory in which CSI drivers register, as with a kubelet
    #[arg(long, value_name = "DIR")]
    pub csi_plugin_dir: Option<PathBuf>,
    /// Timeout of a call to a CSI driver
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub csi_timeout: Duration,
    /// Maximum number of concurrent calls of one kind to a CSI driver
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub csi_worker_threads: usize,
    /// Interval at which attachments are compared with the volumes and nodes that their CSI driver lists (ListVolumes), if the
    /// driver supports this
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub csi_reconcile_sync: Duration,
    /// Pass the names of claim and volume to CSI drivers when a volume is created
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_extra_create_metadata: bool,
    /// File system of new CSI volumes if their class does not set one [default: the driver's choice]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub csi_default_fstype: String,
    /// Pass only the topology of the selected node to CSI drivers
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_strict_topology: bool,
    /// Pass the topology of the whole cluster to CSI drivers if no node is selected
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_immediate_topology: bool,
    /// Publish the free capacity of CSI drivers (CSIStorageCapacity)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub csi_enable_capacity: bool,
}
