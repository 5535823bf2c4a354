//! Who waits for a change of which object. A ring wakes only those that asked for that object.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// An object whose changes somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bell {
    /// A pod, by key.
    Pod(String),
    /// A node.
    Node(String),
    /// A claim, by key.
    Claim(String),
    /// A volume.
    Volume(String),
}

type Waiting = Arc<Mutex<HashMap<Bell, Vec<Arc<Notify>>>>>;

/// All bells. Clones share them.
#[derive(Clone, Default)]
pub struct Bells {
    waiting: Waiting,
}

/// Waits for some bells; dropping it ends that.
pub struct Listener {
    waiting: Waiting,
    bells: Vec<Bell>,
    notify: Arc<Notify>,
}

impl Bells {
    /// Begins to wait for these. A ring from now on is not missed.
    pub fn listen(&self, bells: Vec<Bell>) -> Listener {
        let notify = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in &bells {
            waiting.entry(bell.clone()).or_default().push(Arc::clone(&notify));
        }
        Listener { waiting: Arc::clone(&self.waiting), bells, notify }
    }

    /// The object has changed.
    pub fn ring(&self, bell: &Bell) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.get(bell).into_iter().flatten().for_each(|notify| notify.notify_one());
    }
}

impl Listener {
    /// Ends at the first ring since the last call.
    pub async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in &self.bells {
            if let Some(list) = waiting.get_mut(bell) {
                list.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
                if list.is_empty() {
                    waiting.remove(bell);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_those_who_asked_are_woken_and_nobody_misses_a_ring() {
        let bells = Bells::default();
        let node = Bell::Node("n".to_owned());
        let listener = bells.listen(vec![node.clone(), Bell::Pod("p".to_owned())]);
        bells.ring(&Bell::Node("m".to_owned()));
        let second = Duration::from_secs(1);
        assert!(tokio::time::timeout(second, listener.rung()).await.is_err());
        bells.ring(&node);
        assert!(tokio::time::timeout(second, listener.rung()).await.is_ok(), "rung before it was waited for");
        drop(listener);
        assert!(bells.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
    }
}
