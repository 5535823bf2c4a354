//! Where readers find the served copy, which may be changed for another one under them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::sled::Served;

/// The place of the served copy.
pub(crate) struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Open(Arc<Served>),
    /// It is being opened anew; there will be one soon.
    Changing,
    /// The store is closed.
    Closed,
}

impl Slot {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        Slot { state: Mutex::new(State::Open(served)), changed: Condvar::new() }
    }

    /// The copy. Waits while it is being changed; `None` once the store is closed.
    pub(crate) fn get(&self) -> Option<Arc<Served>> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Open(served) => return Some(served.clone()),
                State::Closed => return None,
                State::Changing => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    pub(crate) fn set(&self, served: Arc<Served>) {
        self.put(State::Open(served));
    }

    /// From now on readers wait for [`set`](Self::set).
    pub(crate) fn change(&self) {
        self.put(State::Changing);
    }

    pub(crate) fn close(&self) {
        self.put(State::Closed);
    }

    fn put(&self, next: State) {
        // What was there is dropped outside the lock: it may be the last one, and that takes time.
        let before = std::mem::replace(&mut *self.lock(), next);
        self.changed.notify_all();
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
