//! Components of events.

/// Event component of the PV binder.
pub const COMPONENT_PV: &str = "persistentvolume-controller";
/// Event component of the ephemeral volume controller.
pub const COMPONENT_EPHEMERAL: &str = "ephemeral_volume";
/// Event component of the expand controller.
pub const COMPONENT_EXPAND: &str = "volume_expand";
/// Event component of the garbage collector.
pub const COMPONENT_GC: &str = "garbage-collector-controller";
/// Event component of the controller of ReplicationControllers.
pub const COMPONENT_REPLICATION: &str = "replication-controller";
/// Event component of the controller of ReplicaSets.
pub const COMPONENT_REPLICA_SET: &str = "replicaset-controller";
/// Event component of the controller of Deployments.
pub const COMPONENT_DEPLOYMENT: &str = "deployment-controller";
/// Event component of the controller of StatefulSets.
pub const COMPONENT_STATEFUL_SET: &str = "statefulset-controller";
/// Event component of the controller of Endpoints, and the value of [`LABEL_ENDPOINTS_MANAGED_BY`](super::LABEL_ENDPOINTS_MANAGED_BY) in the Endpoints that it writes.
pub const COMPONENT_ENDPOINTS: &str = "endpoint-controller";
/// Event component of the controller of EndpointSlices.
pub const COMPONENT_ENDPOINT_SLICES: &str = "endpoint-slice-controller";
/// Event component of the controller that mirrors Endpoints to EndpointSlices.
pub const COMPONENT_SLICE_MIRRORING: &str = "endpoint-slice-mirroring-controller";
/// Event component of the controller of DaemonSets.
pub const COMPONENT_DAEMON_SET: &str = "daemonset-controller";
/// Event component of the controller of Jobs.
pub const COMPONENT_JOB: &str = "job-controller";
/// Event component of the controller of CronJobs.
pub const COMPONENT_CRON_JOB: &str = "cronjob-controller";
/// Event component of the disruption controller.
pub const COMPONENT_DISRUPTION: &str = "controllermanager";
/// Event component of the controller of ServiceCIDRs.
pub const COMPONENT_SERVICE_CIDR: &str = "service-cidr-controller";
/// Event component of the controller of ResourceClaims.
pub const COMPONENT_RESOURCE_CLAIM: &str = "resource_claim";
/// Event component of the controller that binds snapshots.
pub const COMPONENT_SNAPSHOT: &str = "snapshot-controller";
/// Event component of the attach/detach controller.
pub const COMPONENT_ATTACH_DETACH: &str = "attachdetach-controller";
/// Event component of the node lifecycle controller.
pub const COMPONENT_NODE: &str = "node-controller";
/// Event component of the scheduler.
pub const COMPONENT_SCHEDULER: &str = "default-scheduler";
