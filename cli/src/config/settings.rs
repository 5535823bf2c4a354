//! Converts flags to the configurations of the API server and of the controllers.

use std::sync::Arc;
use std::time::Duration;

use orlop_apiserver::Config;
use orlop_apiserver::limits::LimitsConfig;
use orlop_apiserver::services::pool::Ranges;
use orlop_controller::certificates::authority::SigningAuthority;
use orlop_controller::options::Options;
use orlop_store::MemoryBudget;
use orlop_volume::recycle::RecyclerOptions;

use crate::args::{ApiArgs, LoopArgs};

/// The configuration of the API server. With controllers in the same process, clients may select by more fields
/// than upstream allows. A standalone API server behaves as upstream unless a flag changes that.
pub fn apiserver(
    args: &ApiArgs,
    connections: usize,
    memory: Arc<MemoryBudget>,
    with_controllers: bool,
) -> Config {
    Config {
        enabled_admission_plugins: args.enable_admission_plugins.clone(),
        disabled_admission_plugins: args.disable_admission_plugins.clone(),
        event_ttl: args.event_ttl,
        request_timeout: args.request_timeout,
        min_request_timeout: Duration::from_secs(args.min_request_timeout.into()),
        extra_field_selectors: args.extra_field_selectors.unwrap_or(with_controllers),
        lists_own_group: with_controllers,
        tracks_legacy_tokens: true,
        services: Ranges {
            addresses: args.service_cluster_ip_range,
            node_ports: args.service_node_port_range.clone(),
        },
        limits: LimitsConfig {
            requests: args.max_requests_inflight,
            mutating_requests: args.max_mutating_requests_inflight,
            wait: args.max_request_wait,
            priority_and_fairness: args.enable_priority_and_fairness,
            watches: args.max_watches,
            connections,
            memory,
        },
        ..Config::default()
    }
}

/// The authority of the flags; `None` without them.
fn signing_authority(args: &LoopArgs) -> Option<SigningAuthority> {
    let files = args.cluster_signing_cert_file.clone().zip(args.cluster_signing_key_file.clone());
    files.map(|(certificate, key)| SigningAuthority::Files { certificate, key })
}

/// The options of the controllers. `root_ca` is published as `kube-root-ca.crt` in every namespace.
pub fn controllers(args: &LoopArgs, root_ca: Option<String>) -> Options {
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    Options {
        controllers: args.controllers.clone(),
        pv_claim_binder_sync_period: args.pvclaimbinder_sync_period,
        terminated_pod_gc_threshold: args.terminated_pod_gc_threshold,
        node_monitor_period: args.node_monitor_period,
        node_monitor_grace_period: args.node_monitor_grace_period,
        node_startup_grace_period: args.node_startup_grace_period,
        monitor_nodes_without_lease: args.monitor_nodes_without_lease,
        node_eviction_rate: args.node_eviction_rate,
        secondary_node_eviction_rate: args.secondary_node_eviction_rate,
        large_cluster_size_threshold: args.large_cluster_size_threshold,
        unhealthy_zone_threshold: args.unhealthy_zone_threshold,
        enable_dynamic_provisioning: args.enable_dynamic_provisioning,
        attach_detach_force_detach_after: args.attach_detach_force_detach_after,
        disable_force_detach_on_timeout: args.disable_force_detach_on_timeout,
        disable_attach_detach_reconcile_sync: args.disable_attach_detach_reconcile_sync,
        attach_detach_reconcile_sync_period: args.attach_detach_reconcile_sync_period,
        enable_hostpath_provisioner: args.enable_hostpath_provisioner,
        host_path_roots: args.host_path_roots.iter().cloned().collect(),
        recycler_nfs: RecyclerOptions {
            pod_template_filepath: args.pv_recycler_pod_template_filepath_nfs.clone(),
            minimum_timeout: seconds(args.pv_recycler_minimum_timeout_nfs),
            increment_timeout: seconds(args.pv_recycler_increment_timeout_nfs),
        },
        recycler_hostpath: RecyclerOptions {
            pod_template_filepath: args.pv_recycler_pod_template_filepath_hostpath.clone(),
            minimum_timeout: seconds(args.pv_recycler_minimum_timeout_hostpath),
            increment_timeout: seconds(args.pv_recycler_timeout_increment_hostpath),
        },
        namespace_sync_period: args.namespace_sync_period,
        root_ca,
        signing_authority: signing_authority(args),
        cluster_signing_duration: args.cluster_signing_duration,
        legacy_token_clean_up_period: args.legacy_service_account_token_clean_up_period,
        resource_quota_sync_period: args.resource_quota_sync_period,
        concurrent_resource_quota_syncs: args.concurrent_resource_quota_syncs,
        concurrent_namespace_syncs: args.concurrent_namespace_syncs,
        concurrent_ephemeral_syncs: args.concurrent_ephemeralvolume_syncs,
        concurrent_gc_syncs: args.concurrent_gc_syncs,
        concurrent_rc_syncs: args.concurrent_rc_syncs,
        concurrent_replica_set_syncs: args.concurrent_replicaset_syncs,
        concurrent_deployment_syncs: args.concurrent_deployment_syncs,
        scheduler_bind_timeout: args.scheduler_bind_timeout,
        concurrent_stateful_set_syncs: args.concurrent_statefulset_syncs,
        concurrent_endpoint_syncs: args.concurrent_endpoint_syncs,
        endpoint_updates_batch_period: args.endpoint_updates_batch_period,
        concurrent_service_endpoint_syncs: args.concurrent_service_endpoint_syncs,
        max_endpoints_per_slice: args.max_endpoints_per_slice,
        endpointslice_updates_batch_period: args.endpointslice_updates_batch_period,
        mirroring_concurrent_service_endpoint_syncs: args.mirroring_concurrent_service_endpoint_syncs,
        mirroring_max_endpoints_per_subset: args.mirroring_max_endpoints_per_subset,
        mirroring_endpointslice_updates_batch_period: args.mirroring_endpointslice_updates_batch_period,
        concurrent_daemon_set_syncs: args.concurrent_daemonset_syncs,
        concurrent_job_syncs: args.concurrent_job_syncs,
        concurrent_cron_job_syncs: args.concurrent_cron_job_syncs,
        concurrent_ttl_after_finished_syncs: args.concurrent_ttl_after_finished_syncs,
        enable_garbage_collector: args.enable_garbage_collector,
        csi_endpoints: args.csi_endpoint.clone(),
        csi_plugin_dir: args.csi_plugin_dir.clone(),
        csi_timeout: args.csi_timeout,
        csi_worker_threads: args.csi_worker_threads,
        csi_reconcile_sync: args.csi_reconcile_sync,
        csi_extra_create_metadata: args.csi_extra_create_metadata,
        csi_default_fs_type: args.csi_default_fstype.clone(),
        csi_strict_topology: args.csi_strict_topology,
        csi_immediate_topology: args.csi_immediate_topology,
        csi_enable_capacity: args.csi_enable_capacity,
        ..Options::default()
    }
}
