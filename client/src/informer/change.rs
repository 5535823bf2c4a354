//! One change, as handlers see it.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::api::Object;
use crate::packed_object::PackedObject;
use crate::uid::Uid;

/// What happened to one object: what the cache held (on a deletion: the last state there was), and what it holds now. Under
/// one key the UIDs may differ, when a deletion and a creation were seen as one step.
pub struct Change<K> {
    key: Arc<str>,
    pub(super) old: Option<PackedObject<K>>,
    /// `old`, decoded by the first handler that asks.
    decoded: OnceCell<Arc<K>>,
    /// After; none for a deleted object.
    pub new: Option<Arc<K>>,
    pub(super) kept: Option<PackedObject<K>>,
    pub(super) left: Vec<(&'static str, Box<str>)>,
}

impl<K> Change<K> {
    /// The cache key of the object, see [`key_of`].
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Nothing of this key was there before.
    pub fn is_new(&self) -> bool {
        self.old.is_none()
    }

    /// Nothing of this key is there any more.
    pub fn is_gone(&self) -> bool {
        self.new.is_none()
    }

    /// Old and new are different objects of one name.
    pub fn replaced(&self) -> bool {
        match (&self.old, &self.kept) {
            (Some(old), Some(new)) => old.uid() != new.uid(),
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }

    /// The UID of an object that is there no more: deleted, or another one has its name.
    pub fn gone_uid(&self) -> Option<&Uid> {
        self.old.as_ref().map(PackedObject::uid).filter(|_| self.is_gone() || self.replaced())
    }

    /// After, as it is kept; none for a deleted object.
    pub fn kept(&self) -> Option<&PackedObject<K>> {
        self.kept.as_ref()
    }

    /// Values that the object had in this index before and has no more.
    pub fn left(&self, index: &str) -> impl Iterator<Item = &str> {
        self.left.iter().filter(move |(name, _)| *name == index).map(|(_, value)| value.as_ref())
    }
}

impl<K: Object> Change<K> {
    /// Before; none for a new object. It may have to be decoded.
    pub fn old(&self) -> Option<&Arc<K>> {
        let old = self.old.as_ref()?;
        Some(self.decoded.get_or_init(|| old.get()))
    }

    pub(super) fn of(key: Arc<str>, old: Option<PackedObject<K>>) -> Self {
        Self { key, old, decoded: OnceCell::new(), new: None, kept: None, left: Vec::new() }
    }

    pub(super) fn added(kept: &PackedObject<K>, object: Arc<K>) -> Self {
        let (new, kept_too) = (Some(object), Some(kept.clone()));
        Self { new, kept: kept_too, ..Self::of(Arc::clone(kept.key()), None) }
    }
}
