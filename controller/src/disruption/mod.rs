//! `disruption-controller`: calculates how many pods of a PodDisruptionBudget may be evicted. The API server checks
//! this status before it evicts a pod (`apiserver/src/verbs/eviction`).
//!
//! [`budget`] calculates the status from the pods; [`selection`] finds the pods of a budget and the budgets of a pod;
//! [`scale`] and [`discovery`] read how many pods the controllers of the pods maintain; [`stale`] resets the condition
//! `DisruptionTarget` of pods that were not deleted. [`control`] writes the changes. Upstream:
//! pkg/controller/disruption.

pub mod budget;
pub mod control;
mod discovery;
mod scale;
mod selection;
mod stale;
#[cfg(test)]
mod tests;

pub use control::run;
