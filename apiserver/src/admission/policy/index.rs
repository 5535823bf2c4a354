//! The policies and bindings of a cluster.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use orlop_api::object::Object;

use super::compiled::{Binding, Policy};

/// Policies of one kind, and their bindings. Both in the order of their names.
#[derive(Clone, Default)]
pub(crate) struct PolicySet {
    policies: BTreeMap<String, Arc<Policy>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

/// The policies and bindings of a cluster.
#[derive(Clone, Default)]
pub(crate) struct PolicyIndex {
    pub(super) validating: PolicySet,
    pub(super) mutating: PolicySet,
}

impl PolicySet {
    /// Whether no policy applies to any request.
    pub(crate) fn is_empty(&self) -> bool {
        self.policies.is_empty() || self.bindings.is_empty()
    }

    /// Replaces or removes a policy. It is not compiled again if only its metadata or its status has changed, or if `known` contains
    /// it.
    pub(super) fn set_policy(
        &mut self,
        name: &str,
        object: Option<&Object>,
        is_mutating: bool,
        known: Option<&PolicySet>,
    ) {
        let Some(object) = object else { return drop(self.policies.remove(name)) };
        let former = known.unwrap_or(self).policies.get(name).filter(|policy| policy.is_of(object));
        let policy = former.cloned().unwrap_or_else(|| Arc::new(Policy::of(object, is_mutating)));
        self.policies.insert(name.to_owned(), policy);
    }

    /// Replaces or removes a binding.
    pub(super) fn set_binding(&mut self, name: &str, object: Option<&Object>) {
        match object {
            Some(object) => {
                self.bindings.insert(name.to_owned(), Arc::new(Binding::of(object)));
            }
            None => drop(self.bindings.remove(name)),
        }
    }

    /// The policies with bindings, and these.
    pub(super) fn bound(&self) -> impl Iterator<Item = (&Policy, Vec<&Binding>)> {
        let mut of_policies: HashMap<&str, Vec<&Binding>> = HashMap::new();
        for binding in self.bindings.values() {
            of_policies.entry(&binding.policy).or_default().push(binding);
        }
        self.policies.values().filter_map(move |policy| {
            let bindings = of_policies.remove(policy.name.as_str())?;
            Some((policy.as_ref(), bindings))
        })
    }

    /// Whether both sets have the same compiled policy of a name.
    #[cfg(test)]
    pub(super) fn is_same(&self, name: &str, other: &PolicySet) -> bool {
        let policies = (self.policies.get(name), other.policies.get(name));
        matches!(policies, (Some(a), Some(b)) if Arc::ptr_eq(a, b))
    }

    /// Whether a policy with a binding may apply to the resources of a group.
    fn covers(&self, group: &str) -> bool {
        self.bound().any(|(policy, _)| policy.criteria.covers(group))
    }
}

impl PolicyIndex {
    /// Whether a validating policy may apply.
    pub(crate) fn validates(&self) -> bool {
        !self.validating.is_empty()
    }

    /// Whether any policy may apply.
    pub(crate) fn is_any(&self) -> bool {
        self.validates() || self.mutates()
    }

    /// Whether a policy may apply to the resources of a group.
    pub(crate) fn covers(&self, group: &str) -> bool {
        self.validating.covers(group) || self.mutating.covers(group)
    }

    /// Whether a mutating policy may apply.
    pub(crate) fn mutates(&self) -> bool {
        !self.mutating.is_empty()
    }
}
