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
    /// It could not be opened anew, for this reason.
    Lost(&'static str),
    /// The store is closed.
    Closed,
}

impl Slot {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        Slot { state: Mutex::new(State::Open(served)), changed: Condvar::new() }
    }

    /// The copy. Waits while it is being changed; the error says why there is none.
    pub(crate) fn get(&self) -> Result<Arc<Served>, &'static str> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Open(served) => return Ok(served.clone()),
                State::Lost(why) => return Err(why),
                State::Closed => return Err("the store is closed"),
                State::Changing => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    pub(crate) fn set(&self, served: Arc<Served>) {
        self.put(State::Open(served));
    }

    /// There is none for now, or for good: readers are told why.
    pub(crate) fn lose(&self, why: &'static str) {
        self.put(State::Lost(why));
    }

    /// From now on readers wait for [`set`](Self::set) or [`lose`](Self::lose).
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn who_waits_is_told() {
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
