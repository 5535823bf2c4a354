//! What is known beyond the caches: what was written a moment ago, which volumes are being let go, and which attachments
//! the driver's own list speaks against. All of it may be forgotten at any time; a restart begins without it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::storage::v1::VolumeAttachment;

use orlop_client::informer::Informer;
use orlop_client::uid::Uid;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn version(attachment: &VolumeAttachment) -> Option<u64> {
    attachment.metadata.resource_version.as_deref()?.parse().ok()
}

/// Attachments as they were written, until the cache has them: else every attachment would be looked at once more as it
/// was before, and the driver asked again.
#[derive(Default)]
pub(super) struct Latest {
    written: Mutex<HashMap<String, Arc<VolumeAttachment>>>,
}

impl Latest {
    /// The newest state that is known.
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

    /// Remembers what was written, unless the cache is as far.
    pub(super) fn put(&self, cache: &Informer<VolumeAttachment>, own: VolumeAttachment) {
        let name = own.metadata.name.clone().unwrap_or_default();
        let mut written = locked(&self.written);
        // Under the lock: the cache tells of a change after it has it, so either is seen.
        if cache.get(&name).is_some_and(|cached| is_newer(&own, &cached)) {
            written.insert(name, Arc::new(own));
        }
    }

    /// The cache has got this, or has lost it.
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

/// Volumes whose finalizer is being taken away. An attachment that is made in this moment sees it here, or is itself seen
/// by who takes the finalizer: one of both comes first.
#[derive(Default)]
pub(super) struct LetGo {
    volumes: Mutex<HashSet<Uid>>,
}

impl LetGo {
    pub(super) fn put(&self, volume: Option<&str>) {
        locked(&self.volumes).insert(Uid::from(volume.unwrap_or_default()));
    }

    pub(super) fn has(&self, volume: Option<&str>) -> bool {
        volume.is_some_and(|uid| locked(&self.volumes).contains(&Uid::from(uid)))
    }

    /// Somebody else uses it after all, or it is gone.
    pub(super) fn forget(&self, volume: &Uid) {
        locked(&self.volumes).remove(volume);
    }
}

/// What a driver's list says against an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Lists in a row that said so.
    rounds: u32,
    /// The driver has not been asked again since the last one.
    due: bool,
    words: String,
}

/// A doubt that is due: what to tell on the attachment, when asking again has not helped before.
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
    /// A list speaks against an attachment.
    pub(super) fn raise(&self, name: &str, words: String) {
        let mut known = locked(&self.known);
        let rounds = known.get(name).map_or(0, |doubt| doubt.rounds) + 1;
        known.insert(name.to_owned(), Doubt { rounds, due: true, words });
    }

    /// A list agrees. True when the attachment tells of a doubt and should be looked at again.
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

    /// Takes what is due: the driver is asked once per list.
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
    fn what_was_written_holds_until_the_cache_has_it() {
        let (cache, latest) = (Informer::new(), Latest::default());
        let seen =
            |latest: &Latest| latest.get(&cache, "a").and_then(|a| a.metadata.resource_version.clone());
        assert_eq!(seen(&latest), None);
        latest.put(&cache, attachment("u", 2));
        assert_eq!(seen(&latest), None, "one that is not in the cache is gone");
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
    fn a_doubt_is_due_once_per_list_and_told_the_second_time() {
        let doubts = Doubts::default();
        assert_eq!(doubts.take("a"), None);
        doubts.raise("a", "w".to_owned());
        assert_eq!(doubts.take("a"), Some(Due { words: None }));
        assert_eq!(doubts.take("a"), None);
        doubts.raise("a", "w".to_owned());
        assert_eq!(doubts.take("a"), Some(Due { words: Some("w".to_owned()) }));
        assert!(doubts.settle("a"), "the words are taken away again");
        assert_eq!(doubts.take("a"), Some(Due { words: None }));
        assert!(!doubts.settle("a"));
        assert!(locked(&doubts.known).is_empty());
    }
}
