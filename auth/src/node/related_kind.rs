//! The kinds that the relations of nodes lead to.

/// The kinds of the objects that a node may be related to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelatedKind {
    /// Used by a pod.
    Claim,
    /// Used by a pod.
    ConfigMap,
    /// Runs on a node.
    Pod,
    /// Used by a pod.
    ResourceClaim,
    /// Names a node.
    ResourceSlice,
    /// Used by a pod, or by the volume of a claim that a pod uses.
    Secret,
    /// Used by a pod.
    ServiceAccount,
    /// Bound to a claim that a pod uses, or emptied by a recycler pod.
    Volume,
    /// Names a node.
    VolumeAttachment,
}
