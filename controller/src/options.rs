//! The options of the controllers. Names and defaults are those of upstream's kube-controller-manager flags.

use orlop_volume::host_path_roots::HostPathRoots;
use orlop_volume::recycle::RecyclerOptions;
use std::path::PathBuf;
use std::time::Duration;

use crate::account_tokens::signer::TokenSigner;
use crate::certificates::authority::SigningAuthority;
use orlop_client::queue::RateLimit;
use orlop_csi::drivers::Endpoint;

/// The settings of all controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `--controllers`: `*` selects all, `foo` selects one, `-foo` excludes one.
    pub controllers: Vec<String>,
    /// `--pvclaimbinder-sync-period`: how often the binder checks every claim and volume.
    pub pv_claim_binder_sync_period: Duration,
    /// `--terminated-pod-gc-threshold`: the number of terminated pods to retain; 0 or less retains all.
    pub terminated_pod_gc_threshold: i32,
    /// `--enable-dynamic-provisioning`.
    pub enable_dynamic_provisioning: bool,
    /// `--enable-hostpath-provisioner`: for tests on a single machine.
    pub enable_hostpath_provisioner: bool,
    /// `--host-path-roots`: the directories of this machine in which volumes may be erased.
    pub host_path_roots: HostPathRoots,
    /// `--pv-recycler-...-nfs`.
    pub recycler_nfs: RecyclerOptions,
    /// `--pv-recycler-...-hostpath`.
    pub recycler_hostpath: RecyclerOptions,
    /// `--namespace-sync-period`: accepted without effect; namespaces are synced on changes, not periodically.
    pub namespace_sync_period: Duration,
    /// The delay between the deletion of a namespace and the deletion of its content. Upstream waits 5 s, because API
    /// servers with outdated caches still admit new objects. The orlop API server observes the deletion from the next
    /// request on, so the default is 0.
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
    /// `--concurrent-endpoint-syncs`.
    pub concurrent_endpoint_syncs: usize,
    /// `--endpoint-updates-batch-period`: the delay between the change of a pod and the write of Endpoints.
    pub endpoint_updates_batch_period: Duration,
    /// `--concurrent-service-endpoint-syncs`.
    pub concurrent_service_endpoint_syncs: usize,
    /// `--max-endpoints-per-slice`.
    pub max_endpoints_per_slice: usize,
    /// `--endpointslice-updates-batch-period`: the delay between the change of a pod and the write of EndpointSlices.
    pub endpointslice_updates_batch_period: Duration,
    /// `--mirroring-concurrent-service-endpoint-syncs`.
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    /// `--mirroring-max-endpoints-per-subset`.
    pub mirroring_max_endpoints_per_subset: usize,
    /// `--mirroring-endpointslice-updates-batch-period`: the delay between the change of a mirrored EndpointSlice and its repair.
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// `--concurrent-daemonset-syncs`.
    pub concurrent_daemon_set_syncs: usize,
    /// `--concurrent-job-syncs`.
    pub concurrent_job_syncs: usize,
    /// `--concurrent-cron-job-syncs`.
    pub concurrent_cron_job_syncs: usize,
    /// `--concurrent-ttl-after-finished-syncs`.
    pub concurrent_ttl_after_finished_syncs: usize,
    /// `--scheduler-bind-timeout`: how long a pod with an assigned node waits for its claims. Upstream:
    /// bindTimeoutSeconds.
    pub scheduler_bind_timeout: Duration,
    /// `--enable-garbage-collector`: false disables the controller even if `controllers` selects it.
    pub enable_garbage_collector: bool,
    /// `--root-ca-file`: the certificates in PEM that clients use to verify the server; none if no authority is
    /// known.
    pub root_ca: Option<String>,
    /// The authority that signs certificate requests; `None` signs none.
    pub signing_authority: Option<SigningAuthority>,
    /// `--cluster-signing-duration`: the longest lifetime of a signed certificate.
    pub cluster_signing_duration: Duration,
    /// Signs the tokens that are stored in Secrets: with the key of the server in this process, or that of
    /// `--service-account-private-key-file`. `None` signs none.
    pub token_signer: Option<TokenSigner>,
    /// `--legacy-service-account-token-clean-up-period`: how long an auto-generated token can be unused before it is
    /// marked as invalid, and then before it is deleted.
    pub legacy_token_clean_up_period: Duration,
    /// `--resource-quota-sync-period`: how often the usage of all quotas is recalculated.
    pub resource_quota_sync_period: Duration,
    /// `--concurrent-resource-quota-syncs`.
    pub concurrent_resource_quota_syncs: usize,
    /// `--csi-endpoint`: the endpoints of drivers that this process calls.
    pub csi_endpoints: Vec<Endpoint>,
    /// `--csi-plugin-dir`: the directory where drivers register.
    pub csi_plugin_dir: Option<PathBuf>,
    /// `--csi-timeout`: the maximum duration of a call to a driver.
    pub csi_timeout: Duration,
    /// `--attach-detach-force-detach-after`, an orlop flag: how long a volume that no pod on the node needs can
    /// remain attached to an unhealthy node before it is force-detached. Annotations of nodes, volumes and classes
    /// take precedence.
    pub attach_detach_force_detach_after: Duration,
    /// `--disable-force-detach-on-timeout`: force-detach only because of an annotation or the out-of-service taint.
    pub disable_force_detach_on_timeout: bool,
    /// `--disable-attach-detach-reconcile-sync`: ignore VolumeAttachments that report a volume as no longer attached.
    pub disable_attach_detach_reconcile_sync: bool,
    /// `--attach-detach-reconcile-sync-period`: how often all attached volumes are compared with their
    /// VolumeAttachments, in addition to the check of each one that changes. Less than 1 s disables both.
    pub attach_detach_reconcile_sync_period: Duration,
    /// `--csi-worker-threads`: the number of concurrent calls of one kind to one driver.
    pub csi_worker_threads: usize,
    /// `--csi-reconcile-sync`: how often attachments are compared with the volumes that their driver lists. Upstream:
    /// external-attacher's `--reconcile-sync`.
    pub csi_reconcile_sync: Duration,
    /// `--csi-extra-create-metadata`: pass the names of the claim and volume to drivers.
    pub csi_extra_create_metadata: bool,
    /// `--csi-default-fstype`: the file system if the class specifies none; if empty, the driver chooses.
    pub csi_default_fs_type: String,
    /// `--csi-strict-topology`: pass only the segment of the selected node to drivers.
    pub csi_strict_topology: bool,
    /// `--csi-immediate-topology`: pass all segments to drivers when no node is selected.
    pub csi_immediate_topology: bool,
    /// `--csi-enable-capacity`: publish CSIStorageCapacity objects for drivers that report their capacity.
    pub csi_enable_capacity: bool,
    /// `--node-monitor-period`: the interval of the check that detects a pause of this process, in which it received
    /// no heartbeats. The nodes themselves are checked when their grace period ends.
    pub node_monitor_period: Duration,
    /// `--node-monitor-grace-period`: how long a node can be silent before it is lost.
    pub node_monitor_grace_period: Duration,
    /// `--node-startup-grace-period`: the same for a node that has not sent a heartbeat yet.
    pub node_startup_grace_period: Duration,
    /// `--monitor-nodes-without-lease`, an orlop flag: nodes that never had a Lease (created by hand) are also lost
    /// after their grace period, as upstream does.
    pub monitor_nodes_without_lease: bool,
    /// `--node-eviction-rate`: nodes per second and zone on which eviction of pods starts.
    pub node_eviction_rate: f32,
    /// `--secondary-node-eviction-rate`: the same in a large zone that is partially disrupted. In a small one, no
    /// pods are evicted.
    pub secondary_node_eviction_rate: f32,
    /// `--large-cluster-size-threshold`: a zone with more nodes than this is large.
    pub large_cluster_size_threshold: usize,
    /// `--unhealthy-zone-threshold`: the share of lost nodes, 0 to 1, from which a zone is partially disrupted.
    pub unhealthy_zone_threshold: f32,
    /// The rate limit for retries of failing keys.
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
            host_path_roots: HostPathRoots::default(),
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
            concurrent_endpoint_syncs: 5,
            endpoint_updates_batch_period: Duration::ZERO,
            concurrent_service_endpoint_syncs: 5,
            max_endpoints_per_slice: 100,
            endpointslice_updates_batch_period: Duration::ZERO,
            mirroring_concurrent_service_endpoint_syncs: 5,
            mirroring_max_endpoints_per_subset: 1000,
            mirroring_endpointslice_updates_batch_period: Duration::ZERO,
            concurrent_daemon_set_syncs: 2,
            concurrent_job_syncs: 5,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_after_finished_syncs: 5,
            scheduler_bind_timeout: Duration::from_secs(600),
            enable_garbage_collector: true,
            root_ca: None,
            signing_authority: None,
            cluster_signing_duration: Duration::from_secs(8760 * 3600),
            token_signer: None,
            legacy_token_clean_up_period: Duration::from_secs(8760 * 3600),
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
