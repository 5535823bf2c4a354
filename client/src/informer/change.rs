//! One change of an object, as handlers receive it.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::api::Object;
use crate::packed_object::PackedObject;
use crate::uid::Uid;

/// A change of one object: the cached state before (for a deletion: the last state) and the state now. Under one key the UIDs may
/// differ, if a deletion and a creation were observed as one step.
pub struct Change<K> {
    key: Arc<str>,
    pub(super) old: Option<PackedObject<K>>,
    /// `old`, decoded by the first handler that needs it.
    decoded: OnceCell<Arc<K>>,
    /// The new state; `None` for a deleted object.
    pub new: Option<Arc<K>>,
    pub(super) kept: Option<PackedObject<K>>,
    pub(super) left: Vec<(&'static str, Box<str>)>,
}

impl<K> Change<K> {
    /// The cache key of the object, see [`key_of`].
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Whether no object with this key was cached before.
    pub fn is_new(&self) -> bool {
        self.old.is_none()
    }

    /// Whether no object with this key exists any longer.
    pub fn is_gone(&self) -> bool {
        self.new.is_none()
    }

    /// Whether old and new are different objects with the same name.
    pub fn replaced(&self) -> bool {
        match (&self.old, &self.kept) {
            (Some(old), Some(new)) => old.uid() != new.uid(),
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }

    /// The UID of an object that no longer exists: it was deleted, or another object has its name.
    pub fn gone_uid(&self) -> Option<&Uid> {
        self.old.as_ref().map(PackedObject::uid).filter(|_| self.is_gone() || self.replaced())
    }

    /// The new state in its cached form; `None` for a deleted object.
    pub fn kept(&self) -> Option<&PackedObject<K>> {
        self.kept.as_ref()
    }

    /// The values that the object had in this index before the change and no longer has.
    pub fn left(&self, index: &str) -> impl Iterator<Item = &str> {
        self.left.iter().filter(move |(name, _)| *name == index).map(|(_, value)| value.as_ref())
    }
}

impl<K: Object> Change<K> {
    /// The old state; `None` for a new object. May decode the object.
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
