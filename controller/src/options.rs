//! What can be chosen about the controllers. Names and defaults are those of upstream's kube-controller-manager flags.

use orlop_volume::recycle::RecyclerOptions;
use std::path::PathBuf;
use std::time::Duration;

use orlop_client::queue::RateLimit;
use orlop_csi::drivers::Endpoint;

/// Settings of all controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `--controllers`: `*` for all, `foo` for one, `-foo` for all but one.
    pub controllers: Vec<String>,
    /// `--pvclaimbinder-sync-period`: how often the binder looks at every claim and volume.
    pub pv_claim_binder_sync_period: Duration,
    /// `--terminated-pod-gc-threshold`: finished pods that may stay; 0 or less keeps all.
    pub terminated_pod_gc_threshold: i32,
    /// `--enable-dynamic-provisioning`.
    pub enable_dynamic_provisioning: bool,
    /// `--enable-hostpath-provisioner`: for trials on one machine.
    pub enable_hostpath_provisioner: bool,
    /// `--pv-recycler-...-nfs`.
    pub recycler_nfs: RecyclerOptions,
    /// `--pv-recycler-...-hostpath`.
    pub recycler_hostpath: RecyclerOptions,
    /// `--namespace-sync-period`: accepted; namespaces are worked on when they change, not by period.
    pub namespace_sync_period: Duration,
    /// Time between the deletion of a namespace and the deletion of its content. Upstream waits 5 s, for API servers
    /// whose caches still admit new objects. Ours sees the deletion with the next request, so the default is 0.
    pub namespace_deletion_delay: Duration,
    /// `--concurrent-namespace-syncs`.
    pub concurrent_namespace_syncs: usize,
    /// `--concurrent-ephemeralvolume-syncs`.
    pub concurrent_ephemeral_syncs: usize,
    /// `--concurrent-gc-syncs`.
    pub concurrent_gc_syncs: usize,
    /// `--concurrent-rc-syncs`.
    pub concurrent_rc_syncs: usize,
    /// `--concurrent-replicaset-syncs`.
    pub concurrent_replica_set_syncs: usize,
    /// `--concurrent-deployment-syncs`.
    pub concurrent_deployment_syncs: usize,
    /// `--concurrent-statefulset-syncs`.
    pub concurrent_stateful_set_syncs: usize,
    /// `--scheduler-bind-timeout`: how long a pod that has been given a node waits for its claims. Upstream:
    /// bindTimeoutSeconds.
    pub scheduler_bind_timeout: Duration,
    /// `--enable-garbage-collector`: false switches the controller off whatever `controllers` says.
    pub enable_garbage_collector: bool,
    /// `--root-ca-file`: certificates in PEM that clients verify the server with; none when no authority is known.
    pub root_ca: Option<String>,
    /// `--resource-quota-sync-period`: how often all quotas are counted again.
    pub resource_quota_sync_period: Duration,
    /// `--concurrent-resource-quota-syncs`.
    pub concurrent_resource_quota_syncs: usize,
    /// `--csi-endpoint`: drivers that are called from here.
    pub csi_endpoints: Vec<Endpoint>,
    /// `--csi-plugin-dir`: where drivers register.
    pub csi_plugin_dir: Option<PathBuf>,
    /// `--csi-timeout`: the longest that a call to a driver may take.
    pub csi_timeout: Duration,
    /// `--attach-detach-force-detach-after`, a flag of our own: how long a node that is not healthy may keep a volume that no
    /// pod wants there, before it is detached by force. Annotations of nodes, volumes and classes win over it.
    pub attach_detach_force_detach_after: Duration,
    /// `--disable-force-detach-on-timeout`: no forced detach but by annotation and by the out-of-service taint.
    pub disable_force_detach_on_timeout: bool,
    /// `--disable-attach-detach-reconcile-sync`: VolumeAttachments that say that their volume is not attached any more are
    /// not looked at.
    pub disable_attach_detach_reconcile_sync: bool,
    /// `--attach-detach-reconcile-sync-period`: how often all attached volumes are compared with their VolumeAttachments,
    /// besides the look at each that changes. Less than a second switches both off.
    pub attach_detach_reconcile_sync_period: Duration,
    /// `--csi-worker-threads`: calls of one kind that one driver is asked at the same time.
    pub csi_worker_threads: usize,
    /// `--csi-reconcile-sync`: how often attachments are compared with the list of their driver. Upstream:
    /// external-attacher's `--reconcile-sync`.
    pub csi_reconcile_sync: Duration,
    /// `--csi-extra-create-metadata`: drivers are told names of claim and volume.
    pub csi_extra_create_metadata: bool,
    /// `--csi-default-fstype`: file system where the class names none; empty for the driver's choice.
    pub csi_default_fs_type: String,
    /// `--csi-strict-topology`: drivers are told the segment of the chosen node alone.
    pub csi_strict_topology: bool,
    /// `--csi-immediate-topology`: drivers are told all segments when no node was chosen.
    pub csi_immediate_topology: bool,
    /// `--csi-enable-capacity`: CSIStorageCapacity objects are published for drivers that know their room.
    pub csi_enable_capacity: bool,
    /// `--node-monitor-period`: how long this process may stand still before it counts as one that has heard nothing; nodes themselves
    /// are looked at when their time is up.
    pub node_monitor_period: Duration,
    /// `--node-monitor-grace-period`: silence after which a node is lost.
    pub node_monitor_grace_period: Duration,
    /// `--node-startup-grace-period`: the same for a node that has said nothing yet.
    pub node_startup_grace_period: Duration,
    /// `--monitor-nodes-without-lease`, a flag of our own: nodes that never had a Lease (made by hand) are lost after their time
    /// too, as upstream has it.
    pub monitor_nodes_without_lease: bool,
    /// `--node-eviction-rate`: nodes per second and zone from which pods begin to be driven off.
    pub node_eviction_rate: f32,
    /// `--secondary-node-eviction-rate`: the same in a large zone of which much is lost; in a small one nobody is driven off then.
    pub secondary_node_eviction_rate: f32,
    /// `--large-cluster-size-threshold`: zones with more nodes are large.
    pub large_cluster_size_threshold: usize,
    /// `--unhealthy-zone-threshold`: share of lost nodes that counts as much, 0 to 1.
    pub unhealthy_zone_threshold: f32,
    /// How failing keys are slowed down.
    pub rate_limit: RateLimit,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: vec!["*".to_owned()],
            pv_claim_binder_sync_period: Duration::from_secs(15),
            terminated_pod_gc_threshold: 12_500,
            enable_dynamic_provisioning: true,
            enable_hostpath_provisioner: false,
            recycler_nfs: RecyclerOptions::nfs(),
            recycler_hostpath: RecyclerOptions::host_path(),
            namespace_sync_period: Duration::from_secs(300),
            namespace_deletion_delay: Duration::ZERO,
            concurrent_namespace_syncs: 10,
            concurrent_ephemeral_syncs: 5,
            concurrent_gc_syncs: 20,
            concurrent_rc_syncs: 5,
            concurrent_replica_set_syncs: 5,
            concurrent_deployment_syncs: 5,
            concurrent_stateful_set_syncs: 5,
            scheduler_bind_timeout: Duration::from_secs(600),
            enable_garbage_collector: true,
            root_ca: None,
            resource_quota_sync_period: Duration::from_secs(300),
            concurrent_resource_quota_syncs: 5,
            csi_endpoints: Vec::new(),
            csi_plugin_dir: None,
            csi_timeout: Duration::from_secs(15),
            attach_detach_force_detach_after: Duration::from_secs(360),
            disable_force_detach_on_timeout: false,
            disable_attach_detach_reconcile_sync: false,
            attach_detach_reconcile_sync_period: Duration::from_secs(60),
            csi_worker_threads: 100,
            csi_reconcile_sync: Duration::from_secs(60),
            csi_extra_create_metadata: false,
            csi_default_fs_type: String::new(),
            csi_strict_topology: false,
            csi_immediate_topology: true,
            csi_enable_capacity: true,
            node_monitor_period: Duration::from_secs(5),
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            monitor_nodes_without_lease: true,
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
            rate_limit: RateLimit::default(),
        }
    }
}
