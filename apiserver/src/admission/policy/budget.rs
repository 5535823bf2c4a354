//! The cost that expressions may have in a request.

use orlop_api::object::Object;
use orlop_crd::expression::{CostBudget, OutOfBudget, weight};
use serde_json::Value;

/// How often the evaluation of a policy visits each value of an object, at most: the object is converted, copied, patched, compared and
/// decoded.
const VISITS: u64 = 10;

/// The cost that all policies or all webhooks of a phase may have together. Without this limit, their number would multiply the cost of a
/// request.
pub(crate) struct PhaseBudget(CostBudget);

impl Default for PhaseBudget {
    fn default() -> Self {
        PhaseBudget(CostBudget::of_request())
    }
}

impl PhaseBudget {
    /// The budget of a binding.
    pub(super) fn binding(&self) -> BindingBudget {
        let mut budget = BindingBudget {
            granted: 0,
            conditions: self.conditions(),
            rules: CostBudget::of_policy().within(&self.0),
            visits: CostBudget::of_request().within(&self.0),
        };
        budget.granted = budget.left();
        budget
    }

    /// The budget of the match conditions of a webhook.
    pub(crate) fn conditions(&self) -> CostBudget {
        CostBudget::of_match_conditions().within(&self.0)
    }

    /// Takes what a webhook has used of its budget.
    pub(crate) fn charge_conditions(&mut self, granted: u64, budget: &CostBudget) {
        // If nothing remains, the next evaluation fails.
        let _ = self.0.take(granted.saturating_sub(budget.left()));
    }

    /// Takes what a binding has used of its budget.
    pub(super) fn charge(&mut self, budget: &BindingBudget) {
        let _ = self.0.take(budget.granted.saturating_sub(budget.left()));
    }

    /// Takes the cost of visiting objects of this size, which is computed only if something is left.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn visit(&mut self, size: impl FnOnce() -> u64) -> Result<(), OutOfBudget> {
        visit(&mut self.0, size)
    }

    /// Takes the cost of decoding an object of this many bytes: one for each byte. An object of many small values takes about 40 ns for
    /// each byte.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn decode(&mut self, bytes: usize) -> Result<(), OutOfBudget> {
        self.0.take(bytes as u64)
    }
}

fn visit(budget: &mut CostBudget, size: impl FnOnce() -> u64) -> Result<(), OutOfBudget> {
    if budget.left() == 0 {
        return Err(OutOfBudget);
    }
    budget.take(size().saturating_mul(VISITS))
}

/// The size of objects, for [`PhaseBudget::visit`].
pub(crate) fn size(objects: [Option<&Object>; 2]) -> u64 {
    objects.into_iter().flatten().flat_map(|object| object.0.values()).map(weight).sum()
}

/// The size of parameters, for [`PhaseBudget::visit`].
pub(super) fn size_of_params(params: &[Option<Value>]) -> u64 {
    params.iter().flatten().map(weight).sum()
}

/// The cost that the expressions of a binding may have with all its parameters (upstream: with each parameter).
pub(super) struct BindingBudget {
    granted: u64,
    pub(super) conditions: CostBudget,
    /// For everything but match conditions.
    pub(super) rules: CostBudget,
    /// For visiting objects.
    visits: CostBudget,
}

impl BindingBudget {
    fn left(&self) -> u64 {
        self.conditions.left() + self.rules.left() + self.visits.left()
    }

    /// Takes the cost of visiting objects of this size, which is computed only if something is left.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn visit(&mut self, size: impl FnOnce() -> u64) -> Result<(), OutOfBudget> {
        visit(&mut self.visits, size)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bindings_share_the_budget_of_a_phase() {
        let mut phase = PhaseBudget::default();
        let mut count = 0;
        loop {
            let mut budget = phase.binding();
            if budget.rules.left() < CostBudget::of_policy().left() {
                break;
            }
            budget.rules.take(5_000_000).expect("it is left");
            phase.charge(&budget);
            count += 1;
        }
        assert_eq!(count, 19, "the whole budget is 20 times as much, and a binding may use twice as much");
    }

    #[test]
    fn visits_of_objects_cost_their_size() {
        let object = Object::from_value(json!({"list": vec![0; 100_000]}));
        let mut phase = PhaseBudget::default();
        let mut sizes = 0;
        let mut visit = || {
            phase.visit(|| {
                sizes += 1;
                size([Some(&object), None])
            })
        };
        let visits = (0..1_000).filter(|_| visit().is_ok()).count();
        assert!((90..=100).contains(&visits), "{visits}");
        assert_eq!(sizes, visits + 1, "nothing is computed for an exhausted budget");
        assert_eq!(phase.binding().rules.left(), 0);
    }
}
