//! State beyond the caches: the latest writes, the volumes whose finalizer is being removed, and the attachments that the
//! driver's own list contradicts. All of it may be lost at any time; a restart begins without it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::storage::v1::VolumeAttachment;

use orlop_client::informer::Informer;
use orlop_client::uid::Uid;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn version(attachment: &VolumeAttachment) -> Option<u64> {
    attachment.metadata.resource_version.as_deref()?.parse().ok()
}

/// Attachments as last written, until the cache has caught up. Without it, every attachment would be synced again from
/// its old state, and the driver called again.
#[derive(Default)]
pub(super) struct Latest {
    written: Mutex<HashMap<String, Arc<VolumeAttachment>>>,
}

impl Latest {
    /// The newest known state.
    pub(super) fn get(
        &self,
        cache: &Informer<VolumeAttachment>,
        name: &str,
    ) -> Option<Arc<VolumeAttachment>> {
        let mut written = locked(&self.written);
        let cached = cache.get(name);
        match (cached, written.get(name)) {
            (Some(cached), Some(own)) if is_newer(own, &cached) => Some(Arc::clone(own)),
            (cached, _) => {
                written.remove(name);
                cached
            }
        }
    }

    /// Stores a written object, unless the cache is as new.
    pub(super) fn put(&self, cache: &Informer<VolumeAttachment>, own: VolumeAttachment) {
        let name = own.metadata.name.clone().unwrap_or_default();
        let mut written = locked(&self.written);
        // Under the lock: the cache notifies after it has stored a change, so one of the two is seen.
        if cache.get(&name).is_some_and(|cached| is_newer(&own, &cached)) {
            written.insert(name, Arc::new(own));
        }
    }

    /// The cache has received or deleted this object.
    pub(super) fn cached(&self, name: &str, now: Option<&VolumeAttachment>) {
        let mut written = locked(&self.written);
        let still = now.is_some_and(|now| written.get(name).is_some_and(|own| is_newer(own, now)));
        if !still {
            written.remove(name);
        }
    }
}

fn is_newer(own: &VolumeAttachment, cached: &VolumeAttachment) -> bool {
    own.metadata.uid == cached.metadata.uid && version(own) > version(cached)
}

/// Volumes whose finalizer is being removed. Either a new attachment finds its volume here, or the sync that removes the
/// finalizer finds the attachment.
#[derive(Default)]
pub(super) struct ReleasedVolumes {
    volumes: Mutex<HashSet<Uid>>,
}

impl ReleasedVolumes {
    pub(super) fn put(&self, volume: Option<&str>) {
        locked(&self.volumes).insert(Uid::from(volume.unwrap_or_default()));
    }

    pub(super) fn has(&self, volume: Option<&str>) -> bool {
        volume.is_some_and(|uid| locked(&self.volumes).contains(&Uid::from(uid)))
    }

    /// Removes a volume that is in use again or was deleted.
    pub(super) fn forget(&self, volume: &Uid) {
        locked(&self.volumes).remove(volume);
    }
}

/// A contradiction between a driver's list and an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Consecutive lists that contradicted it.
    rounds: u32,
    /// The driver has not been called again since the last list.
    due: bool,
    words: String,
}

/// A doubt that is due: the message for the attachment, if an earlier call did not help.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) words: Option<String>,
}

/// The doubts, by attachment.
#[derive(Default)]
pub(super) struct Doubts {
    known: Mutex<HashMap<String, Doubt>>,
}

impl Doubts {
    /// A list contradicts an attachment.
    pub(super) fn raise(&self, name: &str, words: String) {
        let mut known = locked(&self.known);
        let rounds = known.get(name).map_or(0, |doubt| doubt.rounds) + 1;
        known.insert(name.to_owned(), Doubt { rounds, due: true, words });
    }

    /// A list agrees. True when the attachment shows a doubt and has to be synced.
    pub(super) fn settle(&self, name: &str) -> bool {
        let mut known = locked(&self.known);
        match known.remove(name) {
            Some(doubt) if doubt.rounds > 1 => {
                known.insert(name.to_owned(), Doubt { rounds: 0, due: true, words: String::new() });
                true
            }
            Some(_) | None => false,
        }
    }

    /// Removes and returns a due doubt: the driver is called once per list.
    pub(super) fn take(&self, name: &str) -> Option<Due> {
        let mut known = locked(&self.known);
        let doubt = known.get_mut(name).filter(|doubt| doubt.due)?;
        doubt.due = false;
        let words = (doubt.rounds > 1).then(|| doubt.words.clone());
        Some(Due { words })
    }

    /// The attachment is gone.
    pub(super) fn forget(&self, name: &str) {
        locked(&self.known).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(uid: &str, version: u64) -> VolumeAttachment {
        let text = format!(
            r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}},
                "spec":{{"attacher":"d","nodeName":"n","source":{{}}}}}}"#
        );
        serde_json::from_str(&text).expect("an attachment")
    }

    #[test]
    fn latest_write_is_used_until_the_cache_has_it() {
        let (cache, latest) = (Informer::new(), Latest::default());
        let seen =
            |latest: &Latest| latest.get(&cache, "a").and_then(|a| a.metadata.resource_version.clone());
        assert_eq!(seen(&latest), None);
        latest.put(&cache, attachment("u", 2));
        assert_eq!(seen(&latest), None, "an attachment that is not in the cache is gone");
        cache.apply(attachment("u", 1));
        latest.put(&cache, attachment("u", 2));
        assert_eq!(seen(&latest).as_deref(), Some("2"));
        latest.cached("a", Some(&attachment("u", 1)));
        assert_eq!(seen(&latest).as_deref(), Some("2"));
        cache.apply(attachment("u", 3));
        latest.cached("a", Some(&attachment("u", 3)));
        assert!(locked(&latest.written).is_empty());
        latest.put(&cache, attachment("u", 3));
        assert!(locked(&latest.written).is_empty(), "the cache is as far");
        latest.put(&cache, attachment("other", 9));
        assert_eq!(seen(&latest).as_deref(), Some("3"), "of another attachment of that name");
    }

    #[test]
    fn doubt_is_due_once_per_list_and_reported_the_second_time() {
        let doubts = Doubts::default();
        assert_eq!(doubts.take("a"), None);
        doubts.raise("a", "w".to_owned());
        assert_eq!(doubts.take("a"), Some(Due { words: None }));
        assert_eq!(doubts.take("a"), None);
        doubts.raise("a", "w".to_owned());
        assert_eq!(doubts.take("a"), Some(Due { words: Some("w".to_owned()) }));
        assert!(doubts.settle("a"), "the message has to be removed");
        assert_eq!(doubts.take("a"), Some(Due { words: None }));
        assert!(!doubts.settle("a"));
        assert!(locked(&doubts.known).is_empty());
    }
}
