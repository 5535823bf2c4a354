//! May a pod go to a node? One file per rule, each pure: what is asked comes in, an answer with upstream's reason comes out.
//!
//! The order is upstream's, and so is its way of telling: the first rule that says no gives the reasons for a node.

pub mod limits;
pub mod node_affinity;
pub mod pod_affinity;
pub mod ports;
pub mod resources;
pub mod restrictions;
pub mod spread;
pub mod taints;
pub mod unschedulable;
pub mod volume_binding;
pub mod zone;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There are no nodes.
    NoNodes,
    /// The node is closed.
    Unschedulable,
    /// Taints and tolerations.
    Taints,
    /// Node selector and node affinity.
    NodeAffinity,
    /// Ports of the node.
    Ports,
    /// Room on the node.
    Resources,
    /// Disks and claims that not everybody may use at once.
    Restrictions,
    /// How many volumes of a driver a node takes.
    Limits,
    /// Claims and their volumes.
    VolumeBinding,
    /// Zones of volumes.
    Zone,
    /// Spread constraints.
    Spread,
    /// Where other pods are.
    PodAffinity,
    /// What this scheduler cannot do.
    Unsupported,
}

/// More than there are rules.
pub const RULES: usize = 16;

/// A set of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules(u16);

impl Rules {
    /// Exactly these.
    pub fn of(rules: &[Rule]) -> Self {
        Self(rules.iter().fold(0, |set, rule| set | 1 << *rule as u16))
    }

    /// One more.
    pub fn insert(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u16;
    }

    /// Their numbers, each below [`RULES`].
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..RULES).filter(move |number| self.0 & (1 << number) != 0)
    }
}

/// Why a node is not for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Upstream's words, all that apply.
    pub reasons: Vec<String>,
    /// Fewer pods on the node may help.
    pub resolvable: bool,
    /// Whose words they are.
    pub rule: Rule,
}

impl Misfit {
    /// One reason that does not depend on what else is on the node.
    pub fn fixed(rule: Rule, reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: false, rule }
    }

    /// One reason that may go with other pods.
    pub fn passing(rule: Rule, reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], resolvable: true, rule }
    }
}

/// Why there is no answer about a pod: not its fault and not the nodes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);
