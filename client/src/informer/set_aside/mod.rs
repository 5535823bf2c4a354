//! Objects that exist and cannot be decoded.
//!
//! Such an object is set aside: its handlers are not called, and the other objects of its kind are not affected (I12). If the cache
//! contains an earlier version, that version stays, because the object exists. Otherwise the cache does not contain the object, although it
//! exists; see [`Informer::find`]. The object leaves this state when a later version can be decoded, or when it is deleted.

use std::sync::Arc;

use super::Informer;
use super::list::Listed;
use super::store::contained;
use crate::api::Object;
use crate::uid::Uid;
use crate::watcher::Undecodable;

impl<K: Object> Informer<K> {
    /// The cached object with this key; `None` if no object with this key exists. A controller that deletes something because an object
    /// does not exist uses this instead of [`get`](Self::get).
    ///
    /// # Errors
    /// The object exists, and no version of it could be decoded.
    pub fn find(&self, key: &str) -> Result<Option<Arc<K>>, Undecodable> {
        // In this order: an object is cached before it leaves `set_aside`.
        let aside = self.shared.set_aside.lock().get(key).cloned();
        match (self.get(key), aside) {
            (None, Some(object)) => Err(object),
            (cached, _) => Ok(cached),
        }
    }

    /// Succeeds if the cache contains the current version of every object. A controller that deletes something because no object refers
    /// to it checks this before it reads the objects: one that is decoded in between is then among them.
    ///
    /// # Errors
    /// The current version of this object could not be decoded.
    pub fn all_decoded(&self) -> Result<(), Undecodable> {
        match self.shared.set_aside.lock().values().next() {
            Some(object) => Err(object.clone()),
            None => Ok(()),
        }
    }

    /// The objects whose current version cannot be decoded, by key.
    pub fn set_aside(&self) -> Vec<Undecodable> {
        self.shared.set_aside.lock().values().cloned().collect()
    }

    /// Sets an object of a list aside.
    pub(super) fn collect_undecodable(&self, listed: &mut Listed<K>, object: Undecodable) {
        let key: Arc<str> = object.key.as_str().into();
        self.put_aside(&key, object);
        listed.set_aside(key);
    }

    /// Sets an object aside.
    pub(super) fn put_aside(&self, key: &Arc<str>, object: Undecodable) {
        // The cached object was deleted if another one has its name.
        let uid = Uid::from(object.uid.as_str());
        let is_replaced = self.get_kept(key).is_some_and(|cached| *cached.uid() != uid);
        let known = self.shared.set_aside.lock().insert(Arc::clone(key), object.clone());
        if is_replaced {
            // Only now: the handlers find that the new object exists.
            self.drop_cached(key);
        }
        if known.as_ref() == Some(&object) {
            // Listed again: each version is one failure.
            return;
        }
        if let Some(reporter) = self.shared.reporter.get() {
            reporter.add(key, &object.error);
        }
        let text = object.to_string();
        match known {
            None => tracing::warn!(kind = std::any::type_name::<K>(), "an object is set aside: {text}"),
            Some(_) => {
                tracing::debug!(kind = std::any::type_name::<K>(), "an object stays set aside: {text}")
            }
        }
    }

    /// Removes an object that was set aside and whose current version can be decoded.
    pub(super) fn take_back(&self, key: &str) {
        if self.shared.set_aside.lock().remove(key).is_none() {
            return;
        }
        if let Some(reporter) = self.shared.reporter.get() {
            reporter.decoded(key);
        }
    }

    /// Removes an object that was set aside and does not exist any more.
    pub(super) fn forget_aside(&self, key: &str) {
        if self.shared.set_aside.lock().remove(key).is_none() {
            return;
        }
        if let Some(reporter) = self.shared.reporter.get() {
            reporter.deleted(key);
        }
    }

    /// Removes the objects that were set aside and that a complete list does not contain.
    pub(super) fn forget_unlisted(&self, is_listed: impl Fn(&Arc<str>) -> bool) {
        let unlisted: Vec<Arc<str>> =
            self.shared.set_aside.lock().keys().filter(|key| !is_listed(key)).cloned().collect();
        unlisted.iter().for_each(|key| self.forget_aside(key));
    }

    /// Removes an object that no longer exists and whose last state is unknown.
    pub(super) fn delete(&self, key: &Arc<str>) {
        self.forget_aside(key);
        self.drop_cached(key);
    }

    /// Removes an object from the cache and calls the handlers.
    fn drop_cached(&self, key: &Arc<str>) {
        contained("deletion", key, || {
            let handlers = self.handlers();
            let change = self.write().take(key, None);
            change.iter().for_each(|change| super::deliver_all(&handlers, change));
        });
    }
}

#[cfg(test)]
mod tests;
