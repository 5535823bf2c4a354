//! Cost limits of expressions, and the failures of an evaluation.

/// Maximum cost of one expression, as upstream; a step costs 1.
const PER_RULE: u64 = 1_000_000;
/// Maximum cost of all expressions for one object.
const PER_OBJECT: u64 = 10_000_000;

/// The remaining cost budget of an object.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new() -> Self {
        Budget(PER_OBJECT)
    }
}

/// The reason why an expression returns no value.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// The evaluation failed: `no such key: foo`.
    Error(String),
    /// The cost exceeds the limit of one expression.
    RuleTooCostly,
    /// The budget of the object is exhausted.
    ObjectTooCostly,
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

pub(super) fn fail<T>(why: impl Into<String>) -> Result<T> {
    Err(Failure::Error(why.into()))
}

/// Measures the cost of one expression.
pub(super) struct Meter {
    spent: u64,
    left: u64,
}

impl Meter {
    pub(super) fn new(budget: &Budget) -> Self {
        Meter { spent: 0, left: budget.0 }
    }

    /// Subtracts the measured cost from the budget of the object.
    pub(super) fn charge(&self, budget: &mut Budget) {
        budget.0 = budget.0.saturating_sub(self.spent);
    }

    pub(super) fn pay(&mut self, cost: u64) -> Result<()> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > PER_RULE {
            return Err(Failure::RuleTooCostly);
        }
        if self.spent > self.left {
            return Err(Failure::ObjectTooCostly);
        }
        Ok(())
    }
}
