//! Reasons of events.

/// A claim cannot be bound now, or the claim of an ephemeral volume does not belong to the pod.
pub const FAILED_BINDING: &str = "FailedBinding";
/// Delayed binding: no pod uses the claim yet.
pub const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";
/// Delayed binding: the pods are not scheduled yet.
pub const WAIT_FOR_POD_SCHEDULED: &str = "WaitForPodScheduled";
/// The requested volume does not fit the claim.
pub const VOLUME_MISMATCH: &str = "VolumeMismatch";
/// A bound claim lost its volume.
pub const CLAIM_LOST: &str = "ClaimLost";
/// Two claims refer to the same volume.
pub const CLAIM_MISBOUND: &str = "ClaimMisbound";
/// The deletion of a volume is postponed because the volume is in use.
pub const VOLUME_DELETE: &str = "VolumeDelete";
/// The deletion of a volume failed.
pub const VOLUME_FAILED_DELETE: &str = "VolumeFailedDelete";
/// Recycling a volume failed or must wait.
pub const VOLUME_FAILED_RECYCLE: &str = "VolumeFailedRecycle";
/// A volume was recycled.
pub const VOLUME_RECYCLED: &str = "VolumeRecycled";
/// An event of the recycler pod, repeated on the volume.
pub const RECYCLER_POD: &str = "RecyclerPod";
/// The reclaim policy is unknown.
pub const VOLUME_UNKNOWN_RECLAIM_POLICY: &str = "VolumeUnknownReclaimPolicy";
/// Provisioning failed.
pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
/// A driver is called for a volume.
pub const PROVISIONING: &str = "Provisioning";
/// A volume was created for a claim.
pub const PROVISIONING_SUCCEEDED: &str = "ProvisioningSucceeded";
/// An asset could not be deleted after a failed provisioning.
pub const PROVISIONING_CLEANUP_FAILED: &str = "ProvisioningCleanupFailed";
/// An external provisioner must provision.
pub const EXTERNAL_PROVISIONING: &str = "ExternalProvisioning";
/// A volume is being expanded.
pub const RESIZING: &str = "Resizing";
/// A volume could not be expanded.
pub const VOLUME_RESIZE_FAILED: &str = "VolumeResizeFailed";
/// A volume was expanded, and its claim shows the new size.
pub const VOLUME_RESIZE_SUCCESSFUL: &str = "VolumeResizeSuccessful";
/// A volume was expanded, but its file system was not expanded yet.
pub const FILE_SYSTEM_RESIZE_REQUIRED: &str = "FileSystemResizeRequired";
/// The attributes of a volume are being changed.
pub const VOLUME_MODIFY: &str = "VolumeModify";
/// The attributes of a volume could not be changed.
pub const VOLUME_MODIFY_FAILED: &str = "VolumeModifyFailed";
/// The attributes of a volume were modified.
pub const VOLUME_MODIFY_SUCCESSFUL: &str = "VolumeModifySuccessful";
/// The change of attributes is no longer requested.
pub const VOLUME_MODIFY_CANCELED: &str = "VolumeModifyCanceled";
/// A snapshot is invalid.
pub const SNAPSHOT_VALIDATION_ERROR: &str = "SnapshotValidationError";
/// The class of a snapshot does not exist.
pub const GET_SNAPSHOT_CLASS_FAILED: &str = "GetSnapshotClassFailed";
/// A snapshot has no class, and no default class exists.
pub const SET_DEFAULT_SNAPSHOT_CLASS_FAILED: &str = "SetDefaultSnapshotClassFailed";
/// The content of a snapshot does not exist.
pub const SNAPSHOT_CONTENT_MISSING: &str = "SnapshotContentMissing";
/// The content of a snapshot is pre-provisioned instead of dynamically provisioned, or the reverse.
pub const SNAPSHOT_CONTENT_MISMATCH: &str = "SnapshotContentMismatch";
/// The content that a snapshot names is bound to a different snapshot.
pub const SNAPSHOT_CONTENT_MISBOUND: &str = "SnapshotContentMisbound";
/// The content of a bound snapshot does not refer back to it.
pub const SNAPSHOT_MISBOUND: &str = "SnapshotMisbound";
/// No content can be created for a snapshot.
pub const SNAPSHOT_CONTENT_CREATION_FAILED: &str = "SnapshotContentCreationFailed";
/// The content of a snapshot was created; the driver takes the snapshot next.
pub const CREATING_SNAPSHOT: &str = "CreatingSnapshot";
/// The driver has taken a snapshot.
pub const SNAPSHOT_CREATED: &str = "SnapshotCreated";
/// A snapshot is ready to use.
pub const SNAPSHOT_READY: &str = "SnapshotReady";
/// A snapshot cannot be deleted yet.
pub const SNAPSHOT_DELETE_PENDING: &str = "SnapshotDeletePending";
/// The driver failed to take a snapshot.
pub const SNAPSHOT_CREATION_FAILED: &str = "SnapshotCreationFailed";
/// The driver does not report the state of a snapshot.
pub const SNAPSHOT_CHECK_FAILED: &str = "SnapshotContentCheckandUpdateFailed";
/// The driver failed to delete a snapshot.
pub const SNAPSHOT_DELETE_ERROR: &str = "SnapshotDeleteError";
/// An external resizer must expand.
pub const EXTERNAL_EXPANDING: &str = "ExternalExpanding";
/// An owner reference crosses namespaces.
pub const OWNER_REF_INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
/// A pod or claim of a workload was created.
pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
/// A pod of a workload was deleted.
pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
/// A pod or claim of a workload could not be created.
pub const FAILED_CREATE: &str = "FailedCreate";
/// A controller's syncs of an object keep failing. Upstream's controllers only log this.
pub const SYNC_FAILING: &str = "SyncFailing";
/// A sync succeeded after [`SYNC_FAILING`].
pub const SYNCED: &str = "Synced";
/// A pod of a workload could not be deleted.
pub const FAILED_DELETE: &str = "FailedDelete";
/// A volume was attached for a pod.
pub const SUCCESSFUL_ATTACH_VOLUME: &str = "SuccessfulAttachVolume";
/// A volume could not be attached for a pod.
pub const FAILED_ATTACH_VOLUME: &str = "FailedAttachVolume";
/// A volume will be detached by force.
pub const VOLUME_DETACH_WAITING: &str = "VolumeDetachWaiting";
/// A volume is detached by force.
pub const FORCED_DETACH_VOLUME: &str = "ForcedDetachVolume";
/// A volume could not be mounted for a pod.
pub const FAILED_MOUNT: &str = "FailedMount";
/// A device could not be mapped for a pod.
pub const FAILED_MAP_VOLUME: &str = "FailedMapVolume";
/// A block volume was mapped for a pod.
pub const SUCCESSFUL_MOUNT_VOLUME: &str = "SuccessfulMountVolume";
/// A file system could not be expanded to the size of its volume.
pub const FILE_SYSTEM_RESIZE_FAILED: &str = "FileSystemResizeFailed";
/// A file system was expanded to the size of its volume.
pub const FILE_SYSTEM_RESIZE_SUCCESSFUL: &str = "FileSystemResizeSuccessful";
/// Applying `fsGroup` takes a long time.
pub const VOLUME_PERMISSION_CHANGE: &str = "VolumePermissionChangeInProgress";
/// Another pod uses the volume with a different `fsGroup`.
pub const ALREADY_MOUNTED_VOLUME: &str = "AlreadyMountedVolume";
/// A node found leftovers of an unknown pod.
pub const ORPHANED_POD_VOLUME: &str = "OrphanedPodVolume";
/// A Deployment scaled a ReplicaSet.
pub const SCALING_REPLICA_SET: &str = "ScalingReplicaSet";
/// A pod was assigned to a node.
pub const SCHEDULED: &str = "Scheduled";
/// A pod could not be assigned to a node.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// A pod will be deleted because of a taint of its node, or its deletion was cancelled.
pub const TAINT_MANAGER_EVICTION: &str = "TaintManagerEviction";
/// The Endpoints of a Service could not be created.
pub const FAILED_TO_CREATE_ENDPOINT: &str = "FailedToCreateEndpoint";
/// The Endpoints of a Service could not be updated.
pub const FAILED_TO_UPDATE_ENDPOINT: &str = "FailedToUpdateEndpoint";
/// The EndpointSlices of a Service could not be written.
pub const FAILED_TO_UPDATE_ENDPOINT_SLICES: &str = "FailedToUpdateEndpointSlices";
/// The endpoints of a Service are assigned to zones.
pub const TOPOLOGY_AWARE_HINTS_ENABLED: &str = "TopologyAwareHintsEnabled";
/// The endpoints of a Service are no longer assigned to zones, or cannot be.
pub const TOPOLOGY_AWARE_HINTS_DISABLED: &str = "TopologyAwareHintsDisabled";
/// Endpoints contain an invalid address.
pub const INVALID_IP_ADDRESS: &str = "InvalidIPAddress";
/// Endpoints contain more addresses than are mirrored.
pub const TOO_MANY_ADDRESSES_TO_MIRROR: &str = "TooManyAddressesToMirror";
/// A failed pod of a DaemonSet will be deleted.
pub const FAILED_DAEMON_POD: &str = "FailedDaemonPod";
/// A succeeded pod of a DaemonSet will be deleted.
pub const SUCCEEDED_DAEMON_POD: &str = "SucceededDaemonPod";
/// The selector of a DaemonSet matches all pods.
pub const SELECTING_ALL: &str = "SelectingAll";
/// A Deployment could not create a ReplicaSet.
pub const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
/// A Job was suspended.
pub const SUSPENDED: &str = "Suspended";
/// A Job was resumed.
pub const RESUMED: &str = "Resumed";
/// A Job is complete.
pub const COMPLETED: &str = "Completed";
/// More pods of a Job succeeded than it requests.
pub const TOO_MANY_SUCCEEDED_PODS: &str = "TooManySucceededPods";
/// The completion mode of a Job is unknown.
pub const UNKNOWN_COMPLETION_MODE: &str = "UnknownCompletionMode";
/// A running Job of a CronJob is not in the status of the CronJob.
pub const UNEXPECTED_JOB: &str = "UnexpectedJob";
/// A Job of a CronJob has finished.
pub const SAW_COMPLETED_JOB: &str = "SawCompletedJob";
/// A Job in the status of a CronJob no longer exists.
pub const MISSING_JOB: &str = "MissingJob";
/// The time zone of a CronJob is unknown.
pub const UNKNOWN_TIME_ZONE: &str = "UnknownTimeZone";
/// The schedule of a CronJob contains a time zone.
pub const UNSUPPORTED_SCHEDULE: &str = "UnsupportedSchedule";
/// The schedule of a CronJob cannot be parsed.
pub const UNPARSEABLE_SCHEDULE: &str = "UnparseableSchedule";
/// The new schedule of a CronJob cannot be parsed.
pub const UNPARSEABLE_CRON_JOB_SCHEDULE: &str = "UnParseableCronJobSchedule";
/// The schedule of a CronJob has no times.
pub const INVALID_SCHEDULE: &str = "InvalidSchedule";
/// A CronJob missed more than 100 times.
pub const TOO_MANY_MISSED_TIMES: &str = "TooManyMissedTimes";
/// The starting deadline of a time of a CronJob has passed.
pub const MISS_SCHEDULE: &str = "MissSchedule";
/// A CronJob with the policy Forbid still has a running Job.
pub const JOB_ALREADY_ACTIVE: &str = "JobAlreadyActive";
/// A Job that a CronJob replaces could not be read.
pub const FAILED_GET: &str = "FailedGet";
/// A budget selects no pods, or its pods are unknown.
pub const NO_PODS: &str = "NoPods";
/// A budget selects pods without a controller.
pub const UNMANAGED_PODS: &str = "UnmanagedPods";
/// The number of pods that a budget expects is unknown.
pub const CALCULATE_EXPECTED_POD_COUNT_FAILED: &str = "CalculateExpectedPodCountFailed";
/// Several budgets select a pod.
pub const MULTIPLE_POD_DISRUPTION_BUDGETS: &str = "MultiplePodDisruptionBudgets";
/// A pod was evicted but not deleted.
pub const NOT_DELETED: &str = "NotDeleted";
/// The status of a ServiceCIDR could not be written.
pub const SERVICE_CIDR_ERROR: &str = "KubernetesServiceCIDRError";
/// The ResourceClaim of a pod could not be created.
pub const FAILED_RESOURCE_CLAIM_CREATION: &str = "FailedResourceClaimCreation";
