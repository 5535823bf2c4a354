//! Keys of the taints that correspond to node conditions.

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
