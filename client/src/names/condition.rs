//! Types and reasons of conditions.

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
