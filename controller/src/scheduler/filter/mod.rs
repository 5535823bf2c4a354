//! Filters the nodes for a pod. One file per rule, each a pure function that returns upstream's reason.
//!
//! The order is upstream's, and so is the reporting: the first rule that rejects a node provides its reasons.

pub mod limits;
pub mod node_affinity;
pub mod node_terms;
pub mod pod_affinity;
pub mod ports;
pub mod resources;
pub mod restrictions;
pub mod spread;
pub mod taints;
pub mod too_large;
pub mod unschedulable;
pub mod volume_binding;
pub mod zone;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There are no nodes.
    NoNodes,
    /// The node is cordoned.
    Unschedulable,
    /// Taints and tolerations.
    Taints,
    /// Node selector and node affinity.
    NodeAffinity,
    /// Host ports.
    Ports,
    /// Free resources on the node.
    Resources,
    /// Disks and claims with exclusive access.
    Restrictions,
    /// Volume limits of drivers.
    Limits,
    /// Claims and their volumes.
    VolumeBinding,
    /// Zones of volumes.
    Zone,
    /// Spread constraints.
    Spread,
    /// Affinity and anti-affinity to other pods.
    PodAffinity,
    /// Features that this scheduler does not support.
    Unsupported,
}

/// An upper bound of the number of rules.
pub const RULES: usize = 16;

/// A set of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules(u16);

impl Rules {
    /// The set of exactly these rules.
    pub fn of(rules: &[Rule]) -> Self {
        Self(rules.iter().fold(0, |set, rule| set | 1 << *rule as u16))
    }

    /// Adds a rule.
    pub fn insert(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u16;
    }

    /// The rules' numbers, each below [`RULES`].
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..RULES).filter(move |number| self.0 & (1 << number) != 0)
    }
}

/// Why a node is infeasible for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Upstream's texts of all reasons that apply.
    pub reasons: Vec<String>,
    /// Removing pods from the node may help.
    pub resolvable: bool,
    /// The rule that rejected the node.
    pub rule: Rule,
}

impl Misfit {
    /// A reason that does not depend on other pods on the node.
    pub fn fixed(rule: Rule, reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: false, rule }
    }

    /// A reason that may disappear with other pods.
    pub fn passing(rule: Rule, reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: true, rule }
    }
}

/// Why a pod cannot be decided about: the fault is neither its own nor the nodes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);
