//! Finalizers.

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
