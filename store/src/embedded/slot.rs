//! The current served copy, which can be replaced while readers use it.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

use super::sled::Served;

/// Holds the served copy.
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

enum SlotState {
    Open(Arc<Served>),
    /// The copy is being reopened or replaced.
    Changing,
    /// The copy could not be reopened, for this reason.
    Lost(&'static str),
    /// The store is closed.
    Closed,
}

impl Slot {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        Slot { state: Mutex::new(SlotState::Open(served)), changed: Condvar::new() }
    }

    /// Returns the copy. Waits while it is being replaced; the error is the reason why there is none.
    pub(crate) fn get(&self) -> Result<Arc<Served>, &'static str> {
        let mut state = self.lock();
        loop {
            match &*state {
                SlotState::Open(served) => return Ok(served.clone()),
                SlotState::Lost(why) => return Err(why),
                SlotState::Closed => return Err("the store is closed"),
                SlotState::Changing => self.changed.wait(&mut state),
            }
        }
    }

    pub(crate) fn set(&self, served: Arc<Served>) {
        self.put(SlotState::Open(served));
    }

    /// Removes the copy, temporarily or permanently; readers get the reason.
    pub(crate) fn lose(&self, why: &'static str) {
        self.put(SlotState::Lost(why));
    }

    /// Makes readers wait for [`set`](Self::set) or [`lose`](Self::lose).
    pub(crate) fn change(&self) {
        self.put(SlotState::Changing);
    }

    pub(crate) fn close(&self) {
        self.put(SlotState::Closed);
    }

    fn put(&self, next: SlotState) {
        // The previous copy is dropped outside the lock: this may be its last reference, and closing it is slow.
        let before = std::mem::replace(&mut *self.lock(), next);
        self.changed.notify_all();
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn waiting_reader_gets_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Arc::new(Served::open(dir.path(), std::time::Duration::from_secs(10)).unwrap());
        let slot = Slot::new(open());
        assert!(slot.get().is_ok());
        std::thread::scope(|scope| {
            slot.change();
            let waiting = scope.spawn(|| slot.get().map(drop));
            slot.lose("no room");
            assert_eq!(waiting.join().unwrap(), Err("no room"));
        });
        assert_eq!(slot.get().map(drop), Err("no room"));
        slot.set(open());
        assert!(slot.get().is_ok(), "it is there again");
        slot.close();
        assert_eq!(slot.get().map(drop), Err("the store is closed"));
    }
}
