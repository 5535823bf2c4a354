//! The cost of expressions, and why an expression has no value.

/// What one expression may cost, as upstream has it: a step is one.
const PER_RULE: u64 = 1_000_000;
/// What all expressions for one object may cost.
const PER_OBJECT: u64 = 10_000_000;

/// What is left to be spent on an object.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new() -> Self {
        Budget(PER_OBJECT)
    }
}

/// Why an expression has no value.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// It failed: `no such key: foo`.
    Error(String),
    /// It costs more than one expression may.
    RuleTooCostly,
    /// There is nothing left for this object.
    ObjectTooCostly,
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

pub(super) fn fail<T>(why: impl Into<String>) -> Result<T> {
    Err(Failure::Error(why.into()))
}

/// Counts the steps of one expression.
pub(super) struct Meter {
    spent: u64,
    left: u64,
}

impl Meter {
    pub(super) fn new(budget: &Budget) -> Self {
        Meter { spent: 0, left: budget.0 }
    }

    /// Subtracts the steps from the budget of the object.
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
