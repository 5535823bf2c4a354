//! Cached objects. A decoded PersistentVolume takes about five kilobytes, nearly all of them empty fields; its packed JSON takes
//! a quarter of one. So objects that have not changed recently are stored packed, and decoded again when they are used (some
//! microseconds).
//!
//! They are packed with zstd and a dictionary of typical objects (`typical.jsonl`): the common parts of all objects then cost
//! next to nothing. The dictionary exists only in this process and may change at any time; any JSON can be packed with it.

mod written;

pub use written::WrittenObjects;

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::{Arc, LazyLock};

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::api::Object;
use crate::object_key::key_of;
use crate::uid::Uid;

/// The fastest level that uses the dictionary; higher ones save a few bytes and take several times as long.
const LEVEL: i32 = 1;
const TYPICAL: &[u8] = include_bytes!("typical.jsonl");

static ENCODING: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(TYPICAL, LEVEL));
static DECODING: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(TYPICAL));
static PACKER: LazyLock<Mutex<Option<Compressor<'static>>>> =
    LazyLock::new(|| Mutex::new(Compressor::with_prepared_dictionary(&ENCODING).ok()));
static UNPACKER: LazyLock<Mutex<Decompressor<'static>>> = LazyLock::new(|| {
    let unpacker = Decompressor::with_prepared_dictionary(&DECODING);
    Mutex::new(unpacker.expect("a context needs nothing but memory"))
});

#[cfg(debug_assertions)]
thread_local! {
    /// How often this thread read a cached object. Each read may decode.
    pub static GETS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// One version of one object. Clones share it, whether packed or decoded.
pub struct PackedObject<K>(Arc<Inner<K>>);

struct Inner<K> {
    key: Arc<str>,
    uid: Uid,
    version: Option<u64>,
    form: Mutex<Form<K>>,
}

enum Form<K> {
    Whole(Arc<K>),
    Packed(Packed),
}

impl<K> Clone for PackedObject<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for PackedObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.0.key, self.0.uid, self.0.version)
    }
}

impl<K> PackedObject<K> {
    /// See [`key_of`].
    pub fn key(&self) -> &Arc<str> {
        &self.0.key
    }

    /// The UID; empty if the object has none.
    pub fn uid(&self) -> &Uid {
        &self.0.uid
    }

    /// The resourceVersion, if it is a number.
    pub fn version(&self) -> Option<u64> {
        self.0.version
    }

    /// Whether both are the same version of the same object.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.version.is_some() && self.0.version == other.0.version && self.0.uid == other.0.uid
    }

    /// Whether there is no other reference to it.
    pub fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    fn form(&self) -> MutexGuard<'_, Form<K>> {
        self.0.form.lock()
    }
}

impl<K: Object> PackedObject<K> {
    /// Wraps an object without packing it.
    pub fn new(object: Arc<K>) -> Self {
        let key = key_of(object.as_ref()).into();
        Self::with_key(key, object)
    }

    /// Like [`new`](Self::new), with an existing key, so that the key is not built again.
    pub fn with_key(key: Arc<str>, object: Arc<K>) -> Self {
        let meta = object.meta();
        let uid = Uid::from(meta.uid.as_deref().unwrap_or_default());
        let version = meta.resource_version.as_deref().and_then(|version| version.parse().ok());
        Self(Arc::new(Inner { key, uid, version, form: Mutex::new(Form::Whole(object)) }))
    }

    /// The object, decoded if necessary.
    pub fn get(&self) -> Arc<K> {
        #[cfg(debug_assertions)]
        GETS.set(GETS.get() + 1);
        match &*self.form() {
            Form::Whole(object) => Arc::clone(object),
            Form::Packed(packed) => Arc::new(packed.decode()),
        }
    }

    /// Packs it, for all clones. References to the decoded object stay valid.
    pub fn pack(&self) {
        let object = match &*self.form() {
            Form::Whole(object) => Arc::clone(object),
            Form::Packed(_) => return,
        };
        if let Some(packed) = Packed::of(object.as_ref()) {
            *self.form() = Form::Packed(packed);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_packed(&self) -> bool {
        self.packed_len().is_some()
    }

    #[cfg(test)]
    fn packed_len(&self) -> Option<usize> {
        match &*self.form() {
            Form::Whole(_) => None,
            Form::Packed(packed) => Some(packed.0.len()),
        }
    }
}

/// The length of the JSON in four bytes, followed by the JSON compressed with zstd.
struct Packed(Box<[u8]>);

impl Packed {
    /// Packs an object. Returns `None` if that fails; the object then stays decoded.
    fn of<K: Object>(object: &K) -> Option<Self> {
        let json = object.encode().ok()?;
        let mut bytes = vec![0; 4 + zstd::zstd_safe::compress_bound(json.len())];
        let (len, body) = bytes.split_at_mut(4);
        len.copy_from_slice(&u32::try_from(json.len()).ok()?.to_le_bytes());
        let mut packer = PACKER.lock();
        let used = packer.as_mut()?.compress_to_buffer(&json, body).ok()?;
        bytes.truncate(4 + used);
        Some(Self(bytes.into()))
    }

    fn decode<K: Object>(&self) -> K {
        let (len, body) = self.0.split_at(4);
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let json = UNPACKER.lock().decompress(body, len);
        let json = json.expect("data packed by this process can be unpacked");
        K::decode(&json).expect("JSON encoded from this type can be decoded as this type")
    }
}

#[cfg(test)]
mod tests;
