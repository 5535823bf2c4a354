//! How many volumes of each driver a node has, and how many it supports.

use std::collections::{BTreeMap, BTreeSet};

/// The volumes of one driver on a node.
#[derive(Debug, Default)]
pub struct VolumeLimit {
    /// How many the node supports.
    pub limit: Option<usize>,
    /// Their names.
    pub used: BTreeSet<String>,
}

/// The volumes on a node by driver.
pub type VolumeLimits = BTreeMap<String, VolumeLimit>;
