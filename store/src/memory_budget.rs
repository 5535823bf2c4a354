//! The memory that a server holds for its clients: request bodies, parsed objects, responses, pages of the log, and the
//! backlogs of watches. All of them share one limit.
//!
//! Code reserves memory whose size a client chooses before it allocates it. A reservation that does not fit is refused, and the
//! caller rejects the request or ends the watch: an allocation never fails in the middle of other work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit in bytes, and the bytes in use.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
    refused: AtomicU64,
    /// The budget that this one is a part of.
    whole: Option<Arc<MemoryBudget>>,
}

/// A reservation does not fit into the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed} bytes of memory are needed, and {free} of {limit} are free")]
pub struct OutOfMemory {
    /// The requested bytes.
    pub needed: u64,
    /// The free bytes.
    pub free: u64,
    /// The limit.
    pub limit: u64,
}

impl OutOfMemory {
    /// Whether the request does not fit even if nothing else is held.
    pub fn is_permanent(&self) -> bool {
        self.needed > self.limit
    }
}

impl MemoryBudget {
    /// A budget of this many bytes; 0 means no limit.
    pub fn new(limit: u64) -> Arc<Self> {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Self::with(limit, None)
    }

    /// Half of a budget: its reservations are reservations of the whole budget, whose other half stays free for others.
    pub fn half_of(whole: &Arc<Self>) -> Arc<Self> {
        let limit = if whole.limit == u64::MAX { u64::MAX } else { whole.limit / 2 };
        Self::with(limit, Some(whole.clone()))
    }

    fn with(limit: u64, whole: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(MemoryBudget { limit, used: AtomicU64::new(0), refused: AtomicU64::new(0), whole })
    }

    /// The limit in bytes; `None` if there is none.
    pub fn limit(&self) -> Option<u64> {
        (self.limit < u64::MAX).then_some(self.limit)
    }

    /// The reserved bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The number of refused reservations so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts more bytes of a reservation that then has `needed` bytes.
    fn take(&self, more: u64, needed: u64) -> Result<(), OutOfMemory> {
        let fits = |used: u64| used.checked_add(more).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|used| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            OutOfMemory { needed, free: self.limit.saturating_sub(used), limit: self.limit }
        })?;
        let Some(whole) = &self.whole else { return Ok(()) };
        whole.take(more, needed).inspect_err(|_| {
            self.used.fetch_sub(more, Ordering::Relaxed);
        })
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }

    /// Reserves memory until the result is dropped.
    ///
    /// # Errors
    /// The limit would be exceeded.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<ReservedMemory, OutOfMemory> {
        let mut reserved = ReservedMemory { budget: self.clone(), bytes: 0 };
        reserved.resize(bytes)?;
        Ok(reserved)
    }
}

/// Reserved memory. Dropping it returns the memory to the budget.
#[derive(Debug)]
pub struct ReservedMemory {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl ReservedMemory {
    /// The reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more bytes.
    ///
    /// # Errors
    /// The limit would be exceeded; the reservation stays as it is.
    pub fn grow(&mut self, more: u64) -> Result<(), OutOfMemory> {
        self.resize(self.bytes.saturating_add(more))
    }

    /// Changes the size of the reservation. A smaller one never fails.
    ///
    /// # Errors
    /// As for [`grow`](Self::grow).
    pub fn resize(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        match self.bytes.checked_sub(bytes) {
            Some(less) => self.budget.give_back(less),
            None => self.budget.take(bytes - self.bytes, bytes)?,
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn reservations_share_the_limit() {
        let budget = MemoryBudget::new(100);
        let mut one = budget.reserve(60).unwrap();
        let refused = budget.reserve(50).unwrap_err();
        assert_eq!((refused.needed, refused.free, refused.is_permanent()), (50, 40, false));
        let two = budget.reserve(40).unwrap();
        assert_eq!((one.grow(1).is_err(), one.bytes(), budget.used(), budget.refused()), (true, 60, 100, 2));
        drop(two);
        one.grow(40).unwrap();
        one.resize(10).unwrap();
        assert_eq!(budget.used(), 10);
        assert!(one.resize(101).unwrap_err().is_permanent());
        drop(one);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn half_of_a_budget_stays_free_for_others() {
        let whole = MemoryBudget::new(100);
        let part = MemoryBudget::half_of(&whole);
        let mut one = part.reserve(45).unwrap();
        assert_eq!((part.reserve(6).unwrap_err().limit, whole.used()), (50, 45));
        let other = whole.reserve(53).unwrap();
        assert_eq!((one.grow(3).unwrap_err().limit, part.used(), whole.used()), (100, 45, 98));
        one.grow(2).unwrap();
        one.resize(10).unwrap();
        assert_eq!((part.used(), whole.used()), (10, 63));
        drop((one, other));
        assert_eq!((part.used(), whole.used()), (0, 0));
        assert_eq!(MemoryBudget::half_of(&MemoryBudget::new(0)).limit(), None);
    }

    #[test]
    fn zero_is_no_limit() {
        let budget = MemoryBudget::new(0);
        let huge = budget.reserve(u64::MAX / 2).unwrap();
        assert_eq!((budget.limit(), huge.bytes()), (None, u64::MAX / 2));
        assert!(budget.reserve(u64::MAX).is_err(), "the sum overflows");
    }
}
