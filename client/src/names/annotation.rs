//! Keys of annotations.

/// PVC: binding was completed once. Its presence selects the bound path of a claim sync instead of the unbound
/// one. Value [`YES`].
pub const ANN_BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// PV, PVC: a controller set this side of the reference and may roll it back. Value [`YES`].
pub const ANN_BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The reclaim policy to restore on a volume after it is scrubbed (written by the verb `reclaim`).
pub const ANN_POLICY_AFTER_SCRUB: &str = "orlop.dev/reclaim-policy-after-scrub";
/// PVC: the node that the scheduler selected for delayed provisioning.
pub const ANN_SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// PV: name of the provisioner or in-tree plugin that created the volume.
pub const ANN_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// PV, PVC: the CSI driver that replaces a migrated in-tree plugin.
pub const ANN_MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// PVC: request to an external provisioner.
pub const ANN_STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// PVC: the older key of [`ANN_STORAGE_PROVISIONER`]; both are written together.
pub const ANN_BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// PV, PVC: legacy class name, overrides `spec.storageClassName`.
pub const ANN_BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// StorageClass: exactly `true` marks a default class.
pub const ANN_DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// StorageClass: the older key of [`ANN_DEFAULT_CLASS`].
pub const ANN_BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
/// PV: capacity before a resize whose node part is pending.
pub const ANN_PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// PVC: CSI resizer of a migrated volume.
pub const ANN_STORAGE_RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// PVC: the controller completed the expansion; the node has nothing to expand.
pub const ANN_NODE_EXPANSION_NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";
/// PV: name of the secret for DeleteVolume.
pub const ANN_DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
/// PV: namespace of the secret for DeleteVolume.
pub const ANN_DELETION_SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";
/// PV: name of the secret for ControllerModifyVolume.
pub const ANN_MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";
/// PV: namespace of the secret for ControllerModifyVolume.
pub const ANN_MODIFY_SECRET_NAMESPACE: &str = "volume.kubernetes.io/controller-modify-secret-namespace";
/// VolumeSnapshotClass: exactly `true` marks a default class of its driver.
pub const ANN_DEFAULT_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// VolumeSnapshotContent: its snapshot is being deleted. Value [`YES`].
pub const ANN_SNAPSHOT_BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// VolumeSnapshotContent: the driver was called for it, and the outcome is unknown. Value [`YES`].
pub const ANN_SNAPSHOT_BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// VolumeSnapshotContent: name of the secret for CreateSnapshot and DeleteSnapshot.
pub const ANN_SNAPSHOT_SECRET_NAME: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
/// VolumeSnapshotContent: namespace of the secret for CreateSnapshot and DeleteSnapshot.
pub const ANN_SNAPSHOT_SECRET_NAMESPACE: &str = "snapshot.storage.kubernetes.io/deletion-secret-namespace";
/// VolumeSnapshotContent: a member of a group; snapshots are requested for the group, not the member.
pub const ANN_SNAPSHOT_GROUP_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
/// VolumeAttachment: CSI node id of the publish call.
pub const ANN_CSI_NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";
/// Node: its presence means that the attach/detach controller manages the node.
pub const ANN_CONTROLLER_MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Node: the IP address at which its agent serves logs; the API server connects to it, at the port of `status.daemonEndpoints`.
pub const ANN_LOG_ADDRESS: &str = "orlop.dev/log-address";
/// Node: SHA-256 of the public key with which its agent encrypts logs, 64 hexadecimal digits. Without it, logs are requested only
/// over loopback.
pub const ANN_LOG_KEY: &str = "orlop.dev/log-key";
/// PV of local storage: with the value `true`, its path may be a regular file, which is used as a disk.
pub const ANN_IMAGE_FILE: &str = "orlop.dev/image-file";
/// Node, PV, StorageClass: the time after which an unused volume is force-detached from an unhealthy node; a duration or `never`.
/// The node takes precedence over the volume, and the volume over the class.
pub const ANN_FORCE_DETACH_AFTER: &str = "orlop.dev/force-detach-after";
/// VolumeAttachment: the time at which its volume is detached by force, if it is still attached then.
pub const ANN_DETACH_NOT_BEFORE: &str = "orlop.dev/detach-not-before";
/// VolumeAttachment: when and why its volume was detached by force.
pub const ANN_FORCED_DETACH: &str = "orlop.dev/forced-detach";
/// PVC: the whole CreateVolume request, from before the call until the outcome is final. See [`FINALIZER_PROVISIONING`](super::FINALIZER_PROVISIONING).
pub const ANN_CREATE_REQUEST: &str = "csi.orlop.dev/create-request";
/// VolumeSnapshotContent: exactly `true` permits a volume with another mode from the snapshot.
pub const ANN_ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
/// Node: its id for each CSI driver, a JSON object of driver to id.
pub const ANN_CSI_NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";
/// CSINode: comma-separated list of in-tree plugin names.
pub const ANN_MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Node: the number of seconds for which its kubelet may cache Secrets and ConfigMaps.
pub const ANN_NODE_TTL: &str = "node.alpha.kubernetes.io/ttl";
/// DaemonSet: the number of changes of its template.
pub const ANN_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// Pod of an indexed Job: its index. Also a label.
pub const ANN_JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pod of a Job with a limit per index: the number of counted failures of the index before this pod.
pub const ANN_JOB_INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// Pod of a Job with a limit per index: the number of ignored failures of the index before this pod.
pub const ANN_JOB_INDEX_IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Job: the time of the CronJob's schedule for which it was created.
pub const ANN_CRON_JOB_SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Any object: a description of its purpose.
pub const ANN_DESCRIPTION: &str = "kubernetes.io/description";
/// Endpoints, EndpointSlice: the time of the change of a pod or a Service that led to the last write.
pub const ANN_LAST_CHANGE_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Endpoints: `truncated` if the Service has more addresses than Endpoints may contain.
pub const ANN_OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Endpoints: the record of a leader election.
pub const ANN_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Any object: the configuration of the last `kubectl apply`.
pub const ANN_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Service: `Auto` assigns its endpoints to zones in proportion to the CPUs of their nodes.
pub const ANN_TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// Service: the older key of [`ANN_TOPOLOGY_MODE`], which takes precedence.
pub const ANN_TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// The value of marker annotations such as [`ANN_BIND_COMPLETED`].
pub const YES: &str = "yes";
