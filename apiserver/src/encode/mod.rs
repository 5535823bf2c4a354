//! HTTP answers with objects. The encodings are in `orlop-codec`; here are the bodies, and records of the store.

pub(crate) mod answer;
pub(crate) mod list;
pub(crate) mod stored;

pub(crate) use orlop_codec::encode::{negotiate, pretty, protobuf, shape, table};

/// Bodies above this size are compressed, bytes.
pub(crate) const COMPRESS_ABOVE: usize = 128 * 1024;

/// Marks an answer that is long though its length is not known yet.
#[derive(Clone, Copy)]
pub(crate) struct LongBody;
