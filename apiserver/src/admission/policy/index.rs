//! The policies and bindings of a cluster.

use std::collections::BTreeMap;
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

    /// Replaces or removes a policy.
    pub(super) fn set_policy(&mut self, name: &str, object: Option<&Object>, is_mutating: bool) {
        match object {
            Some(object) => {
                self.policies.insert(name.to_owned(), Arc::new(Policy::of(object, is_mutating)));
            }
            None => drop(self.policies.remove(name)),
        }
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
        self.policies.values().filter_map(|policy| {
            let bindings: Vec<&Binding> = self
                .bindings
                .values()
                .filter(|binding| binding.policy == policy.name)
                .map(AsRef::as_ref)
                .collect();
            (!bindings.is_empty()).then_some((policy.as_ref(), bindings))
        })
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

    /// Whether a mutating policy may apply.
    pub(crate) fn mutates(&self) -> bool {
        !self.mutating.is_empty()
    }
}
