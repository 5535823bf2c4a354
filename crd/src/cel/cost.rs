//! Cost limits of expressions, and the failures of an evaluation.

use super::pattern_cache::PatternCache;

/// Maximum cost of one expression, as upstream; a step costs 1.
pub(super) const PER_RULE: u64 = 1_000_000;
/// Maximum cost of all expressions for one object.
const PER_OBJECT: u64 = 10_000_000;

/// The remaining cost budget of an object.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new() -> Self {
        Budget(PER_OBJECT)
    }

    /// A budget of this cost.
    pub(crate) fn of(cost: u64) -> Self {
        Budget(cost)
    }

    /// What is left.
    pub(crate) fn left(&self) -> u64 {
        self.0
    }

    /// Subtracts the cost of work outside an evaluation. If too little is left, the next evaluation fails.
    pub(crate) fn take(&mut self, cost: u64) {
        self.0 = self.0.saturating_sub(cost);
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
    /// The cost of separate evaluations.
    elsewhere: u64,
    /// The part of the cost that was paid for the arguments of a call, and that its function has not used yet.
    prepaid: u64,
    /// The patterns that the expression has compiled.
    pub(super) patterns: PatternCache,
}

impl Meter {
    pub(super) fn new(budget: &Budget) -> Self {
        Meter { spent: 0, left: budget.0, elsewhere: 0, prepaid: 0, patterns: PatternCache::default() }
    }

    /// Subtracts the measured cost from the budget of the object.
    pub(super) fn charge(&self, budget: &mut Budget) {
        budget.take(self.spent + self.elsewhere);
    }

    /// Returns what is left of the budget of the object.
    pub(super) fn remaining(&self) -> Budget {
        Budget(self.left.saturating_sub(self.spent))
    }

    /// Replaces what is left of the budget of the object, after a separate evaluation.
    pub(super) fn replace_remaining(&mut self, budget: &Budget) {
        self.elsewhere += self.left.saturating_sub(self.spent).saturating_sub(budget.0);
        self.left = self.spent + budget.0;
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

    /// Pays a cost before the work is done.
    pub(super) fn prepay(&mut self, cost: u64) -> Result<()> {
        self.pay(cost)?;
        self.prepaid += cost;
        Ok(())
    }

    /// Pays for work, as far as it is not prepaid.
    pub(super) fn work(&mut self, cost: u64) -> Result<()> {
        let prepaid = self.prepaid.min(cost);
        self.prepaid -= prepaid;
        self.pay(cost - prepaid)
    }

    /// Ends a call: what was prepaid for it and not used is lost.
    pub(super) fn end_call(&mut self) {
        self.prepaid = 0;
    }
}
