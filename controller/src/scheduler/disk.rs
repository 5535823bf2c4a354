//! A disk of a CSI driver, the disk of a claim, and the maximum number of disks of a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::storage::v1::CSINode;

/// A disk of a CSI driver, named by driver and handle.
pub type CsiDisk = (String, String);

/// The disk of a claim, and the objects that it was derived from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimDisk {
    /// The volume that the claim names, whether it exists or not.
    pub volume: Option<String>,
    /// The class that was used because there was no volume.
    pub class: Option<String>,
    /// The disk, if it is one of a CSI driver.
    pub disk: Option<Arc<CsiDisk>>,
}

/// A node's limits by driver. A driver without one is unlimited.
pub fn volume_limits(node: Option<&CSINode>) -> BTreeMap<String, usize> {
    let drivers = node.into_iter().flat_map(|node| &node.spec.drivers);
    let limit = |count: i32| usize::try_from(count).unwrap_or(0);
    drivers
        .filter_map(|driver| Some((driver.name.clone(), limit(driver.allocatable.as_ref()?.count?))))
        .collect()
}
