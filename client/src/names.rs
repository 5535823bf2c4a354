//! Names that are part of the protocol: annotation keys, finalizers, event reasons, conditions, components. They
//! are identical to those of Kubernetes 1.36, because users, other controllers and sidecars match on them. The
//! module contains only such names.

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
/// PVC: the whole CreateVolume request, from before the call until the outcome is final. See [`FINALIZER_PROVISIONING`].
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

/// EndpointSlice: the name of its Service.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// EndpointSlice: the controller that writes it.
pub const LABEL_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Endpoints: the controller that writes them.
pub const LABEL_ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Endpoints, EndpointSlice: their Service has no cluster IP.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";
/// Endpoints: with the value `true`, they are not mirrored to EndpointSlices.
pub const LABEL_SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Node: its zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

/// PV: present while it is bound.
pub const FINALIZER_PV_PROTECTION: &str = "kubernetes.io/pv-protection";
/// PVC: present while a pod uses it.
pub const FINALIZER_PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// VolumeAttributesClass: present while a volume or claim refers to it.
pub const FINALIZER_VAC_PROTECTION: &str = "kubernetes.io/vac-protection";
/// PV: in-tree provisioned volume with policy Delete; the binder removes it after the storage is deleted.
pub const FINALIZER_PV_CONTROLLER: &str = "kubernetes.io/pv-controller";
/// PV: like [`FINALIZER_PV_CONTROLLER`], for external provisioners.
pub const FINALIZER_EXTERNAL_PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// PVC: a driver was called for its volume, and the outcome is unknown or not saved yet.
pub const FINALIZER_PROVISIONING: &str = "csi.orlop.dev/provisioning";
/// PVC: clones of it are being created.
pub const FINALIZER_CLONING: &str = "provisioner.storage.kubernetes.io/cloning-protection";
/// VolumeSnapshot: volumes are being created from it.
pub const FINALIZER_SNAPSHOT_SOURCE: &str =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// PV, VolumeAttachment: prefix, followed by the sanitized driver name.
pub const FINALIZER_EXTERNAL_ATTACHER_PREFIX: &str = "external-attacher/";
/// VolumeSnapshot: claims may use it as their data source.
pub const FINALIZER_SNAPSHOT_AS_SOURCE: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// VolumeSnapshot: present until its content is deleted.
pub const FINALIZER_SNAPSHOT_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// VolumeSnapshotContent: present until its snapshot in the storage is deleted, or is to be retained.
pub const FINALIZER_SNAPSHOT_CONTENT: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// PVC: a snapshot of it is being taken.
pub const FINALIZER_SNAPSHOT_CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Any object: dependents are deleted before it.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// Any object: dependents lose their reference before it is removed.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// Pod of a Job: present until the Job's status counts the pod.
pub const FINALIZER_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// ServiceCIDR: present while its addresses may be in use.
pub const FINALIZER_SERVICE_CIDR: &str = "networking.k8s.io/service-cidr-finalizer";
/// ResourceClaim: present while devices are allocated for it.
pub const FINALIZER_DELETE_PROTECTION: &str = "resource.kubernetes.io/delete-protection";
/// Entry of a namespace's `spec.finalizers`.
pub const NAMESPACE_FINALIZER: &str = "kubernetes";

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
/// Event component of the controller of Endpoints, and the value of [`LABEL_ENDPOINTS_MANAGED_BY`] in the Endpoints that it writes.
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

/// Plugin name of hostPath volumes.
pub const PLUGIN_HOST_PATH: &str = "kubernetes.io/host-path";
/// Plugin name of NFS volumes.
pub const PLUGIN_NFS: &str = "kubernetes.io/nfs";
/// Plugin name of local volumes.
pub const PLUGIN_LOCAL: &str = "kubernetes.io/local-volume";
/// Prefix of every plugin name that belongs to Kubernetes itself.
pub const IN_TREE_PREFIX: &str = "kubernetes.io/";

/// In-tree plugins and the CSI drivers that replace them. All plugins are always migrated.
pub const MIGRATED_PLUGINS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// The CSI driver of a migrated in-tree plugin.
pub fn migrated_driver(plugin: &str) -> Option<&'static str> {
    MIGRATED_PLUGINS.iter().find(|(p, _)| *p == plugin).map(|(_, driver)| *driver)
}

/// Reasons of events.
pub mod reason {
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
}

/// Names of controllers as accepted by `--controllers`.
pub mod controller {
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
}

/// Types and reasons of conditions.
pub mod condition {
    /// Pod: about to be terminated by a cause outside the pod.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// Reason of [`DISRUPTION_TARGET`] when the pod GC removes an orphan.
    pub const DELETION_BY_POD_GC: &str = "DeletionByPodGC";
    /// Reason of [`DISRUPTION_TARGET`] when a taint of its node evicts the pod.
    pub const DELETION_BY_TAINT_MANAGER: &str = "DeletionByTaintManager";
    /// Reason of [`DISRUPTION_TARGET`] when the node ends the pod.
    pub const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
    /// PodDisruptionBudget: a pod can be evicted now.
    pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
    /// Reason of [`DISRUPTION_ALLOWED`]: more pods are healthy than the budget needs.
    pub const SUFFICIENT_PODS: &str = "SufficientPods";
    /// Reason of [`DISRUPTION_ALLOWED`]: no more pods are healthy than the budget needs.
    pub const INSUFFICIENT_PODS: &str = "InsufficientPods";
    /// Reason of [`DISRUPTION_ALLOWED`]: the status could not be calculated.
    pub const SYNC_FAILED: &str = "SyncFailed";
    /// ServiceCIDR: addresses can be allocated from it.
    pub const READY: &str = "Ready";
    /// Reason of [`READY`]: the range is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// Pod: assigned to a node.
    pub const POD_SCHEDULED: &str = "PodScheduled";
    /// Reason of [`POD_SCHEDULED`]: no node is suitable.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Reason of [`POD_SCHEDULED`]: the decision or its execution failed.
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    /// Namespace: discovery failed.
    pub const NS_DISCOVERY_FAILURE: &str = "NamespaceDeletionDiscoveryFailure";
    /// Namespace: a group version could not be parsed.
    pub const NS_GV_PARSING_FAILURE: &str = "NamespaceDeletionGroupVersionParsingFailure";
    /// Namespace: content could not be deleted.
    pub const NS_CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
    /// Namespace: content remains.
    pub const NS_CONTENT_REMAINING: &str = "NamespaceContentRemaining";
    /// Namespace: content with finalizers remains.
    pub const NS_FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";
}

/// Node taint: the node is out of service, and its terminating pods may be deleted by force.
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Keys of the taints that correspond to node conditions.
pub mod taint {
    /// The node reports that it is not ready, or has not reported that it is.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    /// The node has not reported for too long.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// `spec.unschedulable` is set.
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    /// Condition MemoryPressure.
    pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
    /// Condition DiskPressure.
    pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
    /// Condition PIDPressure.
    pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
    /// Condition NetworkUnavailable.
    pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
}

/// Namespace of the Leases that nodes renew.
pub const NAMESPACE_NODE_LEASE: &str = "kube-node-lease";
