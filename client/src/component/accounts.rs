//! The service accounts of the components, in `kube-system`.
//!
//! The API server grants each account the ClusterRole of the same name behind `system:controller:` (upstream's
//! controllers) or `orlop:controller:` (the accounts with the prefix `orlop-`, without it).

/// Binds claims, reclaims and recycles volumes.
pub const PV_BINDER: &str = "persistent-volume-binder";
/// Protects volumes.
pub const PV_PROTECTION: &str = "pv-protection-controller";
/// Protects claims.
pub const PVC_PROTECTION: &str = "pvc-protection-controller";
/// Protects VolumeAttributesClasses.
pub const VAC_PROTECTION: &str = "volumeattributesclass-protection-controller";
/// Creates the claims of ephemeral volumes.
pub const EPHEMERAL: &str = "ephemeral-volume-controller";
/// Requests the expansion of volumes.
pub const EXPANDER: &str = "expand-controller";
/// Attaches and detaches volumes.
pub const ATTACH_DETACH: &str = "attachdetach-controller";
/// Deletes pods that have no node or have terminated.
pub const POD_GC: &str = "pod-garbage-collector";
/// Observes nodes, and evicts pods by taints: upstream's two controllers share this account.
pub const NODE: &str = "node-controller";
/// Empties deleted namespaces.
pub const NAMESPACE_CONTROLLER: &str = "namespace-controller";
/// Maintains the pods of ReplicationControllers.
pub const REPLICATION: &str = "replication-controller";
/// Maintains the pods of ReplicaSets.
pub const REPLICA_SET: &str = "replicaset-controller";
/// Rolls Deployments.
pub const DEPLOYMENT: &str = "deployment-controller";
/// Maintains the pods of StatefulSets.
pub const STATEFUL_SET: &str = "statefulset-controller";
/// Writes the Endpoints of Services.
pub const ENDPOINTS: &str = "endpoint-controller";
/// Writes the EndpointSlices of Services.
pub const ENDPOINT_SLICES: &str = "endpointslice-controller";
/// Mirrors Endpoints to EndpointSlices.
pub const SLICE_MIRRORING: &str = "endpointslicemirroring-controller";
/// Maintains the pods of DaemonSets.
pub const DAEMON_SET: &str = "daemon-set-controller";
/// Annotates nodes with the lifetime of cached objects.
pub const TTL: &str = "ttl-controller";
/// Runs the pods of Jobs.
pub const JOB: &str = "job-controller";
/// Creates the Jobs of CronJobs.
pub const CRON_JOB: &str = "cronjob-controller";
/// Deletes finished Jobs.
pub const TTL_AFTER_FINISHED: &str = "ttl-after-finished-controller";
/// Deletes objects without owners.
pub const GARBAGE_COLLECTOR: &str = "generic-garbage-collector";
/// Counts the resources that quotas limit.
pub const RESOURCE_QUOTA: &str = "resourcequota-controller";
/// Creates default service accounts.
pub const SERVICE_ACCOUNT: &str = "service-account-controller";
/// Publishes the CA certificates.
pub const ROOT_CA_PUBLISHER: &str = "root-ca-cert-publisher";
/// Joins the rules of ClusterRoles.
pub const ROLE_AGGREGATION: &str = "clusterrole-aggregation-controller";
/// Approves, signs and deletes certificate requests: upstream's three controllers share this account.
pub const CERTIFICATE: &str = "certificate-controller";
/// Deletes expired bootstrap tokens.
pub const TOKEN_CLEANER: &str = "token-cleaner";
/// Signs the ConfigMap `cluster-info` with bootstrap tokens.
pub const BOOTSTRAP_SIGNER: &str = "bootstrap-signer";
/// Calculates the status of PodDisruptionBudgets.
pub const DISRUPTION: &str = "disruption-controller";
/// Deletes unused tokens of service accounts.
pub const LEGACY_TOKEN_CLEANER: &str = "legacy-service-account-token-cleaner";
/// Protects ServiceCIDRs.
pub const SERVICE_CIDR: &str = "service-cidrs-controller";
/// Creates the ResourceClaims of pods.
pub const RESOURCE_CLAIM: &str = "resource-claim-controller";
/// Checks the types of ValidatingAdmissionPolicies.
pub const POLICY_STATUS: &str = "validatingadmissionpolicy-status-controller";

/// The scheduler, if it has no user of its own: with service account credentials, in a separate process.
pub const ORLOP_SCHEDULER: &str = "orlop-scheduler";
/// Creates and deletes CSI volumes.
pub const ORLOP_CSI_PROVISIONER: &str = "orlop-csi-provisioner";
/// Attaches CSI volumes.
pub const ORLOP_CSI_ATTACHER: &str = "orlop-csi-attacher";
/// Expands CSI volumes.
pub const ORLOP_CSI_RESIZER: &str = "orlop-csi-resizer";
/// Modifies the attributes of CSI volumes.
pub const ORLOP_CSI_MODIFIER: &str = "orlop-csi-modifier";
/// Binds snapshots and their contents.
pub const ORLOP_SNAPSHOT: &str = "orlop-snapshot-controller";
/// Requests snapshots from CSI drivers.
pub const ORLOP_CSI_SNAPSHOTTER: &str = "orlop-csi-snapshotter";
/// Reports objects whose syncs keep failing.
pub const ORLOP_FAILURE_REPORTER: &str = "orlop-failure-reporter";
/// Reads the objects that explanations need (`orlop why`).
pub const ORLOP_EXPLAINER: &str = "orlop-explainer";
