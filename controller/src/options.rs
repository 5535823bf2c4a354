//! What can be chosen about the controllers. Names and defaults are those of upstream's kube-controller-manager flags.

use std::path::PathBuf;
use std::time::Duration;

use crate::queue::RateLimit;

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
    /// How failing keys are slowed down.
    pub rate_limit: RateLimit,
}

/// Settings of a recycler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecyclerOptions {
    /// `--pv-recycler-pod-template-filepath-nfs`, `-hostpath`: file with a pod to use instead of the built-in one.
    pub pod_template_filepath: Option<PathBuf>,
    /// `--pv-recycler-minimum-timeout-nfs`, `-hostpath`.
    pub minimum_timeout: Duration,
    /// `--pv-recycler-increment-timeout-nfs`, `--pv-recycler-timeout-increment-hostpath`: per GiB of the volume.
    pub increment_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let recycler = |minimum| RecyclerOptions {
            pod_template_filepath: None,
            minimum_timeout: Duration::from_secs(minimum),
            increment_timeout: Duration::from_secs(30),
        };
        Self {
            controllers: vec!["*".to_owned()],
            pv_claim_binder_sync_period: Duration::from_secs(15),
            terminated_pod_gc_threshold: 12_500,
            enable_dynamic_provisioning: true,
            enable_hostpath_provisioner: false,
            recycler_nfs: recycler(300),
            recycler_hostpath: recycler(60),
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
            rate_limit: RateLimit::default(),
        }
    }
}
