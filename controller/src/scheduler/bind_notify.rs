//! Notifications about changes of single objects. A change wakes only the listeners of that object.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// An object to listen to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BindWait {
    /// A pod, by key.
    Pod(String),
    /// A node.
    Node(String),
    /// A claim, by key.
    Claim(String),
    /// A volume.
    Volume(String),
}

type Waiting = Arc<Mutex<HashMap<BindWait, Vec<Arc<Notify>>>>>;

/// Notifies tasks of changes. Clones share the listeners.
#[derive(Clone, Default)]
pub struct BindNotifier {
    waiting: Waiting,
}

/// Waits for changes of some objects, until it is dropped.
pub struct Listener {
    waiting: Waiting,
    objects: Vec<BindWait>,
    notify: Arc<Notify>,
}

impl BindNotifier {
    /// Starts to listen to these objects. No later change is missed.
    pub fn listen(&self, objects: Vec<BindWait>) -> Listener {
        let notify = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock();
        for object in &objects {
            waiting.entry(object.clone()).or_default().push(Arc::clone(&notify));
        }
        Listener { waiting: Arc::clone(&self.waiting), objects, notify }
    }

    /// Notifies the listeners of an object that it changed.
    pub fn notify(&self, object: &BindWait) {
        let waiting = self.waiting.lock();
        waiting.get(object).into_iter().flatten().for_each(|notify| notify.notify_one());
    }
}

impl Listener {
    /// Waits for the first change since the last call.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        for object in &self.objects {
            if let Some(list) = waiting.get_mut(object) {
                list.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
                if list.is_empty() {
                    waiting.remove(object);
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
    async fn change_wakes_exactly_its_listeners_and_is_never_missed() {
        let bind_notify = BindNotifier::default();
        let node = BindWait::Node("n".to_owned());
        let listener = bind_notify.listen(vec![node.clone(), BindWait::Pod("p".to_owned())]);
        bind_notify.notify(&BindWait::Node("m".to_owned()));
        let second = Duration::from_secs(1);
        assert!(tokio::time::timeout(second, listener.changed()).await.is_err());
        bind_notify.notify(&node);
        assert!(
            tokio::time::timeout(second, listener.changed()).await.is_ok(),
            "changed before it was waited for"
        );
        drop(listener);
        assert!(bind_notify.waiting.lock().is_empty());
    }
}
