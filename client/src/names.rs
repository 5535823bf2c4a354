//! Names that are protocol: annotation keys, finalizers, event reasons, conditions, components. Letter by letter as
//! Kubernetes 1.36 writes them, because users, other controllers and sidecars match on them. Nothing else belongs here.

/// PVC: binding finished once. Presence decides between the unbound and the bound path of a claim sync. Value [`YES`].
pub const ANN_BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// PV, PVC: this side of the pointer was set by a controller and may be rolled back. Value [`YES`].
pub const ANN_BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The reclaim policy that a volume has again once it is scrubbed (the verb `reclaim` writes it).
pub const ANN_POLICY_AFTER_SCRUB: &str = "orlop.dev/reclaim-policy-after-scrub";
/// PVC: node that the scheduler chose for delayed provisioning.
pub const ANN_SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// PV: name of the provisioner or in-tree plugin that made the volume.
pub const ANN_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// PV, PVC: CSI driver that serves a migrated in-tree plugin.
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
/// PVC: the controller's expansion finished everything.
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
/// VolumeSnapshotContent: its snapshot is deleted. Value [`YES`].
pub const ANN_SNAPSHOT_BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// VolumeSnapshotContent: the driver was asked for it, and its answer is not known. Value [`YES`].
pub const ANN_SNAPSHOT_BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// VolumeSnapshotContent: name of the secret for CreateSnapshot and DeleteSnapshot.
pub const ANN_SNAPSHOT_SECRET_NAME: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
/// VolumeSnapshotContent: namespace of the secret for CreateSnapshot and DeleteSnapshot.
pub const ANN_SNAPSHOT_SECRET_NAMESPACE: &str = "snapshot.storage.kubernetes.io/deletion-secret-namespace";
/// VolumeSnapshotContent: a member of a group; the group is asked for, not the member.
pub const ANN_SNAPSHOT_GROUP_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
/// VolumeAttachment: CSI node id of the publish call.
pub const ANN_CSI_NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";
/// Node: presence puts the node under the attach/detach controller.
pub const ANN_CONTROLLER_MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Node: the IP address at which its agent serves logs; the API server asks there, at the port of `status.daemonEndpoints`.
pub const ANN_LOG_ADDRESS: &str = "orlop.dev/log-address";
/// Node: SHA-256 of the public key with which its agent encrypts logs, 64 hexadecimal digits. Without it logs are asked for on loopback only.
pub const ANN_LOG_KEY: &str = "orlop.dev/log-key";
/// PV of local storage: with the value `true` its path may be a regular file, which is taken for a disk.
pub const ANN_IMAGE_FILE: &str = "orlop.dev/image-file";
/// Node, PV, StorageClass: after which time a volume that nobody wants is taken by force from a node that is not healthy; a
/// duration or `never`. The node wins over the volume, that over the class.
pub const ANN_FORCE_DETACH_AFTER: &str = "orlop.dev/force-detach-after";
/// VolumeAttachment: when its volume is detached by force at the latest.
pub const ANN_DETACH_NOT_BEFORE: &str = "orlop.dev/detach-not-before";
/// VolumeAttachment: its volume was detached by force; when and why.
pub const ANN_FORCED_DETACH: &str = "orlop.dev/forced-detach";
/// PVC: the whole CreateVolume request, from before the driver is asked until the outcome is final. See [`FINALIZER_PROVISIONING`].
pub const ANN_CREATE_REQUEST: &str = "csi.orlop.dev/create-request";
/// VolumeSnapshotContent: exactly `true` lets a volume of another mode be made of the snapshot.
pub const ANN_ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
/// Node: what each CSI driver calls it, a JSON object of driver to id.
pub const ANN_CSI_NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";
/// CSINode: comma list of in-tree plugin names.
pub const ANN_MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Any object: what it is there for, in words.
pub const ANN_DESCRIPTION: &str = "kubernetes.io/description";
/// The value of marks such as [`ANN_BIND_COMPLETED`].
pub const YES: &str = "yes";

/// PV: held while it is bound.
pub const FINALIZER_PV_PROTECTION: &str = "kubernetes.io/pv-protection";
/// PVC: held while a pod uses it.
pub const FINALIZER_PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// VolumeAttributesClass: held while a volume or claim names it.
pub const FINALIZER_VAC_PROTECTION: &str = "kubernetes.io/vac-protection";
/// PV: in-tree provisioned volume with policy Delete; the binder removes it after the asset is gone.
pub const FINALIZER_PV_CONTROLLER: &str = "kubernetes.io/pv-controller";
/// PV: the same for external provisioners.
pub const FINALIZER_EXTERNAL_PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// PVC: a driver was asked for its volume, and what has become of that is not known for certain or not saved yet.
pub const FINALIZER_PROVISIONING: &str = "csi.orlop.dev/provisioning";
/// PVC: clones of it are being made.
pub const FINALIZER_CLONING: &str = "provisioner.storage.kubernetes.io/cloning-protection";
/// VolumeSnapshot: volumes of it are being made.
pub const FINALIZER_SNAPSHOT_SOURCE: &str =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// PV, VolumeAttachment: prefix, the sanitized driver name follows.
pub const FINALIZER_EXTERNAL_ATTACHER_PREFIX: &str = "external-attacher/";
/// VolumeSnapshot: claims may be filled from it.
pub const FINALIZER_SNAPSHOT_AS_SOURCE: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// VolumeSnapshot: it stays until its content is gone.
pub const FINALIZER_SNAPSHOT_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// VolumeSnapshotContent: it stays until its snapshot in the storage is gone, or is to be kept.
pub const FINALIZER_SNAPSHOT_CONTENT: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// PVC: a snapshot of it is being taken.
pub const FINALIZER_SNAPSHOT_CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Any object: dependents are deleted before it.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// Any object: dependents lose their reference before it goes.
pub const FINALIZER_ORPHAN: &str = "orphan";
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

/// In-tree plugins and the CSI drivers that took their work over. All are migrated, always.
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
    /// A claim cannot be bound now; also: a pod's ephemeral claim is not its own.
    pub const FAILED_BINDING: &str = "FailedBinding";
    /// Delayed binding, no pod yet.
    pub const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";
    /// Delayed binding, pods are not scheduled yet.
    pub const WAIT_FOR_POD_SCHEDULED: &str = "WaitForPodScheduled";
    /// The requested volume does not fit the claim.
    pub const VOLUME_MISMATCH: &str = "VolumeMismatch";
    /// A bound claim lost its volume.
    pub const CLAIM_LOST: &str = "ClaimLost";
    /// Two claims name one volume.
    pub const CLAIM_MISBOUND: &str = "ClaimMisbound";
    /// Delete postponed, volume in use.
    pub const VOLUME_DELETE: &str = "VolumeDelete";
    /// Delete failed.
    pub const VOLUME_FAILED_DELETE: &str = "VolumeFailedDelete";
    /// Recycle failed or has to wait.
    pub const VOLUME_FAILED_RECYCLE: &str = "VolumeFailedRecycle";
    /// Recycle is done.
    pub const VOLUME_RECYCLED: &str = "VolumeRecycled";
    /// An event of the recycler pod, repeated on the volume.
    pub const RECYCLER_POD: &str = "RecyclerPod";
    /// The reclaim policy is not known.
    pub const VOLUME_UNKNOWN_RECLAIM_POLICY: &str = "VolumeUnknownReclaimPolicy";
    /// Provisioning failed.
    pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
    /// A driver is asked for a volume.
    pub const PROVISIONING: &str = "Provisioning";
    /// A volume was made for a claim.
    pub const PROVISIONING_SUCCEEDED: &str = "ProvisioningSucceeded";
    /// An asset could not be removed after a failed provisioning.
    pub const PROVISIONING_CLEANUP_FAILED: &str = "ProvisioningCleanupFailed";
    /// Somebody else has to provision.
    pub const EXTERNAL_PROVISIONING: &str = "ExternalProvisioning";
    /// A volume is being made larger.
    pub const RESIZING: &str = "Resizing";
    /// A volume could not be made larger.
    pub const VOLUME_RESIZE_FAILED: &str = "VolumeResizeFailed";
    /// A volume is larger, and its claim has it.
    pub const VOLUME_RESIZE_SUCCESSFUL: &str = "VolumeResizeSuccessful";
    /// A volume is larger, its file system is not yet.
    pub const FILE_SYSTEM_RESIZE_REQUIRED: &str = "FileSystemResizeRequired";
    /// A volume is being given other attributes.
    pub const VOLUME_MODIFY: &str = "VolumeModify";
    /// A volume could not be given other attributes.
    pub const VOLUME_MODIFY_FAILED: &str = "VolumeModifyFailed";
    /// A volume has other attributes.
    pub const VOLUME_MODIFY_SUCCESSFUL: &str = "VolumeModifySuccessful";
    /// Nobody wants other attributes any more.
    pub const VOLUME_MODIFY_CANCELED: &str = "VolumeModifyCanceled";
    /// A snapshot is not valid.
    pub const SNAPSHOT_VALIDATION_ERROR: &str = "SnapshotValidationError";
    /// The class of a snapshot is not there.
    pub const GET_SNAPSHOT_CLASS_FAILED: &str = "GetSnapshotClassFailed";
    /// A snapshot has no class and there is no default one.
    pub const SET_DEFAULT_SNAPSHOT_CLASS_FAILED: &str = "SetDefaultSnapshotClassFailed";
    /// The content of a snapshot is not there.
    pub const SNAPSHOT_CONTENT_MISSING: &str = "SnapshotContentMissing";
    /// The content of a snapshot is of the other sort.
    pub const SNAPSHOT_CONTENT_MISMATCH: &str = "SnapshotContentMismatch";
    /// The content that a snapshot names is another's.
    pub const SNAPSHOT_CONTENT_MISBOUND: &str = "SnapshotContentMisbound";
    /// The content of a bound snapshot does not point back.
    pub const SNAPSHOT_MISBOUND: &str = "SnapshotMisbound";
    /// No content can be made for a snapshot.
    pub const SNAPSHOT_CONTENT_CREATION_FAILED: &str = "SnapshotContentCreationFailed";
    /// The content of a snapshot is made, its driver is next.
    pub const CREATING_SNAPSHOT: &str = "CreatingSnapshot";
    /// The driver has taken a snapshot.
    pub const SNAPSHOT_CREATED: &str = "SnapshotCreated";
    /// A snapshot can be used.
    pub const SNAPSHOT_READY: &str = "SnapshotReady";
    /// A snapshot cannot be deleted yet.
    pub const SNAPSHOT_DELETE_PENDING: &str = "SnapshotDeletePending";
    /// The driver has not taken a snapshot.
    pub const SNAPSHOT_CREATION_FAILED: &str = "SnapshotCreationFailed";
    /// The driver does not say how a snapshot is.
    pub const SNAPSHOT_CHECK_FAILED: &str = "SnapshotContentCheckandUpdateFailed";
    /// The driver has not deleted a snapshot.
    pub const SNAPSHOT_DELETE_ERROR: &str = "SnapshotDeleteError";
    /// Somebody else has to expand.
    pub const EXTERNAL_EXPANDING: &str = "ExternalExpanding";
    /// An owner reference crosses namespaces.
    pub const OWNER_REF_INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
    /// A pod or claim of a workload was made.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// A pod of a workload was deleted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// A pod or claim of a workload could not be made.
    pub const FAILED_CREATE: &str = "FailedCreate";
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
    /// A device could not be given to a pod.
    pub const FAILED_MAP_VOLUME: &str = "FailedMapVolume";
    /// A pod has its device.
    pub const SUCCESSFUL_MOUNT_VOLUME: &str = "SuccessfulMountVolume";
    /// A file system could not be made as large as its volume.
    pub const FILE_SYSTEM_RESIZE_FAILED: &str = "FileSystemResizeFailed";
    /// A file system is as large as its volume.
    pub const FILE_SYSTEM_RESIZE_SUCCESSFUL: &str = "FileSystemResizeSuccessful";
    /// `fsGroup` is being applied for a long time.
    pub const VOLUME_PERMISSION_CHANGE: &str = "VolumePermissionChangeInProgress";
    /// Another pod has the volume, with another `fsGroup`.
    pub const ALREADY_MOUNTED_VOLUME: &str = "AlreadyMountedVolume";
    /// A node found something of a pod that nobody knows.
    pub const ORPHANED_POD_VOLUME: &str = "OrphanedPodVolume";
    /// A Deployment changed the number of a ReplicaSet's pods.
    pub const SCALING_REPLICA_SET: &str = "ScalingReplicaSet";
    /// A pod got its node.
    pub const SCHEDULED: &str = "Scheduled";
    /// A pod got no node.
    pub const FAILED_SCHEDULING: &str = "FailedScheduling";
    /// A pod will be deleted for a taint of its node, or will not any more.
    pub const TAINT_MANAGER_EVICTION: &str = "TaintManagerEviction";
    /// A Deployment could not make a ReplicaSet.
    pub const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
}

/// Names of controllers as `--controllers` takes them.
pub mod controller {
    /// Binds claims to volumes, reclaims, provisions.
    pub const PV_BINDER: &str = "persistentvolume-binder-controller";
    /// Protects bound volumes from deletion.
    pub const PV_PROTECTION: &str = "persistentvolume-protection-controller";
    /// Protects used claims from deletion.
    pub const PVC_PROTECTION: &str = "persistentvolumeclaim-protection-controller";
    /// Protects used attributes classes from deletion.
    pub const VAC_PROTECTION: &str = "volumeattributesclass-protection-controller";
    /// Creates the claims of generic ephemeral volumes.
    pub const EPHEMERAL: &str = "ephemeral-volume-controller";
    /// Hands expansion over to external resizers.
    pub const EXPANDER: &str = "persistentvolume-expander-controller";
    /// Attaches volumes to the nodes of their pods, and detaches them.
    pub const ATTACH_DETACH: &str = "persistentvolume-attach-detach-controller";
    /// Makes volumes for claims with CSI drivers, and deletes them.
    pub const CSI_PROVISIONER: &str = "csi-provisioner-controller";
    /// Removes pods nobody needs.
    pub const POD_GC: &str = "pod-garbage-collector-controller";
    /// Empties and removes namespaces.
    pub const NAMESPACE: &str = "namespace-controller";
    /// Removes objects whose owners are gone.
    pub const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";
    /// Keeps the number of pods of ReplicationControllers.
    pub const REPLICATION: &str = "replicationcontroller-controller";
    /// Keeps the number of pods of ReplicaSets.
    pub const REPLICA_SET: &str = "replicaset-controller";
    /// Moves Deployments from one ReplicaSet to the next.
    pub const DEPLOYMENT: &str = "deployment-controller";
    /// Keeps the named pods of StatefulSets and their claims.
    pub const STATEFUL_SET: &str = "statefulset-controller";
    /// Gives pods their nodes.
    pub const SCHEDULER: &str = "scheduler";
    /// Says which nodes are lost.
    pub const NODE_LIFECYCLE: &str = "node-lifecycle-controller";
    /// Deletes pods that do not tolerate a taint of their node.
    pub const TAINT_EVICTION: &str = "taint-eviction-controller";
    /// Counts what quotas limit.
    pub const RESOURCE_QUOTA: &str = "resourcequota-controller";
    /// Makes the `default` account of every namespace.
    pub const SERVICE_ACCOUNT: &str = "serviceaccount-controller";
    /// Attaches volumes of CSI drivers to nodes.
    pub const CSI_ATTACHER: &str = "csi-attacher-controller";
    /// Publishes whom to trust in every namespace.
    pub const ROOT_CA_PUBLISHER: &str = "root-ca-certificate-publisher-controller";
    /// Makes CSI volumes larger.
    pub const CSI_RESIZER: &str = "csi-resizer-controller";
    /// Gives CSI volumes other attributes.
    pub const CSI_MODIFIER: &str = "csi-modifier-controller";
    /// Binds snapshots and their contents.
    pub const SNAPSHOT: &str = "snapshot-controller";
    /// Asks drivers for snapshots.
    pub const CSI_SNAPSHOTTER: &str = "csi-snapshotter-controller";
}

/// Types and reasons of conditions.
pub mod condition {
    /// Pod: it is about to be terminated by something other than itself.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// Reason of [`DISRUPTION_TARGET`] when the pod GC removes an orphan.
    pub const DELETION_BY_POD_GC: &str = "DeletionByPodGC";
    /// Reason of [`DISRUPTION_TARGET`] when a taint of its node drives it off.
    pub const DELETION_BY_TAINT_MANAGER: &str = "DeletionByTaintManager";
    /// Pod: it has a node.
    pub const POD_SCHEDULED: &str = "PodScheduled";
    /// Reason of [`POD_SCHEDULED`]: no node will do.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Reason of [`POD_SCHEDULED`]: it could not be found out, or not be done.
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    /// Namespace: discovery failed.
    pub const NS_DISCOVERY_FAILURE: &str = "NamespaceDeletionDiscoveryFailure";
    /// Namespace: a group version could not be parsed.
    pub const NS_GV_PARSING_FAILURE: &str = "NamespaceDeletionGroupVersionParsingFailure";
    /// Namespace: content could not be deleted.
    pub const NS_CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
    /// Namespace: content is still there.
    pub const NS_CONTENT_REMAINING: &str = "NamespaceContentRemaining";
    /// Namespace: content with finalizers is still there.
    pub const NS_FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";
}

/// Node taint: the node is out of service, its terminating pods may be removed by force.
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Keys of the taints that go with conditions of nodes.
pub mod taint {
    /// The node says that it is not ready, or has not said that it is.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    /// The node was not heard for too long.
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
