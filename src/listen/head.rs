//! The memory of an incomplete head of a request.

use std::sync::Arc;

use orlop_store::{MemoryBudget, OutOfMemory, ReservedMemory};

use super::HEAD_MAX;

/// The received part of the head of the next request. On HTTP/2, all frames between requests.
#[derive(Debug, Default)]
pub(super) struct Head {
    bytes: u64,
    memory: Option<ReservedMemory>,
}

/// Heads up to this size are part of the memory of a connection, bytes.
const HEAD_UNCOUNTED: u64 = 8 << 10;

impl Head {
    /// Counts received bytes.
    ///
    /// # Errors
    /// The memory for heads is exhausted.
    pub(super) fn add(&mut self, received: usize, budget: &Arc<MemoryBudget>) -> Result<(), OutOfMemory> {
        // Later frames of an HTTP/2 connection occupy the same buffers.
        self.bytes = (self.bytes + received as u64).min(HEAD_MAX as u64);
        if self.bytes <= HEAD_UNCOUNTED {
            return Ok(());
        }
        // Buffers double in size.
        let needed = self.bytes.next_power_of_two();
        match &mut self.memory {
            Some(memory) => memory.resize(needed),
            None => {
                self.memory = Some(budget.reserve(needed)?);
                Ok(())
            }
        }
    }
}
