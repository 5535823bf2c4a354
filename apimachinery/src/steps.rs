//! A bound on the work that one input may cause.
//!
//! Some operations cost more than their input is long: a patch that inserts at the front of a list moves the whole
//! list, and a merge visits both lists. Such code spends steps for what it visits, and stops with an error when none
//! are left. A step is roughly one visited value, so a million steps take about ten milliseconds.

use std::cell::Cell;

/// The steps that an operation may still take. Not shared between threads: each operation has its own.
#[derive(Debug)]
pub struct Steps {
    left: Cell<u64>,
}

/// The operation needs more steps than it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operation needs more steps than are allowed")]
pub struct OutOfSteps;

impl Steps {
    /// A number of steps.
    pub const fn new(count: u64) -> Self {
        Self { left: Cell::new(count) }
    }

    /// Takes `count` steps.
    ///
    /// # Errors
    /// Fewer steps remain. Every later call fails too.
    pub fn take(&self, count: usize) -> Result<(), OutOfSteps> {
        let left = self.left.get().checked_sub(count as u64);
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or(OutOfSteps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_steps_stay_exhausted() {
        let steps = Steps::new(3);
        assert_eq!(steps.take(2), Ok(()));
        assert_eq!(steps.take(2), Err(OutOfSteps));
        assert_eq!(steps.take(1), Err(OutOfSteps));
    }
}
