//! Which requests a policy or a webhook matches: rules and selectors.
//!
//! `attributes` describes a request, `criteria` the rules and selectors.

mod attributes;
mod criteria;

pub(crate) use attributes::{AdmissionOperation, Attributes, GroupVersionKind};
pub(crate) use criteria::{Criteria, NamespaceLabels, namespace_not_found};

#[cfg(test)]
pub(crate) mod tests;
