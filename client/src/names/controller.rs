//! Names of controllers as accepted by `--controllers`.

/// Binds claims to volumes, reclaims and provisions volumes.
pub const PV_BINDER: &str = "persistentvolume-binder-controller";
/// Protects bound volumes from deletion.
pub const PV_PROTECTION: &str = "persistentvolume-protection-controller";
/// Protects used claims from deletion.
pub const PVC_PROTECTION: &str = "persistentvolumeclaim-protection-controller";
/// Protects used attributes classes from deletion.
pub const VAC_PROTECTION: &str = "volumeattributesclass-protection-controller";
/// Creates the claims of generic ephemeral volumes.
pub const EPHEMERAL: &str = "ephemeral-volume-controller";
/// Delegates expansion to external resizers.
pub const EXPANDER: &str = "persistentvolume-expander-controller";
/// Attaches volumes to the nodes of their pods, and detaches them.
pub const ATTACH_DETACH: &str = "persistentvolume-attach-detach-controller";
/// Creates volumes for claims through CSI drivers, and deletes them.
pub const CSI_PROVISIONER: &str = "csi-provisioner-controller";
/// Removes pods that are no longer needed.
pub const POD_GC: &str = "pod-garbage-collector-controller";
/// Deletes the content of terminating namespaces, then the namespaces.
pub const NAMESPACE: &str = "namespace-controller";
/// Removes objects whose owners are deleted.
pub const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";
/// Maintains the number of pods of ReplicationControllers.
pub const REPLICATION: &str = "replicationcontroller-controller";
/// Maintains the number of pods of ReplicaSets.
pub const REPLICA_SET: &str = "replicaset-controller";
/// Rolls Deployments from one ReplicaSet to the next.
pub const DEPLOYMENT: &str = "deployment-controller";
/// Maintains the named pods of StatefulSets and their claims.
pub const STATEFUL_SET: &str = "statefulset-controller";
/// Writes the Endpoints of Services.
pub const ENDPOINTS: &str = "endpoints-controller";
/// Writes the EndpointSlices of Services.
pub const ENDPOINT_SLICES: &str = "endpointslice-controller";
/// Mirrors Endpoints of Services without a selector to EndpointSlices.
pub const SLICE_MIRRORING: &str = "endpointslice-mirroring-controller";
/// Maintains one pod of a DaemonSet on each node.
pub const DAEMON_SET: &str = "daemonset-controller";
/// Annotates nodes with the lifetime of cached objects.
pub const TTL: &str = "ttl-controller";
/// Runs pods until enough of them succeed.
pub const JOB: &str = "job-controller";
/// Creates Jobs at the times of CronJobs.
pub const CRON_JOB: &str = "cronjob-controller";
/// Deletes finished Jobs after their time to live.
pub const TTL_AFTER_FINISHED: &str = "ttl-after-finished-controller";
/// Assigns pods to nodes.
pub const SCHEDULER: &str = "scheduler";
/// Detects lost nodes.
pub const NODE_LIFECYCLE: &str = "node-lifecycle-controller";
/// Deletes pods that do not tolerate a taint of their node.
pub const TAINT_EVICTION: &str = "taint-eviction-controller";
/// Counts the resources that quotas limit.
pub const RESOURCE_QUOTA: &str = "resourcequota-controller";
/// Creates the `default` service account in every namespace.
pub const SERVICE_ACCOUNT: &str = "serviceaccount-controller";
/// Attaches volumes of CSI drivers to nodes.
pub const CSI_ATTACHER: &str = "csi-attacher-controller";
/// Joins the rules of ClusterRoles.
pub const ROLE_AGGREGATION: &str = "clusterrole-aggregation-controller";
/// Publishes the CA certificates in every namespace.
pub const ROOT_CA_PUBLISHER: &str = "root-ca-certificate-publisher-controller";
/// Signs certificate requests.
pub const CSR_SIGNING: &str = "certificatesigningrequest-signing-controller";
/// Approves certificate requests of nodes.
pub const CSR_APPROVING: &str = "certificatesigningrequest-approving-controller";
/// Deletes old certificate requests.
pub const CSR_CLEANER: &str = "certificatesigningrequest-cleaner-controller";
/// Deletes expired bootstrap tokens.
pub const TOKEN_CLEANER: &str = "token-cleaner-controller";
/// Signs `cluster-info` with bootstrap tokens.
pub const BOOTSTRAP_SIGNER: &str = "bootstrap-signer-controller";
/// Expands CSI volumes.
pub const CSI_RESIZER: &str = "csi-resizer-controller";
/// Modifies the attributes of CSI volumes.
pub const CSI_MODIFIER: &str = "csi-modifier-controller";
/// Binds snapshots and their contents.
pub const SNAPSHOT: &str = "snapshot-controller";
/// Requests snapshots from drivers.
pub const CSI_SNAPSHOTTER: &str = "csi-snapshotter-controller";
/// Calculates the status of PodDisruptionBudgets.
pub const DISRUPTION: &str = "disruption-controller";
/// Writes the tokens of service accounts into Secrets that request them.
pub const SERVICE_ACCOUNT_TOKEN: &str = "serviceaccount-token-controller";
/// Deletes unused tokens of service accounts.
pub const LEGACY_TOKEN_CLEANER: &str = "legacy-serviceaccount-token-cleaner-controller";
/// Protects ServiceCIDRs from deletion, and calculates their status.
pub const SERVICE_CIDR: &str = "service-cidr-controller";
/// Creates the ResourceClaims of pods, and releases unused ones.
pub const RESOURCE_CLAIM: &str = "resourceclaim-controller";
/// Checks the types of ValidatingAdmissionPolicies.
pub const POLICY_STATUS: &str = "validatingadmissionpolicy-status-controller";
