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
        match (self.get(key), self.shared.set_aside.lock().get(key)) {
            (None, Some(object)) => Err(object.clone()),
            (cached, _) => Ok(cached),
        }
    }

    /// Succeeds if the cache contains the current version of every object. A controller that deletes something because no object refers
    /// to it checks this before.
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
        if self.get_kept(key).is_some_and(|cached| *cached.uid() != uid) {
            self.delete(key);
        }
        if let Some(reporter) = self.shared.reporter.get() {
            reporter.add(key, &object.error);
        }
        let text = object.to_string();
        let known = self.shared.set_aside.lock().insert(Arc::clone(key), object);
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
        contained("deletion", key, || {
            self.forget_aside(key);
            let handlers = self.handlers();
            let change = self.write().take(key, None);
            change.iter().for_each(|change| super::deliver_all(&handlers, change));
        });
    }
}

#[cfg(test)]
mod tests;
