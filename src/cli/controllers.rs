//! Flags of a process with controllers: which API server they work on, and what each of them does.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::values;

/// Which API server the controllers work on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "API server to work on")]
pub(crate) struct RemoteArgs {
    /// URL of the API server, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Upstream's name for --server; wins over the address in the kubeconfig, as --server does
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// Client configuration with address and credentials
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Bearer token; other users of this machine can read a command line, so prefer --token-file
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds a bearer token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Authorities that the server's certificate is checked against (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Trust any certificate of the server; for trials only
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false",
        value_parser = values::boolean,
        action = ArgAction::Set
    )]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Only false is possible: run one controller process
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
}

/// The control loops.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct LoopArgs {
    /// Controllers to run: * is all that run by default, NAME runs one, -NAME leaves one out
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub(crate) controllers: Vec<String>,
    /// How often the volume binder looks at all claims and volumes again, changed or not
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub(crate) pvclaimbinder_sync_period: Duration,
    /// Make volumes for claims whose class names a provisioner
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) enable_dynamic_provisioning: bool,
    /// Make volumes from directories of this machine when no other provisioner does; for tests only
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) enable_hostpath_provisioner: bool,
    /// File with the pod that scrubs NFS volumes
    #[arg(long, value_name = "FILE")]
    pub(crate) pv_recycler_pod_template_filepath_nfs: Option<PathBuf>,
    /// Least time that scrubbing an NFS volume may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) pv_recycler_minimum_timeout_nfs: u32,
    /// Time added for each Gi of an NFS volume, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) pv_recycler_increment_timeout_nfs: u32,
    /// File with the pod that scrubs hostPath volumes; for tests only
    #[arg(long, value_name = "FILE")]
    pub(crate) pv_recycler_pod_template_filepath_hostpath: Option<PathBuf>,
    /// Least time that scrubbing a hostPath volume may take, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) pv_recycler_minimum_timeout_hostpath: u32,
    /// Time added for each Gi of a hostPath volume, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) pv_recycler_timeout_increment_hostpath: u32,
    /// Finished pods that are kept before the oldest are deleted; 0 or less keeps all
    #[arg(long, value_name = "N", default_value_t = 12_500, allow_negative_numbers = true)]
    pub(crate) terminated_pod_gc_threshold: i32,
    /// How long this process may stand still before it counts as one that has heard nothing of any node
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    pub(crate) node_monitor_period: Duration,
    /// Silence after which a node is lost
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = values::duration)]
    pub(crate) node_monitor_grace_period: Duration,
    /// The same for a node that has said nothing yet
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) node_startup_grace_period: Duration,
    /// Nodes that never had a Lease (made by hand) are lost after their time too; false leaves them as they are
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) monitor_nodes_without_lease: bool,
    /// Lost nodes per second and zone from which pods begin to be driven off
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub(crate) node_eviction_rate: f32,
    /// The same in a large zone of which much is lost
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub(crate) secondary_node_eviction_rate: f32,
    /// Zones with more nodes are large
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) large_cluster_size_threshold: usize,
    /// Share of lost nodes from which on pods are driven off slowly (large zones) or not at all (others)
    #[arg(long, value_name = "SHARE", default_value_t = 0.55)]
    pub(crate) unhealthy_zone_threshold: f32,
    /// How long a node that is not ready may keep a volume that no pod wants there, before it is detached by force; annotations
    /// (orlop.dev/force-detach-after) of classes, volumes and nodes win
    #[arg(long, value_name = "DURATION", default_value = "6m0s", value_parser = values::duration)]
    pub(crate) attach_detach_force_detach_after: Duration,
    /// Detach nothing by force but where an annotation or the out-of-service taint asks for it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) disable_force_detach_on_timeout: bool,
    /// Believe for ever that what was attached is attached
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) disable_attach_detach_reconcile_sync: bool,
    /// How often all attached volumes are compared with their VolumeAttachments, changed or not
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) attach_detach_reconcile_sync_period: Duration,
    /// Workers that make claims for ephemeral volumes
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_ephemeralvolume_syncs: usize,
    /// Accepted for upstream's command lines: a namespace is looked at when it changes, not by period
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub(crate) namespace_sync_period: Duration,
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
    pub(crate) enable_garbage_collector: bool,
    /// Certificates (PEM) that every namespace's kube-root-ca.crt shall hold [default: the last one of
    /// --tls-cert-file; for a controller process those that it trusts the server by]
    #[arg(long, value_name = "FILE")]
    pub(crate) root_ca_file: Option<PathBuf>,
    /// How often the usage of every resource quota is counted again, changed or not
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = values::duration)]
    pub(crate) resource_quota_sync_period: Duration,
    /// Workers that count the usage of resource quotas
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_resource_quota_syncs: usize,
    /// Workers that empty namespaces that are being deleted
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) concurrent_namespace_syncs: usize,
    /// Workers that delete objects whose owners are gone
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) concurrent_gc_syncs: usize,
    /// Workers that keep the number of pods of ReplicationControllers
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_rc_syncs: usize,
    /// Workers that keep the number of pods of ReplicaSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_replicaset_syncs: usize,
    /// Workers that roll out Deployments
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_deployment_syncs: usize,
    /// How long a pod that was given a node waits for its claims before another node is looked for
    #[arg(long, value_name = "DURATION", default_value = "10m0s", value_parser = values::duration)]
    pub(crate) scheduler_bind_timeout: Duration,
    /// Workers that keep the pods and claims of StatefulSets
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) concurrent_statefulset_syncs: usize,
    /// CSI driver that is called from here, as NAME=unix:///path; may be given several times
    #[arg(long, value_name = "NAME=ENDPOINT", value_parser = values::csi_endpoint)]
    pub(crate) csi_endpoint: Vec<orlop_controller::csi::drivers::Endpoint>,
    /// Directory in which CSI drivers register, as they do with a kubelet
    #[arg(long, value_name = "DIR")]
    pub(crate) csi_plugin_dir: Option<PathBuf>,
    /// Longest time that a call to a CSI driver may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::duration)]
    pub(crate) csi_timeout: Duration,
    /// Calls of one kind that one CSI driver is asked at the same time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) csi_worker_threads: usize,
    /// How often attachments are compared with the list of their CSI driver, where it gives one
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = values::duration)]
    pub(crate) csi_reconcile_sync: Duration,
    /// Tell CSI drivers the names of claim and volume with every new volume
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_extra_create_metadata: bool,
    /// File system of new CSI volumes whose class names none [default: what the driver chooses]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) csi_default_fstype: String,
    /// Tell CSI drivers only the segment of the node that was chosen for a pod
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_strict_topology: bool,
    /// Tell CSI drivers all segments of the cluster when no node was chosen
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_immediate_topology: bool,
    /// Publish how much room CSI drivers have left (CSIStorageCapacity)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = values::boolean, action = ArgAction::Set)]
    pub(crate) csi_enable_capacity: bool,
}
